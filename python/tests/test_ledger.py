"""The ledger of a device, over stand-ins for PyTorch and the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stormlog import _core, _ledger, _run
from stormlog._evidence.budget import LIMIT_S, Budget
from stormlog.telemetry_sink import TelemetrySinkConfig
from stormlog.tracker import MemoryTracker

MIB = 1 << 20
CONTEXT = _ledger.Context(600 * MIB, None)


class Driver:
    """What the driver reports of GPU 0."""

    def __init__(self) -> None:
        self.shares: dict[int, int] | None = {os.getpid(): 700 * MIB, 1: 300 * MIB}
        self.used = 1100 * MIB
        self.held: list[dict[str, Any]] = []
        self.state: tuple[str, str | None] = ("off", None)
        # Called before each reading.
        self.meanwhile: Any = lambda: None

    def device_shares(self, index: int) -> Any:
        self.meanwhile()
        if self.shares is None:
            return None
        return self.used, 80 << 30, list(self.shares.items())


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    monkeypatch.setattr(_core, "device_shares", found.device_shares)
    monkeypatch.setattr(_core, "nvml_gpus", lambda: [{"index": 0, "uuid": "GPU-7"}])
    monkeypatch.setattr(_core, "driver_held", lambda: (json.loads(json.dumps(found.held)), 0))
    monkeypatch.setattr(_core, "driver_state", lambda: found.state)
    monkeypatch.setattr(_core, "process_name", lambda pid: "python serve.py")
    return found


class Allocator:
    """PyTorch with these bytes in its pool."""

    def __init__(self, reserved: int = 100 * MIB) -> None:
        self.reserved = reserved
        self.segments = [
            {"device": 0, "segment_pool_id": (0, 0), "total_size": 80, "allocated_size": 8},
            {"device": 0, "segment_pool_id": (0, 3), "total_size": 20, "allocated_size": 2},
            {"device": 1, "segment_pool_id": (0, 3), "total_size": 70, "allocated_size": 7},
        ]
        self.torch: Any = ModuleType("torch")
        self.torch.cuda = SimpleNamespace(
            get_device_properties=lambda index: SimpleNamespace(uuid="7"),
            is_initialized=lambda: True,
        )
        self.torch._C = SimpleNamespace(
            _cuda_memoryStats=self._stats,
            _cuda_memorySnapshot=lambda pool: {"segments": self.segments},
            _cuda_isHistoryEnabled=lambda: False,
        )

    def _stats(self, index: int) -> dict[str, Any]:
        def group(current: int) -> dict[str, Any]:
            return {"all": {"current": current}}

        return {
            "reserved_bytes": group(self.reserved),
            "allocated_bytes": group(self.reserved // 2),
            "active": group(3),
            "inactive_split": group(1),
        }


def measured(allocator: Allocator, age_s: float = 0.0) -> _ledger.Context:
    """The context of a device that had none so many seconds ago."""
    return _ledger.measure_context(allocator.torch, 0, time.monotonic() - age_s)


def test_a_context_is_measured_when_it_is_new(driver: Driver) -> None:
    assert measured(Allocator()) == CONTEXT


def test_a_context_is_never_what_is_left_over(driver: Driver) -> None:
    late = measured(Allocator(), 1.0)
    assert late.bytes is None and late.reason is not None and "1.0 s" in late.reason
    driver.shares = {1: 5}
    assert measured(Allocator()).reason == ("the NVIDIA driver does not list this process")


def test_a_context_is_not_measured_while_the_program_allocates(driver: Driver) -> None:
    def allocate() -> None:
        assert driver.shares is not None
        driver.shares[os.getpid()] += 2 * MIB

    driver.meanwhile = allocate
    found = measured(Allocator())
    assert found.bytes is None and found.reason is not None and "faster" in found.reason


def test_what_libraries_allocated_is_not_the_context(driver: Driver) -> None:
    driver.state = ("on", None)
    of = {"device": 0, "kind": "device", "blocks": 1}
    driver.held = [
        {**of, "library": "libc10_cuda.so", "bytes": 100 * MIB},
        {**of, "library": "libcublas.so.13", "bytes": 60 * MIB},
        {**of, "library": "a.so", "bytes": 999 * MIB, "kind": "managed"},
    ]
    assert measured(Allocator()) == _ledger.Context(540 * MIB, None)
    driver.held.append({**of, "library": "libcudnn.so", "kind": "array", "bytes": None})
    assert "arrays" in str(measured(Allocator()).reason)


def test_a_context_alone_is_measured_when_it_is_surely_complete(driver: Driver) -> None:
    began = time.monotonic()
    assert measured(Allocator(0)) == _ledger.Context(700 * MIB, None)
    assert time.monotonic() - began > 0.1


def recorded(
    torch: ModuleType, budget: Budget | None = None
) -> tuple[_ledger.DeviceLedger, list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []
    ledger = _ledger.DeviceLedger(
        torch,
        0,
        CONTEXT,
        lambda _, metadata: found.append(metadata["ledger"]),
        budget or Budget(),
    )
    return ledger, found


def test_the_entries_of_a_device(driver: Driver) -> None:
    ledger, found = recorded(Allocator().torch)
    ledger.record()
    [entries] = found
    assert (entries["used_bytes"], entries["process_bytes"]) == (1100 * MIB, 700 * MIB)
    assert entries["context"] == {"bytes": 600 * MIB, "reason": None}
    assert entries["private_pools"] == {"pools": 1, "reserved_bytes": 20, "allocated_bytes": 2}
    assert entries["others"] == [{"pid": 1, "name": "python serve.py", "bytes": 300 * MIB}]
    assert entries["libraries"] is None, "not known is not none"


def test_a_ledger_is_recorded_when_it_has_changed(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ledger, "_READ_S", 0.0)
    monkeypatch.setattr(_ledger, "_FIRST_S", 0.0)
    ledger, found = recorded(Allocator().torch)
    ledger.look()
    named: list[int] = []
    monkeypatch.setattr(_core, "process_name", named.append)
    ledger.look()
    assert len(found) == 1
    assert named == [], "no name is read for a ledger that is not recorded"
    assert driver.shares is not None
    driver.shares[4] = 900 * MIB
    ledger.look()
    assert len(found) == 2


def test_a_snapshot_of_the_pools_is_part_of_the_budget_of_windows(driver: Driver) -> None:
    budget = Budget()
    ledger, found = recorded(Allocator().torch, budget)
    ledger.record()
    assert budget.total_s > 0 and found[0]["private_pools"] is not None
    budget.spend(LIMIT_S, time.monotonic())
    before = budget.total_s
    ledger.record()
    assert found[1]["private_pools"] is None, "unknown, as no time is left"
    assert budget.total_s == before


def test_arrays_are_recorded_without_a_size(driver: Driver) -> None:
    driver.state = ("on", None)
    of = {"device": 0, "library": "libcudnn.so.9", "blocks": 2}
    driver.held = [{**of, "kind": "array", "bytes": None}, {**of, "kind": "device", "bytes": 5}]
    ledger, found = recorded(Allocator().torch)
    ledger.record()
    kinds = {one["kind"]: one["bytes"] for one in found[0]["libraries"]}
    assert kinds == {"array": None, "device": 5}


class Run(_run._Recording):
    """A recording that starts nothing."""

    def __init__(self) -> None:
        super().__init__(Path(), Path(), 0.1)


def test_the_context_of_every_device_is_measured_when_it_appears(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[list[int]] = []
    asked_every: list[float] = []
    # The contexts found by each wait: device 2, made by another library; device 0; none; and much
    # later device 1.
    answers = [([2], None), ([0], 0.01), ([], 0.1), ([1], 0.9)]

    def wait(known: list[int], every_s: float, patience_s: float) -> Any:
        waits.append(known)
        asked_every.append(every_s)
        return answers.pop(0)

    torch = Allocator().torch
    monkeypatch.setattr(_core, "wait_for_contexts", wait)
    monkeypatch.setattr(_run, "loaded_torch", lambda: torch)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    clock = [50.0]
    recording = Run()
    recording._cuda_starts()
    recording._cuda_started()
    assert "before PyTorch" in str(recording._contexts[2].reason)
    for now in (50.1, 50.2, 600.0):
        clock[0] = now
        if now == 600.0:
            # The wait of 0.9 s ends when the context is there.
            monkeypatch.setattr(time, "monotonic", ticking(600.0, 600.91))
        recording._pause()
    assert waits == [[], [2], [2, 0], [2, 0]]
    # The driver is asked often while a context may be expected, in a long run only with each look.
    assert asked_every[1:] == [_run._ASK_S, _run._ASK_S, _run._LOOK_OFTEN_S]
    assert recording._contexts[0] == recording._contexts[1] == CONTEXT


def ticking(first: float, then: float) -> Any:
    times = iter([first])
    return lambda: next(times, then)


def test_without_the_driver_nothing_is_recorded(driver: Driver) -> None:
    driver.shares = None
    ledger, found = recorded(Allocator().torch)
    ledger.record()
    assert found == []


def test_commands_show_what_uses_a_device(torch: ModuleType, tmp_path: Path) -> None:
    entries = {
        "version": 1,
        "device": 0,
        "used_bytes": 1000 * MIB,
        "reserved_bytes": 300 * MIB,
        "context": {"bytes": 200 * MIB, "reason": None},
        "private_pools": {"pools": 1, "reserved_bytes": 100 * MIB, "allocated_bytes": 5},
        "others": [{"pid": 12, "name": "python serve.py", "bytes": 250 * MIB}],
        "driver": {"state": "on", "reason": None},
        "libraries": [
            {"library": "libcublas.so.13", "kind": "device", "bytes": 150 * MIB, "blocks": 6}
        ],
    }
    sink = TelemetrySinkConfig(root_dir=tmp_path / "sink")
    with MemoryTracker(sampling_interval=0.01, telemetry_sink_config=sink) as tracker:
        owner: Any = tracker._owner
        owner.core.record(_ledger.EVENT_TYPE, 0, "What uses device 0", {"ledger": entries})
    for command in ("analyze", "show"):
        words = [sys.executable, "-m", "stormlog", command, str(tmp_path / "sink")]
        words += ["-v"] if command == "analyze" else []
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        assert "What uses GPU 0" in text, text
        assert "250 MiB  process 12 (python serve.py)" in text
        assert "150 MiB  libcublas.so.13" in text
        assert "100 MiB  not explained (10.0 %)" in text
        flags = ["--format", "json"] if command == "analyze" else ["--json"]
        shown = subprocess.run([*words, *flags], capture_output=True, text=True, check=True)
        [ledger] = json.loads(shown.stdout)["runs"][0]["ledgers"]
        assert (ledger["used_bytes"], ledger["rest_bytes"]) == (1000 * MIB, 100 * MIB)
        assert [entry["owner"] for entry in ledger["entries"]] == [
            "pool",
            "private_pools",
            "context",
            "library",
            "process",
        ]
