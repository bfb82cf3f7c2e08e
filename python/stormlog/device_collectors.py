"""Collectors of accelerator memory: counters of PyTorch and of the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._torch import require_torch
from .errors import InvalidValueError, NoAcceleratorError

if TYPE_CHECKING:
    from typing import TypeAlias

    import torch

    Device: TypeAlias = str | int | torch.device | None

__all__ = [
    "CudaDeviceCollector",
    "DeviceMemoryCollector",
    "DeviceMemorySample",
    "DeviceMemorySampleResult",
    "MPSDeviceCollector",
    "ROCmDeviceCollector",
    "build_device_memory_collector",
    "detect_torch_runtime_backend",
]

# Counters that some allocators do not have, with their names in ``torch.cuda.memory_stats``.
_ALLOCATOR_COUNTERS = {
    "allocator_active_bytes": "active_bytes.all.current",
    "allocator_inactive_bytes": "inactive_split_bytes.all.current",
}


@dataclass(frozen=True)
class DeviceMemorySample:
    """The counters of a device at one moment, in bytes; ``None`` is unknown."""

    allocated_bytes: int
    reserved_bytes: int
    used_bytes: int
    free_bytes: int | None
    total_bytes: int | None
    active_bytes: int | None
    inactive_bytes: int | None
    device_id: int


@dataclass(frozen=True)
class DeviceMemorySampleResult:
    """A sample and the names of the counters it lacks, or the reason (``core_error``) why there is
    no sample."""

    sample: DeviceMemorySample | None
    partial_fields: tuple[str, ...] = ()
    errors: dict[str, str] = field(default_factory=dict)
    core_error: str | None = None

    @property
    def is_partial(self) -> bool:
        """Whether some counters are missing."""
        return bool(self.partial_fields)

    @property
    def is_core_failure(self) -> bool:
        """Whether there is no sample at all."""
        return self.core_error is not None

    @staticmethod
    def _failed(error: Exception) -> DeviceMemorySampleResult:
        return DeviceMemorySampleResult(None, (), {"core_metrics": str(error)}, str(error))


class DeviceMemoryCollector(ABC):
    """A source of the memory counters of a device. Derive a class from it for a source of your
    own."""

    telemetry_collector = "stormlog.custom_tracker"

    @abstractmethod
    def name(self) -> str:
        """The name of the runtime that the counters come from, such as ``cuda``."""

    @abstractmethod
    def is_available(self) -> bool:
        """Whether the counters can be read in this process."""

    @abstractmethod
    def sample(self) -> DeviceMemorySample:
        """Read the counters; raises an exception when they cannot be read."""

    def sample_with_diagnostics(self) -> DeviceMemorySampleResult:
        """Read the counters. An error is not raised but described in the result."""
        try:
            return DeviceMemorySampleResult(self.sample())
        except Exception as error:
            return DeviceMemorySampleResult._failed(error)

    def _sample_or_raise(self) -> DeviceMemorySample:
        """For subclasses that define ``sample_with_diagnostics``: the sample in its result."""
        result = self.sample_with_diagnostics()
        if result.sample is None:
            raise NoAcceleratorError(result.core_error or "the device cannot be read")
        return result.sample

    @abstractmethod
    def capabilities(self) -> dict[str, Any]:
        """The name of the source and which counters it supports, as written into recordings."""

    def _capabilities(self, source: str, *, supports_total: bool = True) -> dict[str, Any]:
        """``supports_total`` says whether the collector reads the total and the free memory of the
        device."""
        return {
            "backend": self.name(),
            "supports_device_total": supports_total,
            "supports_device_free": supports_total,
            "sampling_source": source,
            "telemetry_collector": self.telemetry_collector,
        }


class CudaDeviceCollector(DeviceMemoryCollector):
    """The counters of PyTorch's CUDA allocator and of the driver."""

    telemetry_collector = "stormlog.cuda_tracker"

    def __init__(self, device: Device = None) -> None:
        self.device: torch.device = _resolve_device(device)
        if self.device.type != "cuda":
            raise InvalidValueError("CUDA collector requires a CUDA device")

    def name(self) -> str:
        """``cuda``."""
        return "cuda"

    def is_available(self) -> bool:
        """Whether PyTorch can use CUDA."""
        return bool(require_torch().cuda.is_available())

    def sample(self) -> DeviceMemorySample:
        """The counters now."""
        return self._sample_or_raise()

    def sample_with_diagnostics(self) -> DeviceMemorySampleResult:
        """Read the counters, with the list of missing ones."""
        cuda = require_torch().cuda
        try:
            allocated = int(cuda.memory_allocated(self.device))
            reserved = int(cuda.memory_reserved(self.device))
        except Exception as error:
            return DeviceMemorySampleResult._failed(error)
        errors: dict[str, str] = {}
        used: int = max(allocated, reserved)
        free: int | None = None
        total: int | None = None
        try:
            free, total = (int(value) for value in cuda.mem_get_info(self.device))
            used = total - free
        except Exception as error:
            errors.update(dict.fromkeys(("device_total_bytes", "device_free_bytes"), str(error)))
        more: dict[str, int | None] = dict.fromkeys(_ALLOCATOR_COUNTERS)
        try:
            stats = cuda.memory_stats(self.device)
            for name, key in _ALLOCATOR_COUNTERS.items():
                if key in stats:
                    more[name] = int(stats[key])
                else:
                    errors[name] = f"torch.cuda.memory_stats has no '{key}'"
        except Exception as error:
            errors.update(dict.fromkeys(_ALLOCATOR_COUNTERS, str(error)))
        active, inactive = more.values()
        sample = DeviceMemorySample(
            allocated, reserved, used, free, total, active, inactive, self.device.index or 0
        )
        return DeviceMemorySampleResult(sample, tuple(errors), errors)

    def capabilities(self) -> dict[str, Any]:
        """The name of the source and which counters it supports, as written into recordings."""
        return self._capabilities("torch.cuda.memory_allocated/reserved")

    def torch_functions(self) -> dict[str, Any] | None:
        """PyTorch's functions, and facts about the device, with which the recorder reads the same
        counters at a tenth of the cost of calling ``sample``. ``None`` when this version of PyTorch
        lacks the functions, or when a subclass overrides ``sample_with_diagnostics``."""
        torch = require_torch()
        raw = getattr(getattr(torch, "_C", None), "_cuda_memoryStats", None)
        own = type(self).sample_with_diagnostics is CudaDeviceCollector.sample_with_diagnostics
        if raw is None or not own:
            return None
        return {
            "memory_stats": raw,
            "is_initialized": torch.cuda.is_initialized,
            "mem_get_info": torch.cuda.mem_get_info,
            "host_memory_stats": getattr(torch._C, "_cuda_hostMemoryStats", None),
            "index": self.device.index or 0,
            "uuid": self._uuid(torch),
            "is_integrated": self._is_integrated(torch),
        }

    def _uuid(self, torch: Any) -> str | None:
        if torch.version.hip is not None:
            return None
        try:
            return str(torch.cuda.get_device_properties(self.device).uuid)
        except Exception:
            return None

    def _is_integrated(self, torch: Any) -> bool:
        """Whether the device has no memory of its own but uses that of the host."""
        try:
            return bool(torch.cuda.get_device_properties(self.device).is_integrated)
        except Exception:
            return False


class ROCmDeviceCollector(CudaDeviceCollector):
    """The counters of an AMD GPU, through HIP."""

    telemetry_collector = "stormlog.rocm_tracker"

    def name(self) -> str:
        """``rocm``."""
        return "rocm"

    def is_available(self) -> bool:
        """Whether PyTorch can use ROCm."""
        return super().is_available() and _is_rocm(require_torch())

    def capabilities(self) -> dict[str, Any]:
        """The name of the source and which counters it supports, as written into recordings."""
        return self._capabilities("torch.cuda.memory_* (HIP runtime)")


class MPSDeviceCollector(DeviceMemoryCollector):
    """The counters of an Apple GPU, through PyTorch."""

    telemetry_collector = "stormlog.mps_tracker"

    def __init__(self, device: Device = None) -> None:
        self.device: torch.device = _resolve_device(device)
        if self.device.type != "mps":
            raise InvalidValueError("MPS collector requires an MPS device")

    def name(self) -> str:
        """``mps``."""
        return "mps"

    def is_available(self) -> bool:
        """Whether PyTorch can use MPS."""
        return _is_mps_available(require_torch())

    def sample(self) -> DeviceMemorySample:
        """The counters now."""
        return self._sample_or_raise()

    def sample_with_diagnostics(self) -> DeviceMemorySampleResult:
        """Read the counters, with the list of missing ones."""
        mps = require_torch().mps
        try:
            allocated = int(mps.current_allocated_memory())
            reserved = int(mps.driver_allocated_memory())
        except Exception as error:
            return DeviceMemorySampleResult._failed(error)
        used = max(allocated, reserved)
        errors: dict[str, str] = {}
        total: int | None = None
        try:
            total = int(mps.recommended_max_memory())
        except Exception as error:
            errors = dict.fromkeys(("device_total_bytes", "device_free_bytes"), str(error))
        free = None if total is None else max(total - used, 0)
        sample = DeviceMemorySample(allocated, reserved, used, free, total, None, None, 0)
        return DeviceMemorySampleResult(sample, tuple(errors), errors)

    def capabilities(self) -> dict[str, Any]:
        """The name of the source and which counters it supports, as written into recordings."""
        source = "torch.mps.current_allocated_memory/driver_allocated_memory"
        total = callable(
            getattr(getattr(require_torch(), "mps", None), "recommended_max_memory", None)
        )
        return self._capabilities(source, supports_total=total)


class CallableCollector(DeviceMemoryCollector):
    """Counters from a function of the user.

    The function returns a ``DeviceMemorySample``, or a mapping whose keys are names of its fields.
    The mapping must have ``allocated_bytes``; the other keys may be left out.
    """

    def __init__(self, function: Callable[[], Any], name: str = "custom") -> None:
        self.function = function
        self._name = name
        self.device = None

    def name(self) -> str:
        """The name that was given when the collector was created."""
        return self._name

    def is_available(self) -> bool:
        """Always true; the function is not called to check."""
        return True

    def sample(self) -> DeviceMemorySample:
        """Call the function and return its counters."""
        given = self.function()
        if isinstance(given, DeviceMemorySample):
            return given
        allocated = int(given["allocated_bytes"])
        reserved = int(given.get("reserved_bytes", allocated))

        def optional(key: str) -> int | None:
            value = given.get(key)
            return None if value is None else int(value)

        return DeviceMemorySample(
            allocated,
            reserved,
            int(given.get("used_bytes", max(allocated, reserved))),
            optional("free_bytes"),
            optional("total_bytes"),
            optional("active_bytes"),
            optional("inactive_bytes"),
            int(given.get("device_id", 0)),
        )

    def capabilities(self) -> dict[str, Any]:
        """The name of the source and which counters it supports, as written into recordings."""
        return self._capabilities(f"python:{self._name}")


def build_device_memory_collector(device: Device = None) -> DeviceMemoryCollector:
    """The collector of the given device. Without a device, the current CUDA or ROCm device is used,
    or otherwise the MPS device."""
    torch = require_torch()
    resolved = _resolve_device(device)
    if resolved.type == "mps":
        return MPSDeviceCollector(resolved)
    return (ROCmDeviceCollector if _is_rocm(torch) else CudaDeviceCollector)(resolved)


def detect_torch_runtime_backend() -> str:
    """The backend that PyTorch can use in this process: ``cuda``, ``rocm``, ``mps`` or ``cpu``."""
    torch = require_torch()
    if torch.cuda.is_available():
        return "rocm" if _is_rocm(torch) else "cuda"
    return "mps" if _is_mps_available(torch) else "cpu"


def _resolve_device(device: Device) -> torch.device:
    torch = require_torch()
    if device is None:
        backend = detect_torch_runtime_backend()
        if backend == "cpu":
            raise NoAcceleratorError("No supported GPU backend is available")
        resolved = torch.device("mps" if backend == "mps" else "cuda")
    elif isinstance(device, int):
        resolved = torch.device(f"cuda:{device}")
    else:
        resolved = torch.device(device)
    if resolved.type == "mps":
        if not _is_mps_available(torch):
            raise NoAcceleratorError("MPS backend is not available in this runtime")
        return resolved
    if resolved.type != "cuda":
        message = "Only CUDA/ROCm or MPS devices are supported for GPU memory tracking"
        raise InvalidValueError(message)
    if not torch.cuda.is_available():
        raise NoAcceleratorError("CUDA/ROCm backend is not available in this runtime")
    if resolved.index is None:
        resolved = torch.device("cuda", torch.cuda.current_device())
    elif resolved.index >= torch.cuda.device_count():
        raise InvalidValueError(f"Device {resolved} is not available")
    return resolved


def _is_rocm(torch: Any) -> bool:
    return getattr(torch.version, "hip", None) is not None


def _is_mps_available(torch: Any) -> bool:
    backend = getattr(torch.backends, "mps", None)
    return backend is not None and bool(backend.is_available())
