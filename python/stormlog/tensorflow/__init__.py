"""The recorder and the analyses for programs that use TensorFlow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .._core import VERSION as __version__

if TYPE_CHECKING:
    from .analyzer import GapFinding as TensorFlowGapFinding
    from .analyzer import MemoryAnalyzer as TensorFlowAnalyzer
    from .context_profiler import TensorFlowProfiler
    from .profiler import TFMemoryProfiler
    from .tracker import MemoryTracker as TensorFlowMemoryTracker
    from .utils import get_gpu_info, get_system_info
    from .visualizer import MemoryVisualizer as TensorFlowVisualizer

__all__ = [
    "TFMemoryProfiler",
    "TensorFlowAnalyzer",
    "TensorFlowGapFinding",
    "TensorFlowMemoryTracker",
    "TensorFlowProfiler",
    "TensorFlowVisualizer",
    "__version__",
    "get_gpu_info",
    "get_system_info",
]

_PLACES = {
    "TFMemoryProfiler": ("profiler", "TFMemoryProfiler"),
    "TensorFlowAnalyzer": ("analyzer", "MemoryAnalyzer"),
    "TensorFlowGapFinding": ("analyzer", "GapFinding"),
    "TensorFlowMemoryTracker": ("tracker", "MemoryTracker"),
    "TensorFlowProfiler": ("context_profiler", "TensorFlowProfiler"),
    "TensorFlowVisualizer": ("visualizer", "MemoryVisualizer"),
    "get_gpu_info": ("utils", "get_gpu_info"),
    "get_system_info": ("utils", "get_system_info"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    value = getattr(import_module(f".{module}", __name__), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
