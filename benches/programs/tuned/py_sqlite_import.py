# Clean: imports rows into a database file; SQLite's page cache fills up to its limit of 64 MiB.
import os
import random
import sqlite3
import tempfile

from common import until

rng = random.Random(0)
with tempfile.TemporaryDirectory() as folder:
    base = sqlite3.connect(os.path.join(folder, "rows.db"))
    base.execute("pragma cache_size = -65536")
    base.execute("pragma synchronous = off")
    base.execute("create table rows (id integer primary key, name text, body text)")
    for i in until(per_second=10):
        rows = [(f"name {rng.randrange(10**6)}", "b" * rng.randrange(500, 2000)) for _ in range(1000)]
        with base:
            base.executemany("insert into rows (name, body) values (?, ?)", rows)
    print("rows", base.execute("select count(*), sum(length(body)) from rows").fetchone())
    base.close()
