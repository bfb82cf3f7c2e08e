"""Measure functions and ``with`` blocks with a profiler that the whole process shares; helpers for
modules and for runs of a model over batches."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ._torch import require_torch
from .profiler import GPUMemoryProfiler, ProfileResult

if TYPE_CHECKING:
    import torch

__all__ = [
    "MemoryProfiler",
    "ProfiledModule",
    "clear_results",
    "get_global_profiler",
    "get_profile_results",
    "get_summary",
    "profile_context",
    "profile_function",
    "profile_model_training",
    "set_global_profiler",
    "start_monitoring",
    "stop_monitoring",
]

F = TypeVar("F", bound=Callable[..., Any])

_global_profiler: GPUMemoryProfiler | None = None


def get_global_profiler(device: str | int | torch.device | None = None) -> GPUMemoryProfiler:
    """The profiler of this process, created on first use. Later calls ignore ``device``."""
    global _global_profiler
    if _global_profiler is None:
        _global_profiler = GPUMemoryProfiler(device=device)
    return _global_profiler


def set_global_profiler(profiler: GPUMemoryProfiler) -> None:
    """Use the given profiler as the profiler of this process."""
    global _global_profiler
    _global_profiler = profiler


@overload
def profile_function(func: F) -> F: ...
@overload
def profile_function(
    func: None = None,
    *,
    name: str | None = None,
    device: str | int | torch.device | None = None,
    profiler: GPUMemoryProfiler | None = None,
) -> Callable[[F], F]: ...
def profile_function(
    func: F | None = None,
    *,
    name: str | None = None,
    device: str | int | torch.device | None = None,
    profiler: GPUMemoryProfiler | None = None,
) -> Callable[[F], F] | F:
    """Decorate a function so that every call is measured; calls return what the function returns.

    Without ``profiler``, the profiler of this process measures. ``device`` then has an effect only
    if that profiler does not exist yet.
    """

    def decorate(function: F) -> F:
        label = name or function.__name__

        @functools.wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            with (profiler or get_global_profiler(device)).profile_context(label):
                return function(*args, **kwargs)

        return measured  # type: ignore[return-value]

    return decorate if func is None else decorate(func)


@contextmanager
def profile_context(
    name: str = "context",
    device: str | int | torch.device | None = None,
    profiler: GPUMemoryProfiler | None = None,
) -> Iterator[GPUMemoryProfiler]:
    """Measure a ``with`` block; the value of the ``with`` statement is the profiler."""
    active = profiler or get_global_profiler(device)
    with active.profile_context(name):
        yield active


def start_monitoring(interval: float = 0.1, device: str | int | torch.device | None = None) -> None:
    """Read the memory counters at an interval in seconds on a background thread, with the profiler
    of this process."""
    get_global_profiler(device).start_monitoring(interval)


def stop_monitoring() -> None:
    """End what ``start_monitoring`` started."""
    if _global_profiler is not None:
        _global_profiler.stop_monitoring()


def get_profile_results(limit: int | None = None) -> list[ProfileResult]:
    """The results of the profiler of this process, oldest first; with ``limit``, only the last
    ones."""
    results = [] if _global_profiler is None else list(_global_profiler.results)
    return results if limit is None else results[-limit:]


def get_summary() -> Any:
    """The summary of all results of the profiler of this process."""
    if _global_profiler is None:
        return {"message": "No profiling results available"}
    return _global_profiler.get_summary()


def clear_results() -> None:
    """Delete all results of the profiler of this process; changes count from now on."""
    if _global_profiler is not None:
        _global_profiler.clear_results()


class MemoryProfiler:
    """A profiler that can save its results to a file."""

    def __init__(self, device: str | int | torch.device | None = None) -> None:
        self.profiler = GPUMemoryProfiler(device=device)

    def start_monitoring(self, interval: float = 0.1) -> None:
        """Read the memory counters at an interval in seconds on a background thread."""
        self.profiler.start_monitoring(interval)

    def stop_monitoring(self) -> None:
        """End what ``start_monitoring`` started."""
        self.profiler.stop_monitoring()

    def profile(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> ProfileResult:
        """Call a function and return the measurement; what the function returns is dropped."""
        return self.profiler.profile_function(func, *args, **kwargs)

    @contextmanager
    def context(self, name: str = "context") -> Iterator[None]:
        """Measure a ``with`` block."""
        with self.profiler.profile_context(name):
            yield

    def wrap_module(self, module: Any, name: str | None = None) -> Any:
        """A PyTorch module that calls ``module`` and measures every forward pass."""
        return _profiled_module_class()(module, name=name, profiler=self.profiler)

    def get_summary(self) -> Any:
        """The results in numbers, in total and by function."""
        return self.profiler.get_summary()

    def clear(self) -> None:
        """Delete all results; changes count from now on."""
        self.profiler.clear_results()

    def save_results(self, filename: str) -> None:
        """Write the summary, the results and the readings of the monitoring to a JSON file."""
        document = {
            "summary": self.get_summary(),
            "results": [result.to_dict() for result in self.profiler.results],
            "snapshots": [snapshot.to_dict() for snapshot in self.profiler.snapshots],
        }
        with open(filename, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2, default=str)

    def load_results(self, filename: str) -> Any:
        """The content of a file that ``save_results`` wrote; the profiler does not change."""
        with open(filename, encoding="utf-8") as file:
            return json.load(file)

    def __enter__(self) -> MemoryProfiler:
        self.start_monitoring()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop_monitoring()


def __getattr__(name: str) -> Any:
    # The class derives from a PyTorch class, so it can be created only when PyTorch is installed.
    if name == "ProfiledModule":
        return _profiled_module_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _profiled_module_class() -> type:
    module_class: Any = require_torch().nn.Module

    class ProfiledModule(module_class):  # type: ignore[misc]
        """A module whose forward passes are measured."""

        def __init__(
            self,
            module: Any,
            name: str | None = None,
            device: str | int | torch.device | None = None,
            profiler: GPUMemoryProfiler | None = None,
        ) -> None:
            super().__init__()
            self.module = module
            self.name = name or type(module).__name__
            self.profiler = profiler or get_global_profiler(device)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            """Return the result of the module."""
            with self.profiler.profile_context(f"{self.name}_forward"):
                return self.module(*args, **kwargs)

    return ProfiledModule


if TYPE_CHECKING:
    ProfiledModule: Any


def profile_model_training(
    model: Any,
    train_loader: Any,
    epochs: int = 1,
    device: str | int | torch.device | None = None,
) -> dict[str, Any]:
    """Call a model with each batch of a loader and measure the calls; return the summary.

    Only forward passes run: no loss is computed and no weight changes.
    """
    profiler = GPUMemoryProfiler(device=device)
    for epoch in range(epochs):
        with profiler.profile_context(f"epoch_{epoch}"):
            for step, batch in enumerate(train_loader):
                inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
                move = getattr(inputs, "to", None)
                with profiler.profile_context(f"batch_{step}"):
                    model(move(profiler.device) if move is not None else inputs)
    return profiler.get_summary()
