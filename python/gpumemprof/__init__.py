"""The old import name of ``stormlog``: both names import the same modules."""

import sys

import stormlog
from stormlog._compat.import_alias import install

install("gpumemprof", ("stormlog",))
sys.modules[__name__] = stormlog
