"""A JAX device and its memory counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._frameworks.sizes import MB, read_process_sizes
from .._frameworks.tracker import FrameworkCollector
from ..device_collectors import DeviceMemorySample, DeviceMemorySampleResult
from ..errors import InvalidValueError, NoAcceleratorError
from .jax_env import require_jax

BACKENDS = ("cpu", "gpu", "tpu", "metal")
_OTHER_NAMES = {"cuda": "gpu", "rocm": "gpu", "mps": "metal"}
NO_STATS = "JAX device does not expose bytes_in_use"


def normalize(backend: str) -> str:
    """The name of a backend as records spell it: ``cpu``, ``gpu``, ``tpu`` or ``metal``;
    ``unknown`` for any other word."""
    word = str(backend).strip().lower()
    word = _OTHER_NAMES.get(word, word)
    return word if word in BACKENDS else "unknown"


def resolve(selector: int | str) -> tuple[Any, int]:
    """The device with an index, or the first device of a backend, and its number in records.

    Raises ``InvalidValueError`` when there is no such device.
    """
    jax = require_jax()
    text = str(selector).strip()
    if isinstance(selector, int) or text.lstrip("-").isdigit():
        index, devices = int(selector), jax.devices()
        if not 0 <= index < len(devices):
            message = f"JAX device index {index} is out of range (found {len(devices)})"
            raise InvalidValueError(message)
        return devices[index], index
    backend = normalize(text) if isinstance(selector, str) else "unknown"
    if backend == "unknown":
        raise InvalidValueError("JAX device must be an index or one of cpu, gpu, tpu, metal")
    try:
        device = jax.devices(backend)[0]
    except Exception as error:
        raise InvalidValueError(f"JAX backend '{backend}' is unavailable: {error}") from error
    return device, int(device.id)


def stats_of(device: Any) -> dict[str, Any] | None:
    """The counters of a device's allocator; None where JAX has none."""
    stats = device.memory_stats()
    return dict(stats) if stats and stats.get("bytes_in_use") is not None else None


def is_cpu(device: Any) -> bool:
    """Whether a device is the CPU, whose memory is the host memory of the process."""
    return normalize(device.platform) == "cpu"


@dataclass(frozen=True)
class Counters:
    """The counters of a device's allocator in bytes; unknown counters are None."""

    in_use: int
    # The bytes that the allocator has obtained from the device, and whether this is not known. Then
    # ``reserved`` is equal to ``in_use``.
    reserved: int
    reserved_is_guessed: bool
    limit: int | None
    peak: int | None
    pool: int | None

    @classmethod
    def of(cls, stats: dict[str, Any]) -> Counters:
        """The counters in a device's statistics."""

        def number(key: str) -> int | None:
            value = stats.get(key)
            return None if value is None else int(value)

        in_use, limit, pool = (
            int(stats["bytes_in_use"]),
            number("bytes_limit"),
            number("pool_bytes"),
        )
        # A pool that is as large as the limit was taken at the start. Its size is a setting and
        # does not show what the program needs.
        grows = pool is not None and (limit is None or pool < limit)
        known = [size for size in (pool if grows else None, number("bytes_reserved")) if size]
        reserved = max([in_use, *known])
        return cls(in_use, reserved, not known, limit, number("peak_bytes_in_use"), pool)


@dataclass(frozen=True)
class JaxSampleResult(DeviceMemorySampleResult):
    """A sample, the allocator's peak counter in bytes, and metadata for the recording."""

    allocator_peak_bytes: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class JaxCollector(FrameworkCollector):
    """Reads the allocator's counters of one JAX device; on the CPU, the resident size of the
    process."""

    telemetry_collector = "stormlog.jax.memory_tracker"

    def __init__(self, device: Any, number: int) -> None:
        self.jax_device = device
        self.number = number
        self.is_cpu = is_cpu(device)

    def name(self) -> str:
        """The backend: ``cpu``, ``gpu``, ``tpu`` or ``metal``."""
        return normalize(self.jax_device.platform)

    def sample(self) -> DeviceMemorySample:
        """Read the counters now. Raises ``NoAcceleratorError`` where they cannot be read."""
        return self._sample_or_raise()

    def sample_with_diagnostics(self) -> DeviceMemorySampleResult:
        """Read the counters; problems are returned instead of raised."""
        try:
            result = self._of_process() if self.is_cpu else self._of_device()
        except Exception as error:
            return DeviceMemorySampleResult._failed(error)
        if result.sample is not None and self.on_sample is not None:
            self.on_sample(result.sample.allocated_bytes / MB)
        return result

    def _of_process(self) -> JaxSampleResult:
        used, _ = read_process_sizes()
        sample = DeviceMemorySample(used, used, used, None, None, None, None, -1)
        return JaxSampleResult(sample, metadata=self._facts())

    def _of_device(self) -> JaxSampleResult:
        stats = stats_of(self.jax_device)
        if stats is None:
            raise NoAcceleratorError(NO_STATS)
        counters = Counters.of(stats)
        limit, used = counters.limit, counters.reserved
        free = None if limit is None else max(0, limit - used)
        sample = DeviceMemorySample(
            counters.in_use, counters.reserved, used, free, limit, None, None, self.number
        )
        facts = self._facts()
        if counters.reserved_is_guessed:
            facts["allocator_reserved_approximate"] = True
        if counters.pool is not None:
            facts["allocator_pool_bytes"] = counters.pool
        return JaxSampleResult(sample, allocator_peak_bytes=counters.peak, metadata=facts)

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"device_memory_available": not self.is_cpu}
        if self.is_cpu:
            facts["device_memory_unavailable_reason"] = NO_STATS
        return facts

    @property
    def source(self) -> str:
        """Where the samples come from, as written into recordings."""
        return "process_rss" if self.is_cpu else "jax_device_stats"

    def capabilities(self) -> dict[str, Any]:
        """The name of the source and which counters it supports, as written into recordings."""
        return self._capabilities(self.source, supports_total=not self.is_cpu)
