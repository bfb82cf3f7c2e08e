"""What an out-of-memory error leaves: the line, the operation and what held the memory."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stormlog import _holders, _oom_cause
from stormlog.tracker import MemoryTracker
from waiting import PATIENCE_S

MIB = 1 << 20


@pytest.fixture(autouse=True)
def rested() -> Iterator[None]:
    _oom_cause._searches.clear()
    yield
    _oom_cause._searches.clear()


def a_model(torch: ModuleType) -> Any:
    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        pass

    model, inner = Net(), Net()
    weight = torch.Tensor(0x1000, nbytes=20 * MIB)
    weight.grad = torch.Tensor(0x2000, nbytes=20 * MIB)
    weight.grad.requires_grad = False
    inner.__dict__.update(_parameters={"weight": weight}, _buffers={}, _modules={})
    model.__dict__.update(_parameters={}, _buffers={}, _modules={"0": inner})
    return model


def an_output(torch: ModuleType, number: int) -> Any:
    tensor = torch.Tensor(0x10000 * (number + 1), nbytes=2 * MIB)
    tensor.requires_grad = False
    return tensor


def train_step(torch: ModuleType, outputs: list[Any]) -> None:
    torch.run_out_of_memory(3 << 30)


def run_out(torch: ModuleType, folder: Path, outputs: list[Any]) -> dict[str, Any]:
    """The cause in the bundle of an error that the program catches."""
    tracker = MemoryTracker(
        sampling_interval=0.005, enable_oom_flight_recorder=True, oom_dump_dir=str(folder)
    )
    with tracker:
        try:
            train_step(torch, outputs)
        except torch.OutOfMemoryError:
            pass
        [event] = tracker.get_events("error")
    [bundle] = folder.iterdir()
    cause = json.loads((bundle / "metadata.json").read_text())["custom_metadata"]["cause"]
    assert event.metadata is not None and event.metadata["oom"]["cause"] == cause
    return dict(cause)


def train(torch: ModuleType, folder: Path) -> dict[str, Any]:
    # Without an `assert`, for which pytest calls `locals()`.
    model, outputs = a_model(torch), [an_output(torch, number) for number in range(4)]
    cause = run_out(torch, folder, outputs)
    del model
    return cause


def test_a_caught_error_names_its_line_and_the_holders(torch: ModuleType, tmp_path: Path) -> None:
    torch.STATE["allocated"] = 50 * MIB
    cause = train(torch, tmp_path / "dumps")
    assert cause["site"]["file"] == __file__
    assert cause["site"]["function"] == "train_step"
    assert cause["site"]["source"] == "torch.run_out_of_memory(3 << 30)"
    assert cause["operation"] == "run_out_of_memory"
    calls = [call["function"] for call in cause["call_path"]]
    assert calls[:2] == ["run_out", "train"]
    assert cause["allocated_bytes"] == 50 * MIB
    assert cause["categories"] == {
        "parameters": 20 * MIB,
        "gradients": 20 * MIB,
        "other_named": 8 * MIB,
        "unnamed": 2 * MIB,
    }
    holders = {one["category"]: one for one in cause["holders"]}
    assert holders["parameters"]["holder"].startswith("local `model` in `train`")
    assert holders["parameters"]["largest"].startswith("model[0].weight in train")
    assert holders["gradients"]["largest"].startswith("model[0].weight.grad in ")
    assert (holders["other_named"]["bytes"], holders["other_named"]["storages"]) == (8 * MIB, 4)
    assert holders["other_named"]["holder"].startswith("local `outputs` in ")


kept: list[Any] = []


def keep(tensor: Any) -> None:
    kept.append(tensor)  # the line that keeps


def deep(calls: int) -> dict[str, Any]:
    return deep(calls - 1) if calls else _oom_cause.of_allocation("cuda:0")


def test_the_line_that_keeps_most_of_the_memory_is_named(torch: ModuleType) -> None:
    for number in range(8):
        keep(an_output(torch, number))
    cause = _oom_cause.of_allocation("cuda:0")
    kept.clear()
    (holder,) = [one for one in cause["holders"] if one["holder"].startswith("`kept` in ")]
    assert holder["kept_role"] == "adds_items"
    assert holder["kept_at"]["source"] == "kept.append(tensor)  # the line that keeps"
    assert (holder["kind"], holder["items"], holder["retention"]) == ("list", 8, "removed")


def test_the_outermost_calls_are_listed_however_deep(torch: ModuleType) -> None:
    path = deep(60)["call_path"]
    functions = [call["function"] for call in path]
    assert len(path) == 23
    assert functions[:15] == ["deep"] * 15 and functions[-1] != "deep"


def test_an_inspection_keeps_nothing_alive(torch: ModuleType, tmp_path: Path) -> None:
    outputs = [an_output(torch, 0)]
    alive = weakref.ref(outputs[0])
    run_out(torch, tmp_path / "dumps", outputs)
    outputs.clear()
    assert alive() is None


def test_many_errors_in_a_row_cost_three_searches(torch: ModuleType) -> None:
    kept = [an_output(torch, number) for number in range(2)]
    causes = [_oom_cause.of_allocation("cuda:0") for _ in range(5)]
    assert ["holders" in cause for cause in causes] == [True, True, True, False, False]
    assert causes[4]["site"]["file"] == __file__
    assert causes[4]["cut_short"] == "the program has run out of memory several times"
    assert len(kept) == 2


def test_a_search_that_fails_costs_no_bundle(
    torch: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines = []

    def fail(deadline: float, **options: object) -> None:
        deadlines.append(deadline - time.monotonic())
        raise RecursionError

    monkeypatch.setattr(_holders, "survey", fail)
    cause = run_out(torch, tmp_path / "dumps", [])
    assert cause["site"]["function"] == "train_step"
    assert cause["cut_short"] == "the search failed: RecursionError"
    assert 0 < deadlines[0] <= 1.5


def test_host_memory_that_runs_out_names_its_holder(tmp_path: Path) -> None:
    script = tmp_path / "load.py"
    script.write_text(
        textwrap.dedent("""\
            rows = []

            def load(number):
                rows.append("x" * 1_000_000)
                if number == 20:
                    return bytearray(1 << 62)

            for number in range(100):
                load(number)
            """)
    )
    folder = tmp_path / "run"

    def stormlog(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "stormlog", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)

    ran = stormlog("run", "--dir", str(folder), "--", sys.executable, str(script))
    assert ran.returncode == 1, ran.stderr
    analyzed = stormlog("analyze", str(folder), "--format", "json")
    [finding] = json.loads(analyzed.stdout)["findings"]
    cause = finding["cause"]
    # The line that fills what holds most of the memory leads, then the line that failed.
    assert (cause["site_role"], cause["site"]["line"]) == ("adds_items", 4)
    failed = cause["allocated_at"]
    assert (failed["line"], failed["function"]) == (6, "load")
    assert failed["source_text"] == "return bytearray(1 << 62)"
    assert [call["line"] for call in cause["call_path"]] == [9]
    first = cause["failure"]["holders"][0]
    assert first["holder"] == "`rows` in `__main__`"
    assert 21_000_000 < first["bytes"] < 22_000_000
    operation = "bytearray" if sys.version_info >= (3, 11) else None
    assert cause["failure"]["operation"] == operation
    assert "at load.py:6 in `load` (`return bytearray(1 << 62)`" in finding["explanation"]
    assert "held by: `rows` in `__main__` 20.0 MiB" in finding["explanation"]
