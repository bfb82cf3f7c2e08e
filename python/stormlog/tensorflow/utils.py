"""Information about TensorFlow and its devices, memory settings, and a profile as text."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypedDict

from .. import _core
from .._compat.legacy_names import legacy_names
from .._frameworks.machine import (
    format_memory,
    is_apple_silicon,
    machine_facts,
    memory_percent_used,
    version_pair,
)
from .._frameworks.sizes import MB, resident_mb
from .._installed import is_installed
from .analyzer import MemoryAnalyzer
from .tf_env import require_tensorflow

__all__ = [
    "BackendInfo",
    "analyze_fragmentation",
    "clear_tensorflow_session",
    "format_memory",
    "generate_summary_report",
    "get_backend_info",
    "get_gpu_info",
    "get_system_info",
    "get_tensorflow_memory_usage",
    "optimize_tensorflow_memory",
    "suggest_optimizations",
    "validate_tensorflow_environment",
]

logger = logging.getLogger(__name__)

TF_AVAILABLE = is_installed("tensorflow")

_OLDEST = (2, 4)


class BackendInfo(TypedDict):
    """The build and the runtime backend of TensorFlow."""

    is_apple_silicon: bool
    hardware_gpu_detected: bool
    runtime_gpu_count: int
    runtime_backend: str
    is_cuda_build: bool
    is_rocm_build: bool
    is_tensorrt_build: bool
    tensorflow_metal_installed: bool


def _tensorflow() -> Any:
    """The module ``tensorflow``, or None where it cannot be imported. Functions that describe the
    machine also work without TensorFlow."""
    try:
        return require_tensorflow()
    except ImportError:
        return None


def _gpus(tensorflow: Any) -> list[Any]:
    return [] if tensorflow is None else list(tensorflow.config.list_physical_devices("GPU"))


def _build_info(tensorflow: Any) -> dict[str, Any]:
    try:
        return dict(tensorflow.sysconfig.get_build_info())
    except Exception:
        # Builds from source have no build information.
        return {}


def get_backend_info() -> BackendInfo:
    """The build and the runtime backend of TensorFlow; without TensorFlow, the backend is
    ``cpu``."""
    tensorflow = _tensorflow()
    gpus, build = _gpus(tensorflow), _build_info(tensorflow)
    is_apple = is_apple_silicon()
    metal = is_installed("tensorflow_plugins")
    is_cuda, is_rocm = bool(build.get("is_cuda_build")), bool(build.get("is_rocm_build"))
    backend = "cpu"
    if gpus:
        backend = "rocm" if is_rocm else "metal" if is_apple else "cuda"
    return {
        "is_apple_silicon": is_apple,
        "hardware_gpu_detected": bool(gpus) or is_apple,
        "runtime_gpu_count": len(gpus),
        "runtime_backend": backend,
        "is_cuda_build": is_cuda,
        "is_rocm_build": is_rocm,
        "is_tensorrt_build": bool(build.get("is_tensorrt_build")),
        "tensorflow_metal_installed": metal,
    }


def get_gpu_info() -> dict[str, Any]:
    """The GPUs that TensorFlow sees, and the megabytes that it uses on each.

    ``total_memory`` is the sum of the megabytes in use. Without a GPU, the key ``error`` has the
    reason, and no exception is raised.
    """
    tensorflow = _tensorflow()
    gpus = _gpus(tensorflow)
    info: dict[str, Any] = {
        "available": bool(gpus),
        "count": len(gpus),
        "devices": [],
        "driver_version": "Unknown",
        "cuda_version": "Unknown",
        "total_memory": 0,
    }
    if not gpus:
        missing = tensorflow is None
        info["error"] = "TensorFlow not available" if missing else "No GPU devices found"
        return info
    info["cuda_version"] = str(_build_info(tensorflow).get("cuda_version", "Unknown"))
    for index in range(len(gpus)):
        device: dict[str, Any] = {"id": index, "name": f"GPU {index}"}
        try:
            memory = tensorflow.config.experimental.get_memory_info(f"GPU:{index}")
            device["current_memory_mb"] = memory["current"] / MB
            device["peak_memory_mb"] = memory["peak"] / MB
            info["total_memory"] += device["current_memory_mb"]
        except Exception as error:
            device["error"] = str(error)
        info["devices"].append(device)
    return info


def get_system_info() -> dict[str, Any]:
    """Facts about the machine, Python, TensorFlow and its GPUs."""
    tensorflow = _tensorflow()
    version = getattr(tensorflow, "__version__", "Not installed")
    info = machine_facts(("tensorflow_version", version))
    build = _build_info(tensorflow)
    if build:
        info["tf_build_cuda"] = bool(build.get("is_cuda_build"))
        info["tf_cuda_version"] = build.get("cuda_version", "Unknown")
        info["tf_cudnn_version"] = build.get("cudnn_version", "Unknown")
    info["memory_percent_used"] = memory_percent_used()
    info["gpu"] = get_gpu_info()
    info["backend"] = get_backend_info()
    return info


def get_tensorflow_memory_usage() -> dict[str, float]:
    """Megabytes that TensorFlow uses on the first GPU, now and at the peak, and resident megabytes
    of the process. Without TensorFlow all are 0."""
    usage = {"gpu_current_mb": 0.0, "gpu_peak_mb": 0.0, "cpu_mb": 0.0}
    tensorflow = _tensorflow()
    if tensorflow is None:
        return usage
    if _gpus(tensorflow):
        memory = tensorflow.config.experimental.get_memory_info("GPU:0")
        usage["gpu_current_mb"] = memory["current"] / MB
        usage["gpu_peak_mb"] = memory["peak"] / MB
    usage["cpu_mb"] = resident_mb()
    return usage


def optimize_tensorflow_memory() -> list[str]:
    """Turn on memory growth of the GPUs, mixed precision and XLA in this process. Returns a text
    for each setting that was turned on."""
    tensorflow = _tensorflow()
    if tensorflow is None:
        logger.warning("TensorFlow not available for memory optimization")
        return []
    done = []
    for gpu in _gpus(tensorflow):
        if _tried(lambda: tensorflow.config.experimental.set_memory_growth(gpu, True)):
            done.append(f"Enabled memory growth for {getattr(gpu, 'name', gpu)}")
    mixed = getattr(tensorflow.keras, "mixed_precision", None)
    if mixed is not None and _tried(lambda: mixed.set_global_policy("mixed_float16")):
        done.append("Enabled mixed precision training")
    optimizer = getattr(tensorflow.config, "optimizer", None)
    if optimizer is not None and _tried(lambda: optimizer.set_jit(True)):
        done.append("Enabled XLA compilation")
    return done


def _tried(change: Any) -> bool:
    try:
        change()
    except Exception as error:
        # Some settings can be changed only before TensorFlow has started.
        logger.warning("cannot change TensorFlow: %s", error)
        return False
    return True


def clear_tensorflow_session() -> None:
    """Clear the Keras session and its models."""
    tensorflow = _tensorflow()
    if tensorflow is not None:
        tensorflow.keras.backend.clear_session()


def validate_tensorflow_environment() -> dict[str, Any]:
    """Check whether TensorFlow is installed, has version 2.4 or a later 2.x, and has a GPU with
    memory growth. The key ``issues`` of the result lists the problems as texts."""
    tensorflow = _tensorflow()
    found: dict[str, Any] = {
        "tensorflow_available": tensorflow is not None,
        "gpu_available": False,
        "memory_growth_enabled": False,
        "version_compatible": False,
        "issues": [],
    }
    issues: list[str] = found["issues"]
    if tensorflow is None:
        issues.append("TensorFlow not installed")
        return found
    text = str(getattr(tensorflow, "__version__", ""))
    version = version_pair(text)
    if version is None:
        issues.append("Could not determine TensorFlow version")
    elif version[0] == _OLDEST[0] and version >= _OLDEST:
        found["version_compatible"] = True
    else:
        issues.append(f"TensorFlow {text} may not be fully compatible (recommend 2.4+)")
    gpus = _gpus(tensorflow)
    found["gpu_available"] = bool(gpus)
    if not gpus:
        issues.append("No GPU devices found")
        return found
    try:
        grows = tensorflow.config.experimental.get_memory_growth(gpus[0])
        found["memory_growth_enabled"] = bool(grows)
    except Exception as error:
        issues.append(f"Could not check memory growth: {error}")
    return found


def analyze_fragmentation(snapshots: list[Any]) -> dict[str, float]:
    """The share of reserved memory that was unused in the snapshots of a profile: its mean, its
    trend and its extremes."""
    sizes = [(snapshot.gpu_memory_mb, snapshot.gpu_memory_reserved_mb) for snapshot in snapshots]
    return _core.framework_fragmentation(sizes, "fragmentation_trend")


def suggest_optimizations(profile_result: Any) -> list[str]:
    """At most ten suggestions for reducing the memory use of the profiled program."""
    return MemoryAnalyzer()._suggestions(profile_result)


def generate_summary_report(profile_result: Any) -> str:
    """A report on a profile and on the machine, as text."""

    def megabytes(value: float) -> str:
        return format_memory(value * MB)

    lines = [
        "TensorFlow GPU Memory Analysis Report",
        "=" * 40,
        "",
        f"Peak Memory Usage: {megabytes(profile_result.peak_memory_mb)}",
        f"Average Memory Usage: {megabytes(profile_result.average_memory_mb)}",
        f"Minimum Memory Usage: {megabytes(profile_result.min_memory_mb)}",
        f"Profiling Duration: {profile_result.duration:.2f} seconds",
        f"Memory Growth Rate: {profile_result.memory_growth_rate:.2f} MB/s",
        "",
        f"Total Memory Allocations: {profile_result.total_allocations}",
        f"Total Memory Deallocations: {profile_result.total_deallocations}",
        "",
    ]
    if profile_result.function_profiles:
        lines += ["Function Profiling:", "-" * 20]
        for name, profile in profile_result.function_profiles.items():
            lines += [
                f"  {name}:",
                f"    Calls: {profile['calls']}",
                f"    Peak Memory: {megabytes(profile['peak_memory'])}",
                f"    Total Duration: {profile['total_duration']:.3f}s",
                "",
            ]
    if profile_result.snapshots:
        shares = analyze_fragmentation(profile_result.snapshots)
        lines += [
            "Memory Fragmentation Analysis:",
            "-" * 30,
            f"  Fragmentation Score: {shares['fragmentation_score']:.3f}",
            f"  Fragmentation Trend: {shares['fragmentation_trend']:.3f}",
            "",
        ]
    advice = suggest_optimizations(profile_result)
    if advice:
        numbered = [f"  {number}. {text}" for number, text in enumerate(advice, 1)]
        lines += ["Optimization Suggestions:", "-" * 25, *numbered, ""]
    system = get_system_info()
    gpu = system["gpu"]
    lines += [
        "System Information:",
        "-" * 19,
        f"  TensorFlow Version: {system['tensorflow_version']}",
        f"  Python Version: {system['python_version']}",
        f"  Platform: {system['platform']}",
    ]
    if gpu["available"]:
        lines += [
            f"  GPU Count: {gpu['count']}",
            f"  Total GPU Memory: {megabytes(gpu['total_memory'])}",
        ]
    return "\n".join(lines)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
