"""Measures the memory use of functions, layers, models and blocks.

By default one TensorFlow profiler per process is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .._compat.legacy_names import legacy_names
from .._frameworks.profiler import GlobalProfiler
from .profiler import ProfileResult, TFMemoryProfiler

__all__ = [
    "ProfiledLayer",
    "TensorFlowProfiler",
    "clear_global_profiler",
    "clear_profiles",
    "get_global_profiler",
    "get_profile_summaries",
    "profile_context",
    "profile_function",
    "profile_keras_training",
    "profile_model",
    "set_global_profiler",
]

F = TypeVar("F", bound=Callable[..., Any])

_OF_PROCESS = GlobalProfiler(TFMemoryProfiler)


def get_global_profiler() -> TFMemoryProfiler:
    """The profiler of this process, created on first use."""
    return _OF_PROCESS.get()


def set_global_profiler(profiler: TFMemoryProfiler) -> None:
    """Make a profiler the profiler of this process."""
    _OF_PROCESS.profiler = profiler


def clear_global_profiler() -> None:
    """Discard the profiler of this process and its results."""
    _OF_PROCESS.profiler = None


def clear_profiles() -> None:
    """Discard the results of the profiler of this process."""
    _OF_PROCESS.reset()


def get_profile_summaries(limit: int | None = None) -> list[dict[str, Any]]:
    """The measurements of each function or block, most recently measured first, at most
    ``limit``."""
    profiler = _OF_PROCESS.profiler
    profiles = {} if profiler is None else profiler.function_profiles
    rows = [
        {
            "name": name,
            "calls": profile["calls"],
            "total_duration": profile["total_duration"],
            "total_memory_used": profile["total_memory_used"],
            "peak_memory": profile["peak_memory"],
            "last_timestamp": profile["snapshots"][-1].timestamp,
        }
        for name, profile in profiles.items()
    ]
    rows.sort(key=lambda row: row["last_timestamp"], reverse=True)
    return rows if limit is None else rows[:limit]


@overload
def profile_function(func: F) -> F: ...
@overload
def profile_function(
    func: None = None, *, profiler: TFMemoryProfiler | None = None, name: str | None = None
) -> Callable[[F], F]: ...
def profile_function(
    func: F | None = None,
    *,
    profiler: TFMemoryProfiler | None = None,
    name: str | None = None,
) -> Callable[[F], F] | F:
    """Decorate a function so that every call is measured; what it returns is unchanged."""
    return _OF_PROCESS.decorated(func, profiler, name)


@contextmanager
def profile_context(
    name: str = "context", profiler: TFMemoryProfiler | None = None
) -> Iterator[None]:
    """Measure the block of a ``with`` statement."""
    with (profiler or get_global_profiler()).profile_context(name):
        yield


class ProfiledLayer:
    """Wraps a layer and measures every call."""

    def __init__(
        self, layer: Any, profiler: TFMemoryProfiler | None = None, name: str | None = None
    ) -> None:
        self.layer = layer
        self.profiler = profiler or get_global_profiler()
        self.name = name or getattr(layer, "name", type(layer).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self.profiler.profile_context(f"layer_{self.name}"):
            return self.layer(*args, **kwargs)


def profile_model(model: Any, profiler: TFMemoryProfiler | None = None) -> Any:
    """Replace ``model.call`` by a function that measures every call, and return the model."""
    active = profiler or get_global_profiler()
    model.call = active.profile_function(model.call)
    return model


def profile_keras_training(
    model: Any,
    x_train: Any,
    y_train: Any,
    epochs: int = 1,
    batch_size: int = 32,
    validation_data: Any | None = None,
    profiler: TFMemoryProfiler | None = None,
) -> None:
    """Fit a Keras model, and measure the whole fit as one block ``keras_training``."""
    with profile_context("keras_training", profiler):
        model.fit(
            x_train,
            y_train,
            epochs=epochs,
            batch_size=batch_size,
            validation_data=validation_data,
            verbose=0,
        )


class TensorFlowProfiler:
    """Runs training and inference of a model and measures them."""

    def __init__(self, device: str | None = None) -> None:
        self.profiler = TFMemoryProfiler(device=device)

    def profile_training(
        self, model: Any, dataset: Any, epochs: int = 1, steps_per_epoch: int | None = None
    ) -> None:
        """Fit the model epoch by epoch, and measure each epoch."""
        for epoch in range(epochs):
            with self.profiler.profile_context(f"epoch_{epoch}"):
                model.fit(dataset, epochs=1, steps_per_epoch=steps_per_epoch, verbose=0)

    def profile_inference(self, model: Any, data: Any, batch_size: int = 32) -> None:
        """Run the model's predictions and measure them."""
        with self.profiler.profile_context("inference"):
            model.predict(data, batch_size=batch_size, verbose=0)

    def get_results(self) -> ProfileResult:
        """The results so far."""
        return self.profiler.get_results()

    def reset(self) -> None:
        """Discard all results."""
        self.profiler.reset()

    def __enter__(self) -> TensorFlowProfiler:
        return self

    def __exit__(self, *exception: object) -> None:
        self.profiler.stop_continuous_profiling()


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
