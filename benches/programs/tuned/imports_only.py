# Clean: imports half of the standard library, as command line tools do, does a little and exits.
import argparse, asyncio, concurrent.futures, csv, ctypes, decimal, email, html, http.client  # noqa: E401
import importlib, json, logging, multiprocessing, pathlib, pickle, sqlite3, ssl, statistics  # noqa: E401
import tarfile, unittest, urllib.request, uuid, xml.etree.ElementTree, zipfile  # noqa: E401
import pkgutil, pydoc, doctest, ipaddress, fractions, difflib, inspect, typing  # noqa: E401

from common import pause

print("modules", json.dumps(sorted(["json", "csv"])))
pause(2)
