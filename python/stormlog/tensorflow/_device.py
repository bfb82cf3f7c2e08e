"""A TensorFlow device and its memory."""

from __future__ import annotations

from typing import Any

from .._frameworks.sizes import MB, read_process_sizes
from .._frameworks.tracker import FrameworkCollector
from ..device_collectors import DeviceMemorySample
from .tf_env import require_tensorflow


def default_device() -> str:
    """``/GPU:0`` when TensorFlow has one, else ``/CPU:0``."""
    gpus = require_tensorflow().config.list_physical_devices("GPU")
    return "/GPU:0" if gpus else "/CPU:0"


def is_cpu(device: str) -> bool:
    """Whether a device name is that of the CPU, whose memory is the host memory of the process."""
    return "cpu" in device.lower()


def device_number(device: str) -> int:
    """The number of a device: -1 for the CPU, otherwise the number after the last colon of the
    name, or 0 if there is none."""
    if is_cpu(device):
        return -1
    number = device.rpartition(":")[2]
    return int(number) if number.isascii() and number.isdigit() else 0


def device_bytes(device: str) -> int:
    """The bytes in use on a device now: TensorFlow's counter, or on the CPU the resident size of
    the process. Raises an exception where they cannot be read."""
    if is_cpu(device):
        return read_process_sizes()[0]
    name = f"GPU:{device_number(device)}"
    info = require_tensorflow().config.experimental.get_memory_info(name)
    return int(info["current"])


class TensorFlowCollector(FrameworkCollector):
    """Reads how many bytes are in use on one TensorFlow device."""

    telemetry_collector = "stormlog.tensorflow.memory_tracker"

    def __init__(self, device: str) -> None:
        self.tensorflow_device = device

    def name(self) -> str:
        """The name of the backend: ``tensorflow``."""
        return "tensorflow"

    def sample(self) -> DeviceMemorySample:
        """Read the bytes in use now."""
        used = device_bytes(self.tensorflow_device)
        number = device_number(self.tensorflow_device)
        if self.on_sample is not None:
            self.on_sample(used / MB)
        return DeviceMemorySample(used, used, used, None, None, None, None, number)

    def capabilities(self) -> dict[str, Any]:
        """The name of the source and which counters it supports, as written into recordings."""
        source = "tf.config.experimental.get_memory_info"
        return self._capabilities(source, supports_total=False)
