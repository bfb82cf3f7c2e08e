"""The lines that make memory stay, read from byte code of this interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SOURCE = """
import collections, json, queue, sys
import library
model, optimizer, metric = library.Model(), library.Optimizer(), library.Metric()
jobs = queue.Queue(); table = collections.defaultdict(list); twice = []
class Net:
    def __init__(self):
        self.hidden = None; self.center = 0; self.last = None
    def reset(self):
        self.hidden = None
    def forward(self, x):
        self.hidden = self.cell(x, self.hidden)  # hidden
        self.last = x  # last
        for layer in x:
            x = layer(x)  # x
        return x
net = Net()
def watch(module):
    module.register_forward_hook(print)  # hook
def cycle(parts):
    optimizer.add_param_group(parts)  # group
def again(session):
    model.register_buffer(str(session), session)  # buffer
def keep(item, slow):
    if slow:
        twice.append(item)  # first
    else:
        twice.append(item + 1)  # second
counted = 0
def count(loss):
    global counted
    counted = counted + loss  # counted
def main(steps):
    state = None; state = steps; total = 0; loss = None; pair = (0, 0); reset = 0; replaced = 1
    for step in steps:
        loss = net.forward(step)
        loss.backward()
        out, state = net.lstm(step, state)  # state
        pair = net.lstm(step, pair)  # pair
        total += loss  # total
        reset = reset + step  # reset
        if not step:
            reset = 0
        replaced = step
        replaced = replaced + 1
        table[step].append(loss)  # table
        jobs.put(loss)  # jobs
        metric.update(loss)  # metric
    return total
optimizer.register_step_post_hook(print)
h = 0
for step in range(2):
    h = library.cell(step, h)  # h
    seen = library.cell(step, h)
if __name__ == "__main__":
    from stormlog import _keeping_lines
    from stormlog._adding_lines import Reading
    from stormlog._holders import Container, Holder, Place
    def at(name, relation, scope, category="other_named", length=None, is_model=False):
        place = Place(name, relation, scope)
        has = length is not None
        own = Container(place, "list", 1, length, 0, 900, True) if has else None
        whole = place if has or is_model else None
        return Holder(1, 1, "cuda:0", category, place, whole, own)
    of_main = ("local", "main")
    holders = {
        "hidden": at("net.hidden", "global", "__main__"),
        "last": at("net.last", "global", "__main__"),
        "x": at("x", "local", "forward"),
        "hook": at("model.layers[0]._forward_hooks", "global", "__main__", length=5),
        "first hook": at("model.layers[0]._forward_hooks", "global", "__main__", length=1),
        "group": at("optimizer.param_groups", "global", "__main__", "parameters", length=4),
        "buffer": at("model", "global", "__main__", "parameters", is_model=True),
        "no variable": at("", "unreached", "a module", "parameters", is_model=True),
        "step hook": at("optimizer._optimizer_step_post_hooks", "global", "__main__", length=9),
        "counted": at("counted", "global", "__main__"),
        "total": at("total", *of_main), "state": at("state[0]", *of_main),
        "pair": at("pair", *of_main), "loss": at("loss", *of_main),
        "reset": at("reset", *of_main), "replaced": at("replaced", *of_main),
        "table": at("table", "global", "__main__", length=9),
        "jobs": at("jobs.queue", "global", "__main__", length=9),
        "metric": at("metric.values", "global", "__main__", length=9),
        "h": at("h", "global", "__main__"), "seen": at("seen", "global", "__main__"),
        "twice": at("twice", "global", "__main__", length=9),
    }
    here = {number: line for number, line in enumerate(open(__file__), 1)}
    second = next(number for number, line in here.items() if line.endswith("# second\\n"))
    stacks = {"none": (), "second": [{(__file__, second), (__file__, 1)}]}
    rows = {}
    for key, stack in stacks.items():
        for name, holder in holders.items():
            for carried in (False, True):
                found = _keeping_lines.keeping([holder], stack, Reading(), only_carried=carried)
                record = found.record() if found else {}
                at_line = record.get("kept_at", {}).get("line")
                rows[f"{name}/{key}/{carried}"] = [record.get("kept_role"), at_line]
    rows["facts"] = _keeping_lines.facts(holders["twice"])
    json.dump(rows, sys.stdout)
"""

# What the program does not contain: its code is not the user's.
LIBRARY = """
class Model:
    def register_forward_hook(self, hook): pass
    def register_buffer(self, name, value): pass
class Optimizer:
    def add_param_group(self, group): self.param_groups = [group]
    def register_step_post_hook(self, hook): pass
class Metric:
    def __init__(self): self.values = []
    def update(self, value): self.values.append(value)
def cell(x, h): return h
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    folder = tmp_path_factory.mktemp("keeping")
    libraries = folder / "site-packages"
    libraries.mkdir()
    (libraries / "library.py").write_text(LIBRARY)
    script = folder / "program.py"
    script.write_text(f"import sys\nsys.path.append({str(libraries)!r})\n{SOURCE}")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows: dict[str, list[object]] = json.loads(done.stdout)
    return rows


def line_of(mark: str) -> int:
    lines = ["", "", *SOURCE.splitlines()]
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))


ROLES = {
    "assigns": ["hidden", "counted", "total", "state", "pair", "reset", "h"],
    "registers": ["hook", "group"],
    "adds_items": ["table", "jobs", "metric"],
}


@pytest.mark.parametrize("role", ROLES)
def test_the_only_line_that_keeps_is_found(found: dict[str, list[object]], role: str) -> None:
    expected = {name: [role, line_of(name)] for name in ROLES[role]}
    assert {name: found[f"{name}/none/False"] for name in ROLES[role]} == expected
    assert {name: found[f"{name}/none/True"] for name in ROLES[role]} == expected


def test_growth_must_be_known_for_some_lines(found: dict[str, list[object]]) -> None:
    assert found["buffer/none/False"] == ["registers", line_of("buffer")]
    assert found["last/none/False"] == ["assigns", line_of("last")]
    assert found["buffer/none/True"] == found["last/none/True"] == [None, None]


@pytest.mark.parametrize(
    "name", ["loss", "seen", "replaced", "first hook", "step hook", "no variable"]
)
def test_no_line_is_named_that_replaces_or_runs_once(
    found: dict[str, list[object]], name: str
) -> None:
    assert found[f"{name}/none/False"] == [None, None]


def test_of_several_lines_the_stacks_decide(found: dict[str, list[object]]) -> None:
    assert found["twice/none/False"] == [None, None]
    assert found["twice/second/False"] == ["adds_items", line_of("second")]


def test_what_is_known_of_a_collection_is_recorded(found: dict[str, list[object]]) -> None:
    expected = {"kind": "list", "items": 9, "most_items": 900, "has_ids": True}
    assert found["facts"] == expected
