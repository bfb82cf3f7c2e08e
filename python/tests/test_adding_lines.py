"""The lines that add to a container, read from byte code of this interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """
import functools, gc, json, sys
windows = [[], []]
kept = []; cache = {}; table = {"a": []}; names = set(); twice = []; taken = []; more = []; chosen = {}; groups = {}
class Service:
    def __init__(self):
        self.seen = []; self.answers = {}
    def handle(self, request):
        self.seen.append(request)  # seen
        self.answers[request, 1] = len(self.seen)  # answers
def work(item):
    global more
    kept.append(item)  # kept
    if item not in cache:
        cache[item] = str(item) * 3  # cache
    table["a"].append(item)  # table
    names.add(len(cache[item]))  # names
    groups[item % 3].append(item)  # groups
    twice.append(1)  # twice
    twice.extend([item])  # twice
    add = taken.append
    more += [item]  # more
    chosen[item if item else 3] = 1
    window = windows[item]
    last = window
    last.append(item)  # windows
    gc.disable()  # disable
    return [cache, kept, add]
def outer():
    log = []
    own = {}
    def inner(value):
        log.append(value)  # log
    for index in range(3):
        own[index] = work  # own
    return inner
@functools.lru_cache(None)
def lookup(key):
    return key

from stormlog._adding_lines import adding_lines, calls_of
from stormlog._holders import Place
places = {
    "kept": Place("kept", "global", "__main__"),
    "cache": Place("cache", "global", "__main__"),
    "table": Place("table['a']", "global", "__main__"),
    "groups": Place("groups[]", "global", "__main__"),
    "names": Place("names", "global", "__main__"),
    "twice": Place("twice", "global", "__main__"),
    "windows": Place("windows[0]", "global", "__main__"),
    "taken": Place("taken", "global", "__main__"),
    "more": Place("more", "global", "__main__"),
    "chosen": Place("chosen", "global", "__main__"),
    "seen": Place("service.seen", "global", "__main__"),
    "answers": Place("self.answers", "local", "handle"),
    "log": Place("log", "closure", "inner"),
    "own": Place("own", "local", "outer"),
    "lookup": Place("", "cache", "lookup"),
    "deep": Place("table['a'][3]", "global", "__main__"),
}
found = {name: [list(line) for line in adding_lines(place)] for name, place in places.items()}
found["disable"] = [list(line) for line in calls_of("gc", "disable")]
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[object]]]:
    import json

    script = tmp_path_factory.mktemp("lines") / "program.py"
    script.write_text(SOURCE)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    lines: dict[str, list[list[object]]] = json.loads(done.stdout)
    for one in lines.values():
        assert all(Path(str(file)) == script for file, _, _ in one)
    return lines


@pytest.mark.parametrize(
    "name",
    [
        *("kept", "cache", "table", "groups", "names", "twice", "more", "seen", "answers", "log"),
        *("own", "windows", "disable"),
    ],
)
def test_every_line_that_adds_is_found(found: dict[str, list[list[object]]], name: str) -> None:
    lines = SOURCE.splitlines()
    marked = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {name}")]
    assert [number for _, number, _ in found[name]] == marked


@pytest.mark.parametrize("name", ["taken", "chosen", "deep"])
def test_no_line_is_named_where_others_may_add(
    found: dict[str, list[list[object]]], name: str
) -> None:
    assert found[name] == []


def test_a_cache_is_where_its_function_is(found: dict[str, list[list[object]]]) -> None:
    ((_, number, function),) = found["lookup"]
    decorator = SOURCE.splitlines().index("@functools.lru_cache(None)") + 1
    assert (number, function) == (decorator, "lookup")
