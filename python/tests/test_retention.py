"""What becomes of the elements of a container, read from its type and from byte code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """
import collections, dataclasses, functools, json, pickle, queue, sys, threading, time, uuid
kept = []; read = []; looked = []; cleared = []; cut = []; cache = {}; ids = {}; uuids = {}
bounded = collections.deque(maxlen=5000); free = collections.deque()
jobs = queue.Queue(); bounded_jobs = queue.Queue(9000)
groups = {"a": [], "b": []}; named = {}; trimmed = []; burnt = []
slots = []; capped = []; checked = []; callbacks = []; windows = {"a": collections.deque()}
local = threading.local()
import pool
pooled = pool.Pool()
class Service:
    def __init__(self):
        self.undo = []; self.items = collections.OrderedDict(); self.replaced = []
        self.given = []; self.aliased = []; self.drained = []; self.extended = []; self.most = 5000
    def fill(self, i):
        self.extended += [text(i)]
        items = self.aliased
        items.append(text(i))
        more = self.drained
        more.append(text(i))
        if i > 10**7:
            more.pop()
    def work(self, i):
        self.undo.append(text(i)); self.items[i] = text(i); self.given.append(text(i))
        if len(self.items) > 100_000:
            self.items.popitem(last=False)
        self.replaced.append(text(i))
    def reset(self):
        self.replaced = []
    def answer(self):
        return self.given
class Study:
    def __init__(self):
        self.trials = []
    def run(self, i):
        self.trials.append(text(i))
@dataclasses.dataclass
class Portfolio:
    trail: list
    def tick(self, i):
        self.trail.append(text(i))
study = Study(); portfolio = Portfolio([])
def text(i):
    return "x" * 100 + str(i)
@functools.lru_cache(maxsize=None)
def endless(i):
    return text(i)
@functools.lru_cache(maxsize=4000)
def limited(i):
    return text(i)
service = Service()
def main():
    epochs = 0
    outputs = []
    while epochs < 1:
        of_epoch = []
        epochs += 1
        for i in range(2000):
            outputs.append(text(i)); of_epoch.append(text(i)); kept.append(text(i))
            read.append(text(i)); looked.append(text(i)); cleared.append(text(i)); cut.append(text(i))
            if i not in cache:
                cache[i] = text(i)
            ids[id(object()) + (i << 12)] = text(i); uuids[str(uuid.uuid4())] = text(i)
            bounded.append(text(i)); free.append(text(i)); jobs.put(text(i)); bounded_jobs.put(text(i))
            if "a" not in named:
                named["a"] = []
            named["a"].append(text(i))
            groups["a"].append(text(i)); groups["b"].append(text(i))
            pooled.put(text(i)); trimmed.append(text(i)); burnt.append(text(i))
            service.work(i); endless(i); limited(i)
            if not hasattr(local, "pages"):
                local.pages = {}
            service.fill(i); study.run(i); portfolio.tick(i); local.pages[i] = text(i)
            slots.append(text(i)); slots[i % 7] = text(i)
            if len(capped) < service.most:
                capped.append(text(i))
            checked.append(text(i)); callbacks.append(lambda i=i: i)
            if len(checked) < 20:
                continue
            window = windows["a"]
            window.append(text(i)); last_ones = [window[-k] for k in range(1, 2)]
            last = looked[-1], looked[-4:], len(looked), "x" in looked, bool(looked)
        report()
    if len(cleared) > 10**6:
        cleared.clear()
    if len(trimmed) > 10**6:
        trimmed[:] = trimmed[-100:]
    print(burnt[100:][:1], file=sys.stderr)
    if len(cut) > 10**6:
        del cut[:100]
    print(len(pickle.dumps(study)), sum(call() for call in callbacks), file=sys.stderr)
    print(sum(map(len, read)), len(outputs), file=sys.stderr)

def report():
    from stormlog import _holders, _retention
    found = _holders.survey(time.monotonic() + 60, counts_host=True, libraries=False)
    rows = {}
    for one in found.containers:
        if one.length >= 1000:
            retention = _retention.retention(one.place, one)
            rows[one.place.name or one.place.scope] = [retention, one.most, one.has_ids]
    json.dump(rows, sys.stdout)
main()
"""

# A library, whose code removes elements.
POOL = """
class Pool:
    def __init__(self):
        self.waiting = []
    def put(self, item):
        self.waiting.append(item)
        if len(self.waiting) > 100_000:
            self.waiting.clear()
"""

EXPECTED: dict[str, list[object]] = {
    "kept": ["kept", None, False],
    "outputs": ["kept", None, False],
    "of_epoch": ["removed", None, False],
    "read": ["read", None, False],
    "looked": ["kept", None, False],
    "cleared": ["removed", None, False],
    "cut": ["removed", None, False],
    "trimmed": ["removed", None, False],
    "burnt": ["read", None, False],
    "pooled.waiting": [None, None, False],
    # The keys are indices, which may come from a collection that ends.
    "cache": ["kept", None, False],
    "ids": ["kept", None, True],
    "uuids": ["kept", None, True],
    "bounded": ["bounded", 5000, False],
    "free": ["kept", None, False],
    "jobs.queue": ["kept", 0, False],
    "bounded_jobs.queue": ["bounded", 9000, False],
    "named['a']": ["kept", None, False],
    "groups['a']": ["kept", None, False],
    "service.undo": ["kept", None, False],
    "service.items": ["removed", None, False],
    "service.replaced": ["removed", None, False],
    "service.given": ["read", None, False],
    "service.aliased": ["kept", None, False],
    "service.drained": ["removed", None, False],
    "service.extended": ["kept", None, False],
    "study.trials": ["read", None, False],
    # Only the generated `__repr__` and `__eq__` read it.
    "portfolio.trail": ["kept", None, False],
    "local.pages": ["kept", None, False],
    "slots": ["bounded", None, False],
    "capped": ["bounded", None, False],
    "checked": ["kept", None, False],
    "callbacks": ["kept", None, False],
    "windows['a']": ["kept", None, False],
    "endless": ["kept", 0, False],
    "limited": ["bounded", 4000, False],
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    return report_of(tmp_path_factory.mktemp("retention"), SOURCE)


def report_of(folder: Path, source: str) -> dict[str, list[object]]:
    """What the program reports about its own containers."""
    libraries = folder / "site-packages"
    libraries.mkdir()
    (libraries / "pool.py").write_text(POOL)
    script = folder / "program.py"
    script.write_text(f"import sys\nsys.path.append({str(libraries)!r})\n{source}")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    rows: dict[str, list[object]] = json.loads(done.stdout)
    return rows


@pytest.mark.parametrize("name", EXPECTED)
def test_what_becomes_of_the_elements(found: dict[str, list[object]], name: str) -> None:
    assert found[name] == EXPECTED[name]


def test_a_prompt_may_read_everything(tmp_path: Path) -> None:
    found = report_of(tmp_path, "sys.ps1 = '>>> '\n" + SOURCE)
    assert found["kept"] == [None, None, False]
