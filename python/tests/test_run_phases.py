"""Phases that ``stormlog run`` records leave the classes of frameworks as they were."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from stormlog import _run_phases


class Trainer:
    def train(self, steps: int, *, rate: float = 0.1) -> tuple[int, float]:
        """Trains."""
        if not steps:
            raise ValueError("no steps")
        return steps, rate


class Phases:
    """Lists the phases that began and ended."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.error: BaseException | None = None

    def __call__(self, name: str) -> Callable[[], None]:
        if self.error is not None:
            raise self.error
        self.seen.append(name)
        return lambda: self.seen.append(f"end of {name}")


@pytest.fixture
def phases(monkeypatch: pytest.MonkeyPatch) -> Iterator[Phases]:
    module = ModuleType("transformers.trainer")
    module.Trainer = Trainer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers.trainer", module)
    monkeypatch.setattr(_run_phases, "_wrapped", set())
    original = Trainer.train
    found = Phases()
    _run_phases.follow(found)
    yield found
    Trainer.train = original  # type: ignore[method-assign]


def test_a_call_of_the_method_is_a_phase(phases: Phases) -> None:
    assert Trainer().train(3, rate=0.5) == (3, 0.5)
    assert phases.seen == ["train", "end of train"]

    class Own(Trainer):
        def train(self, *arguments: Any, **options: Any) -> tuple[int, float]:
            return super().train(7)

    assert Own().train() == (7, 0.1)
    assert Trainer.train(Trainer(), 4) == (4, 0.1)
    assert len(phases.seen) == 6


def test_the_method_looks_like_the_original(phases: Phases) -> None:
    method = Trainer().train
    assert list(inspect.signature(method).parameters) == ["steps", "rate"]
    assert (method.__name__, method.__doc__) == ("train", "Trains.")
    assert inspect.ismethod(method)
    assert "no steps" in inspect.getsource(Trainer.train)


def test_a_traceback_has_no_frame_of_the_recorder(phases: Phases) -> None:
    with pytest.raises(ValueError, match="no steps") as raised:
        Trainer().train(0)
    files = {frame.filename for frame in traceback.extract_tb(raised.tb)}
    assert files == {__file__}
    assert phases.seen == ["train", "end of train"]


def test_a_failure_of_the_recorder_does_not_reach_the_program(phases: Phases) -> None:
    phases.error = RuntimeError("the recorder fails")
    assert Trainer().train(3) == (3, 0.1)
    # What the user does reaches it.
    phases.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        Trainer().train(3)
