"""Profiles functions and blocks of code: reads the memory before and after them.

A reading is called a snapshot, as in stormlog 0.3.9; it is not PyTorch's record of its allocator.
Each framework defines what a snapshot contains.
"""

from __future__ import annotations

import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .._repeating import Repeating

if TYPE_CHECKING:
    from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S")
P = TypeVar("P", bound="SnapshotProfiler[Any]")


class SnapshotProfiler(ABC, Generic[S]):
    """Takes a snapshot before and after each measured function or block."""

    def __init__(self, thread_name: str) -> None:
        self.snapshots: list[S] = []
        self.function_profiles: dict[str, dict[str, Any]] = {}
        self._watch = Repeating(thread_name)

    @property
    def profiling_active(self) -> bool:
        """Whether snapshots are taken continuously."""
        return self._watch.active

    @abstractmethod
    def _take(self, name: str, operation: str | None) -> S: ...

    @abstractmethod
    def _count(self, name: str, seconds: float, before: S, after: S) -> None: ...

    @contextmanager
    def _measured(self, name: str, first: str, last: str) -> Iterator[S]:
        before, start = self._take(f"{name}_{first}", name), time.perf_counter()
        try:
            yield before
        finally:
            seconds = time.perf_counter() - start
            self._count(name, seconds, before, self._take(f"{name}_{last}", name))

    def _decorated(self, func: F, name: str) -> F:
        @functools.wraps(func)
        def measured(*args: Any, **kwargs: Any) -> Any:
            with self._measured(name, "before", "after"):
                return func(*args, **kwargs)

        return measured  # type: ignore[return-value]

    def start_continuous_profiling(self, interval: float = 1.0) -> None:
        """Take a snapshot at once and then every ``interval`` seconds, on a separate thread."""
        self._watch.start(lambda: self._take("continuous", None), interval)

    def stop_continuous_profiling(self) -> None:
        """End what ``start_continuous_profiling`` has started."""
        self._watch.stop()

    def reset(self) -> None:
        """Discard all snapshots and all measurements of functions and blocks."""
        self.snapshots.clear()
        self.function_profiles.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop_continuous_profiling()


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function in profiles; for a callable object the name of its type."""
    return str(getattr(function, "__name__", type(function).__name__))


class GlobalProfiler(Generic[P]):
    """The profiler of the process, created on first use."""

    def __init__(self, make: Callable[[], P]) -> None:
        self._make = make
        self.profiler: P | None = None

    def get(self) -> P:
        """The profiler of the process; it is created if there is none."""
        if self.profiler is None:
            self.profiler = self._make()
        return self.profiler

    def reset(self) -> None:
        """Discard the results of the profiler, if there is one."""
        if self.profiler is not None:
            self.profiler.reset()

    def decorated(
        self, func: F | None, profiler: P | None, name: str | None
    ) -> Callable[[F], F] | F:
        """The function with every call measured, or a decorator when ``func`` is None.

        If ``profiler`` is None, the profiler of the process is used. It is created not at the
        decoration but when the function is called, because creating it may start the framework.
        """

        def decorate(function: F) -> F:
            label = name or name_of(function)

            @functools.wraps(function)
            def measured(*args: Any, **kwargs: Any) -> Any:
                with (profiler or self.get())._measured(label, "before", "after"):
                    return function(*args, **kwargs)

            return measured  # type: ignore[return-value]

        return decorate if func is None else decorate(func)
