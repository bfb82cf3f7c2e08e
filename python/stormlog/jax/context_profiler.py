"""Measures the memory use of functions and blocks, by default with one JAX profiler per process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .._compat.legacy_names import legacy_names
from .._frameworks.profiler import name_of
from .profiler import (
    OF_PROCESS,
    JAXMemoryProfiler,
    ProfileResult,
    clear_global_profiler,
    clear_profiles,
    get_global_profiler,
    get_profile_summaries,
    set_global_profiler,
)

__all__ = [
    "JAXProfiler",
    "ProfiledFunction",
    "clear_global_profiler",
    "clear_profiles",
    "get_global_profiler",
    "get_profile_summaries",
    "profile_context",
    "profile_function",
    "set_global_profiler",
]

F = TypeVar("F", bound=Callable[..., Any])


@overload
def profile_function(func: F) -> F: ...
@overload
def profile_function(
    func: None = None, *, name: str | None = None, profiler: JAXMemoryProfiler | None = None
) -> Callable[[F], F]: ...
def profile_function(
    func: F | None = None,
    *,
    name: str | None = None,
    profiler: JAXMemoryProfiler | None = None,
) -> Callable[[F], F] | F:
    """Decorate a function so that every call is measured; what it returns is unchanged."""
    return OF_PROCESS.decorated(func, profiler, name)


@contextmanager
def profile_context(
    name: str = "context", profiler: JAXMemoryProfiler | None = None
) -> Iterator[JAXMemoryProfiler]:
    """Measure the block of a ``with`` statement; yields the profiler."""
    active = profiler or get_global_profiler()
    with active.profile_context(name):
        yield active


class ProfiledFunction:
    """Wraps a function and measures every call."""

    def __init__(
        self,
        func: Callable[..., Any],
        profiler: JAXMemoryProfiler | None = None,
        name: str | None = None,
    ) -> None:
        self.func = func
        self.profiler = profiler or get_global_profiler()
        self.name = name or name_of(func)
        functools.update_wrapper(self, func, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self.profiler.profile_context(self.name):
            return self.func(*args, **kwargs)


class JAXProfiler:
    """Runs training and inference and measures each step."""

    def __init__(self, device_index: int = 0) -> None:
        self.profiler = JAXMemoryProfiler(device_index)

    def profile_training(
        self,
        train_step_fn: Callable[..., Any],
        dataset: Any,
        epochs: int = 1,
        steps_per_epoch: int | None = None,
    ) -> None:
        """Call ``train_step_fn`` with every batch of a data set, epoch by epoch, and measure each
        call. ``steps_per_epoch`` is the most batches of an epoch."""
        measure = self.profiler.profile_context
        with measure("training"):
            for epoch in range(epochs):
                with measure(f"epoch_{epoch}"):
                    for step, batch in enumerate(islice(dataset, steps_per_epoch)):
                        with measure(f"step_{step}"):
                            _finished(train_step_fn(batch))

    def profile_inference(
        self, inference_fn: Callable[..., Any], data: Any, batch_size: int = 32
    ) -> None:
        """Call ``inference_fn`` with every batch of a data set, and measure each call. An array is
        cut into batches of ``batch_size``."""
        measure = self.profiler.profile_context
        with measure("inference"):
            for number, batch in enumerate(_batches(data, batch_size)):
                with measure(f"inference_batch_{number}"):
                    _finished(inference_fn(batch))

    def get_results(self) -> ProfileResult:
        """The results so far."""
        return self.profiler.get_results()

    def reset(self) -> None:
        """Discard all results."""
        self.profiler.reset()

    def __enter__(self) -> JAXProfiler:
        return self

    def __exit__(self, *exception: object) -> None:
        self.profiler.stop_continuous_profiling()


def _batches(data: Any, batch_size: int) -> Iterator[Any]:
    if not hasattr(data, "shape"):
        yield from data
        return
    yield from (data[start : start + batch_size] for start in range(0, len(data), batch_size))


def _finished(result: Any) -> None:
    """Wait until JAX has computed the result, so that this work is part of the measurement."""
    from .jax_env import require_jax

    require_jax().block_until_ready(result)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
