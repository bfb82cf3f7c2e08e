"""Evidence windows over a stand-in for PyTorch whose allocator the tests drive."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stormlog import _run_evidence
from stormlog._evidence import budget, requests, survivors
from stormlog._evidence.history import turn
from stormlog._evidence.rhythm import Rhythm
from stormlog.telemetry_sink import TelemetrySinkConfig
from stormlog.tracker import MemoryTracker
from waiting import wait_until

KIB = 1 << 10
LIBRARY = ("/x/lib/python3.11/site-packages/torch/nn/linear.py", 5, "forward")
LEAK = (LIBRARY, ("/home/u/train.py", 8, "keep"), ("/home/u/train.py", 20, "<module>"))
WORK = (LIBRARY, ("/home/u/net.py", 3, "forward"), ("/home/u/train.py", 19, "<module>"))


class Program:
    """A training loop that leaks a block every `leaks_every` steps."""

    def __init__(self, torch: ModuleType, evidence: Any, leaks_every: int = 0) -> None:
        self.torch, self.evidence, self.leaks_every = torch, evidence, leaks_every
        self.optimizer = torch.optim.Optimizer()
        self.step_number = 0
        self.live: list[int] = []

    def step(self) -> None:
        self.step_number += 1
        for address in self.live:
            self.torch.free(address)
        self.live = [self.torch.malloc(64 * KIB, *WORK) for _ in range(5)]
        if self.leaks_every and self.step_number % self.leaks_every == 0:
            self.torch.malloc(128 * KIB, *LEAK)
        self.optimizer.step()
        time.sleep(0.001)

    def run_until(self, condition: Callable[[], object]) -> None:
        def stepped() -> object:
            self.step()
            return condition()

        wait_until(stepped)


@pytest.fixture(autouse=True)
def ample_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are wall time, so a busy machine alone would use up the budget of a user's run."""
    monkeypatch.setattr(budget, "LIMIT_S", 60.0)


@pytest.fixture
def tracker(torch: ModuleType, tmp_path: Path) -> Iterator[MemoryTracker]:
    sink = TelemetrySinkConfig(root_dir=tmp_path / "sink")
    with MemoryTracker(sampling_interval=0.01, telemetry_sink_config=sink) as tracker:
        yield tracker


@pytest.fixture
def evidence(torch: ModuleType, tracker: MemoryTracker) -> _run_evidence.DeviceEvidence:
    found = _run_evidence.of_tracker(0, tracker, budget.Budget())
    assert found is not None
    return found


def states(tracker: MemoryTracker) -> list[dict[str, Any]]:
    found = tracker.get_events(_run_evidence.EVENT_TYPE)
    return [event.metadata["evidence"] for event in found]


def ended(tracker: MemoryTracker) -> Callable[[], bool]:
    return lambda: any(state["state"] == "ended" for state in states(tracker))


def switched(torch: ModuleType) -> list[Any]:
    return [enabled for enabled, _ in torch.HISTORY["calls"]]


def test_a_rising_level_opens_windows_that_name_the_line(
    torch: ModuleType, tracker: MemoryTracker, evidence: Any
) -> None:
    program = Program(torch, evidence, leaks_every=4)
    program.run_until(ended(tracker))
    *_, last = states(tracker)
    assert (last["asked_by"], last["mode"], last["reason"]) == ("growth", "steps", None)
    assert len(last["windows"]) == 4
    for window in last["windows"]:
        assert window["growth_bytes"] == window["survivor_bytes"] == 256 * KIB
        assert window["sites"] == [{"stack": 0, "bytes": 256 * KIB, "blocks": 2}]
    innermost, outer = last["stacks"][0]
    assert (innermost["file"], innermost["line"], innermost["function"]) == LEAK[1]
    assert outer["line"] == 20
    assert last["cost_ms"] > 0
    # On and off for each window, and no list of entries.
    assert switched(torch) == ["state", None] * 4
    assert not torch.HISTORY["enabled"]
    # The answer is there: no more windows.
    before = len(switched(torch))
    until = time.monotonic() + 4
    program.run_until(lambda: time.monotonic() > until)
    assert len(switched(torch)) == before


class Keeper:
    """A program that keeps what it allocates in a list."""

    def __init__(self) -> None:
        self.outputs: list[Any] = []

    def keep(self, tensor: object) -> None:
        self.outputs.append(tensor)  # the line that keeps


# A global variable, because the search does not read the local variables of functions with an
# `assert`, for which pytest calls `locals()`.
keeper = Keeper()


def test_the_line_that_keeps_the_memory_is_recorded(
    torch: ModuleType, tracker: MemoryTracker, evidence: Any
) -> None:
    class Leaking(Program):
        def step(self) -> None:
            super().step()
            if self.step_number % 4 == 0:
                address = self.torch.malloc(128 * KIB, *LEAK)
                keeper.keep(self.torch.Tensor(address, nbytes=128 * KIB))

    program = Leaking(torch, evidence)
    program.run_until(ended(tracker))
    *_, last = states(tracker)
    (holder,) = [one for one in last["holders"] if "outputs" in one["holder"]]
    kept = holder["kept_at"]
    assert (kept["file"], kept["function"]) == (__file__, "keep")
    assert kept["source"] == "self.outputs.append(tensor)  # the line that keeps"
    assert (holder["kept_role"], holder["kind"]) == ("adds_items", "list")
    # A program may end while its code is read, so the holder is recorded before.
    before = [state["holders"] for state in states(tracker)]
    assert any(holders and "kept_at" not in holders[0] for holders in before)


def test_windows_wait_for_a_leak_with_a_rhythm(
    torch: ModuleType, tracker: MemoryTracker, evidence: Any
) -> None:
    program = Program(torch, evidence, leaks_every=40)
    program.step()
    evidence._windows.request()
    program.run_until(ended(tracker))
    *_, last = states(tracker)
    # The first ones open before the rhythm is known: on a busy machine more than one.
    due = [window for window in last["windows"] if window["steps"] == 3]
    assert due
    for window in due:
        assert window["growth_bytes"] == 128 * KIB
        assert window["sites"] == [{"stack": 0, "bytes": 128 * KIB, "blocks": 1}]
    assert last["stacks"][0][0]["line"] == 8


def rhythm_of(rises: list[int]) -> Rhythm:
    rhythm, level = Rhythm(), 100
    for step in range(rises[-1] + 1):
        level += step in rises
        rhythm.at(step, level - step % 2)
    return rhythm


def test_a_rhythm_is_an_even_distance_of_rises() -> None:
    rhythm = rhythm_of([20, 60, 101, 140])
    assert rhythm.period() == 40
    assert [rhythm.due_in(step) for step in (140, 141, 179, 180, 181)] == [40, 39, 1, 40, 39]
    assert rhythm_of([20, 60]).due_in(70) is None
    assert rhythm_of([20, 60, 61, 140]).due_in(150) is None
    assert rhythm.due_in(150, longer_than=40) is None
    # A start without a rhythm is forgotten.
    assert rhythm_of([1, 2, 5, *range(40, 281, 40)]).period() == 40


def test_a_rhythm_is_not_looked_for_without_end() -> None:
    rhythm = Rhythm()
    while rhythm.wants():
        rhythm.at(0, 0)
    assert rhythm.due_in(1) is None


def test_a_clean_loop_opens_no_window(
    torch: ModuleType, tracker: MemoryTracker, evidence: Any
) -> None:
    until = time.monotonic() + 5
    Program(torch, evidence).run_until(lambda: time.monotonic() > until)
    assert states(tracker) == [] and switched(torch) == [] and torch.COUNTS["snapshots"] == 0


def test_windows_on_request_show_that_nothing_survives(
    torch: ModuleType, tracker: MemoryTracker, evidence: Any
) -> None:
    # The sink is opened on a thread of its own.
    wait_until(evidence._directory)
    directory = evidence._directory()
    (directory / requests.REQUEST).write_text("abc123")
    os.chmod(directory / requests.REQUEST, 0o600)
    program = Program(torch, evidence)
    program.step()
    evidence.look()
    program.run_until(ended(tracker))

    def answered() -> dict[str, Any]:
        return json.loads((directory / requests.ANSWER).read_text())  # type: ignore[no-any-return]

    # The event is recorded before the answer is written.
    wait_until(lambda: answered()["evidence"]["state"] == "ended")
    answer = answered()
    assert answer["request"] == "abc123"
    assert answer["evidence"]["state"] == "ended"
    assert [window["survivors"] for window in answer["evidence"]["windows"]] == [0, 0, 0, 0]
    assert not (directory / requests.REQUEST).exists()


def test_a_history_of_the_program_is_used_and_left_on(
    torch: ModuleType, tracker: MemoryTracker, evidence: Any
) -> None:
    torch.cuda.memory._record_memory_history(enabled="all")
    program = Program(torch, evidence, leaks_every=4)
    program.step()
    evidence._windows.request()
    program.run_until(ended(tracker))
    *_, last = states(tracker)
    for window in last["windows"]:
        leaked, steps = window["sites"][0], window["survivors"]
        assert leaked["stack"] == 0 and leaked["blocks"] > 1 and steps <= leaked["blocks"] + 5
        assert leaked["bytes"] <= window["growth_bytes"] + 5 * 64 * KIB
    assert switched(torch) == ["all"] and torch.HISTORY["enabled"]


def test_a_history_that_the_program_begins_in_a_window_stays_on(
    torch: ModuleType, tracker: MemoryTracker, evidence: Any
) -> None:
    program = Program(torch, evidence, leaks_every=4)
    program.step()
    evidence._windows.request()
    program.run_until(lambda: torch.HISTORY["enabled"])
    torch.cuda.memory._record_memory_history(enabled="all")
    program.run_until(ended(tracker))
    assert "began to record" in states(tracker)[-1]["reason"]
    assert torch.HISTORY["enabled"] and switched(torch) == ["state", "all"]


def test_too_many_blocks_open_no_window_and_give_the_reason(
    torch: ModuleType, tracker: MemoryTracker, evidence: Any
) -> None:
    torch.STATE["free_blocks"] = 40_000
    program = Program(torch, evidence)
    program.step()
    evidence._windows.request()
    program.run_until(ended(tracker))
    (state,) = states(tracker)
    assert "40,005 blocks is estimated to take 64 ms" in state["reason"]
    assert torch.COUNTS["snapshots"] == 0 and switched(torch) == []


def test_a_failure_ends_the_windows_and_stays_out_of_the_program(
    torch: ModuleType, tracker: MemoryTracker, evidence: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(pool: object) -> None:
        raise RuntimeError("no snapshot today")

    monkeypatch.setattr(torch._C, "_cuda_memorySnapshot", fails)
    program = Program(torch, evidence, leaks_every=4)
    program.step()
    evidence._windows.request()
    program.run_until(ended(tracker))
    assert states(tracker)[-1]["reason"] == "RuntimeError: no snapshot today"
    assert evidence._hook.watcher_error == "no snapshot today"
    assert not torch.HISTORY["enabled"]


def test_the_record_goes_off_when_a_step_does_not_end(
    torch: ModuleType, tracker: MemoryTracker, evidence: Any
) -> None:
    program = Program(torch, evidence)
    program.step()
    evidence._windows.request()
    program.run_until(lambda: torch.HISTORY["enabled"])

    def evaluated() -> bool:
        for _ in range(5_000):
            torch.free(torch.malloc(KIB, *WORK))
        return not torch.HISTORY["enabled"]

    wait_until(evaluated)
    # The search goes on with the next windows and reaches its end.
    program.run_until(ended(tracker))
    assert not torch.HISTORY["enabled"]


def test_no_window_begins_while_a_graph_is_captured(
    torch: ModuleType, tracker: MemoryTracker, evidence: Any
) -> None:
    torch.STATE["capturing"] = True
    program = Program(torch, evidence)
    program.step()
    evidence._windows.request()
    for _ in range(50):
        program.step()
    assert switched(torch) == []
    torch.STATE["capturing"] = False
    program.run_until(ended(tracker))


def test_a_program_without_steps_is_looked_at_by_time(
    torch: ModuleType, tracker: MemoryTracker, evidence: Any
) -> None:
    def served() -> bool:
        torch.malloc(128 * KIB, *LEAK)
        time.sleep(0.005)
        evidence.look()
        return ended(tracker)()

    wait_until(served)
    last = states(tracker)[-1]
    assert (last["mode"], last["asked_by"]) == ("time", "growth")
    assert len(last["windows"]) >= 5 and last["reason"] is None
    assert {site["stack"] for window in last["windows"] for site in window["sites"]} == {0}


def test_an_address_that_is_used_again_is_another_block() -> None:
    def block(address: int, line: int) -> Any:
        return (0, address, 100, [{"filename": "/u/a.py", "line": line, "name": "f"}])

    found = survivors.Survivors(0)
    found.add(survivors.Window(8, 0.1, 200), [block(1, 5), block(2, 5)])
    # Block 2 is gone, block 3 is new, and another device has blocks of its own.
    other = (1, 9, 100, [{"filename": "/u/b.py", "line": 1, "name": "f"}])
    found.add(survivors.Window(8, 0.1, 100), [block(1, 5), block(3, 6), other])
    # The address of block 2 is in use again.
    found.add(survivors.Window(8, 0.1, 100), [block(1, 5), block(3, 6), block(2, 7), other])
    described = found.describe()
    assert [window["survivors"] for window in described["windows"]] == [1, 1, 1]
    assert [stack[0]["line"] for stack in described["stacks"]] == [5, 6, 7]


def test_frames_of_libraries_are_no_sites() -> None:
    def frame(file: str) -> dict[str, Any]:
        return {"filename": file, "line": 1, "name": "f"}

    files = [LIBRARY[0], "/tmp/torchinductor_u/ab/cd.py", "/home/u/train.py", "<frozen runpy>"]
    assert survivors.users_stack([frame(file) for file in files]) == (("/home/u/train.py", 1, "f"),)
    assert survivors.users_stack([frame(LIBRARY[0])]) == ()


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_request_that_others_can_write_does_not_count(tmp_path: Path, mode: int) -> None:
    path = tmp_path / requests.REQUEST
    path.write_text("abc")
    path.chmod(mode)
    assert requests.take(tmp_path) is None


def test_a_request_is_no_link_and_has_an_id(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("abc")
    (tmp_path / requests.REQUEST).symlink_to(tmp_path / "secret")
    assert requests.take(tmp_path) is None
    (tmp_path / requests.REQUEST).unlink()
    for text in ("../x", "", "a" * 300):
        (tmp_path / requests.REQUEST).write_text(text)
        (tmp_path / requests.REQUEST).chmod(0o600)
        assert requests.take(tmp_path) is None
    (tmp_path / requests.REQUEST).write_text("abc\n")
    (tmp_path / requests.REQUEST).chmod(0o600)
    assert requests.take(tmp_path) == "abc"
    assert requests.take(tmp_path) is None


def test_a_search_without_an_answer_rests_before_the_next(
    torch: ModuleType, tracker: MemoryTracker, evidence: Any
) -> None:
    torch.STATE["free_blocks"] = 40_000
    search = evidence._windows.search
    program = Program(torch, evidence)
    program.step()
    evidence._windows.request()
    program.run_until(lambda: ended(tracker)() and not search.may_begin())
    assert not search.is_answered
    # A request is answered all the same.
    evidence._windows.request()
    program.run_until(lambda: len(states(tracker)) == 2)


def test_a_recording_that_vanishes_is_no_failure(
    evidence: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(directory: Path) -> None:
        raise FileNotFoundError(directory)

    monkeypatch.setattr(requests, "take", fails)
    evidence.look()


def test_the_budget_comes_back_after_a_minute() -> None:
    limit_s = budget.LIMIT_S
    spent = budget.Budget()
    spent.pause(0.2, 100.0)
    spent.spend(0.05, 110.0)
    assert spent.left(120.0) == pytest.approx(limit_s - 0.25)
    assert spent.left(160.5) == pytest.approx(limit_s - 0.05)
    assert spent.left(171.0) == pytest.approx(limit_s)
    assert spent.longest_pause_s == 0.2


def test_a_fork_in_a_window_leaves_the_child_free_to_look() -> None:
    with turn:
        child = os.fork()
        if child == 0:
            os._exit(0 if turn.acquire(blocking=False) else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    # The parent kept its turn until the end of the block, and has released it.
    assert turn.acquire(blocking=False)
    turn.release()
