"""The recorder and the analyses for programs that use JAX."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .._core import VERSION as __version__

if TYPE_CHECKING:
    from .analyzer import MemoryAnalyzer
    from .context_profiler import JAXProfiler, ProfiledFunction, profile_context, profile_function
    from .profiler import JAXMemoryProfiler
    from .tracker import MemoryTracker, MemoryWatchdog
    from .utils import get_device_info, get_system_info

__all__ = [
    "JAXMemoryProfiler",
    "JAXProfiler",
    "MemoryAnalyzer",
    "MemoryTracker",
    "MemoryWatchdog",
    "ProfiledFunction",
    "__version__",
    "get_device_info",
    "get_system_info",
    "profile_context",
    "profile_function",
]

_PLACES = {
    "JAXMemoryProfiler": "profiler",
    "JAXProfiler": "context_profiler",
    "MemoryAnalyzer": "analyzer",
    "MemoryTracker": "tracker",
    "MemoryWatchdog": "tracker",
    "ProfiledFunction": "context_profiler",
    "get_device_info": "utils",
    "get_system_info": "utils",
    "profile_context": "context_profiler",
    "profile_function": "context_profiler",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_PLACES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
