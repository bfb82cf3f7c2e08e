"""Information about JAX, its devices and their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._compat.legacy_names import legacy_names
from .._frameworks import machine
from .._frameworks.machine import is_apple_silicon, machine_facts, memory_percent_used, version_pair
from .._installed import is_installed
from ._device import NO_STATS, normalize, resolve, stats_of
from .jax_env import require_jax

__all__ = [
    "detect_jax_backend",
    "format_memory",
    "get_backend_info",
    "get_device_info",
    "get_device_memory_capability",
    "get_system_info",
    "jax_is_available",
    "normalize_jax_backend",
    "resolve_jax_device",
    "validate_jax_environment",
]

JAX_AVAILABLE = is_installed("jax")

_MISSING = "JAX not available"
# The oldest release whose devices report their memory.
_OLDEST = (0, 4)


def _jax() -> Any:
    """The module ``jax``, or None where it cannot be imported. Functions that describe the machine
    also work without JAX."""
    try:
        return require_jax()
    except ImportError:
        return None


def jax_is_available() -> bool:
    """Whether JAX can be imported."""
    return _jax() is not None


def format_memory(bytes_value: int | float | None) -> str:
    """A number of bytes as text, with two decimals and a unit; ``N/A`` for None."""
    return "0 B" if bytes_value == 0 else machine.format_memory(bytes_value)


def normalize_jax_backend(backend: str) -> str:
    """The name of a backend as records spell it: ``cpu``, ``gpu``, ``tpu`` or ``metal``;
    ``unknown`` for any other word."""
    return normalize(backend)


def resolve_jax_device(selector: int | str = 0) -> tuple[Any, int]:
    """The device with an index, or the first device of a backend, and its number in records."""
    return resolve(selector)


def detect_jax_backend() -> str:
    """The backend that JAX uses by default; without JAX, ``cpu``."""
    jax = _jax()
    return "cpu" if jax is None else normalize(jax.default_backend())


def get_device_memory_capability(device: Any) -> dict[str, Any]:
    """Whether a device reports its memory, its counters, and the reason if it reports none."""
    error, stats = None, None
    try:
        stats = stats_of(device)
    except Exception as failure:
        error = str(failure)
    if stats is None:
        error = error or NO_STATS
    return {
        "memory_stats_available": stats is not None,
        "memory_stats": stats or {},
        "memory_stats_error": error,
    }


def get_backend_info() -> dict[str, Any]:
    """JAX's default backend and its devices; without JAX, the backend is ``cpu``."""
    jax = _jax()
    raw = "cpu" if jax is None else str(jax.default_backend())
    devices = [] if jax is None else list(jax.devices())
    backend = normalize(raw)
    return {
        "runtime_backend": backend,
        "raw_runtime_backend": raw,
        "jax_available": jax is not None,
        "is_gpu_build": backend == "gpu",
        "is_apple_silicon": is_apple_silicon(),
        "jax_metal_active": backend == "metal",
        "device_count": len(devices),
        "devices": [
            {"id": device.id, "kind": device.device_kind, "platform": device.platform}
            for device in devices
        ],
    }


def get_device_info(device_index: int | str = 0) -> dict[str, Any]:
    """A device and its memory counters. If JAX or the device is missing, no exception is raised:
    the result describes the CPU, and its key ``error`` has the reason."""
    try:
        device, _ = resolve(device_index)
    except (ImportError, ValueError) as error:
        why = _MISSING if isinstance(error, ImportError) else str(error)
        return {
            "kind": "cpu",
            "platform": "cpu",
            "device_id": 0,
            "process_index": 0,
            "memory_stats_available": False,
            "memory_stats": {},
            "memory_stats_error": why,
            "client": None,
            "error": why,
        }
    return {
        "kind": device.device_kind,
        "platform": device.platform,
        "device_id": device.id,
        "process_index": device.process_index,
        **get_device_memory_capability(device),
        "client": str(device.client),
    }


def get_system_info() -> dict[str, Any]:
    """Facts about the machine, Python, JAX and its first device."""
    jax = _jax()
    version = getattr(jax, "__version__", "Not installed")
    return {
        **machine_facts(("jax_version", version)),
        "jax_available": jax is not None,
        "memory_percent_used": memory_percent_used(),
        "backend": get_backend_info(),
        "device_info": get_device_info(),
    }


def validate_jax_environment() -> dict[str, Any]:
    """Check whether JAX is installed, is new enough, and has an accelerator. The key ``issues`` of
    the result lists the problems as texts."""
    jax = _jax()
    found: dict[str, Any] = {
        "jax_available": jax is not None,
        "gpu_available": False,
        "tpu_available": False,
        "metal_available": False,
        "version_compatible": False,
        "issues": [],
    }
    issues: list[str] = found["issues"]
    if jax is None:
        issues.append("JAX not installed")
        return found
    text = str(getattr(jax, "__version__", ""))
    version = version_pair(text)
    if version is None:
        issues.append("Could not determine JAX version")
    elif version >= _OLDEST:
        found["version_compatible"] = True
    else:
        issues.append(f"JAX {text} may not be fully compatible (recommend 0.4+)")
    backends = {normalize(device.platform) for device in jax.devices()}
    for name in ("gpu", "tpu", "metal"):
        found[f"{name}_available"] = name in backends
    if backends <= {"cpu"}:
        issues.append("Only CPU devices found: only the memory of the process is measured")
    return found


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
