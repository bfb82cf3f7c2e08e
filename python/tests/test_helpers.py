"""Helpers that describe a device or TensorFlow, over stand-ins; texts are stormlog 0.3.9's."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from conftest import FAKE_TORCH
from stormlog import _system, utils
from stormlog._installed import is_installed

MIB = 1 << 20


@pytest.fixture
def allocator(torch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    stats = {
        "allocated_bytes.all.current": 50 * MIB,
        "reserved_bytes.all.current": 100 * MIB,
        "active_bytes.all.current": 50 * MIB,
        "inactive_split_bytes.all.current": 20 * MIB,
    }
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda place=None: stats)
    return torch


def test_the_system_is_asked_for_before_the_program_uses_pytorch() -> None:
    code = "from stormlog.utils import get_system_info as ask; print(ask()['detected_backend'])"
    place = os.pathsep.join([str(FAKE_TORCH), *sys.path])
    environment = {**os.environ, "PYTHONPATH": place}
    shown = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert shown.stdout == "cuda\n", shown.stderr


def test_fragmentation_of_a_device(allocator: ModuleType) -> None:
    found = utils.check_memory_fragmentation()
    assert found["fragmentation_ratio"] == 0.2 and found["waste_ratio"] == 0.05
    assert found["utilization_ratio"] == 0.05 and found["reservation_ratio"] == 0.1
    assert found["free_memory"] == 900 * MIB and found["free_memory_formatted"] == "900.00 MB"
    assert list(found)[:3] == ["device_id", "total_memory", "allocated_memory"]
    allocator.STATE["available"] = False
    try:
        assert utils.check_memory_fragmentation() == {"error": "CUDA is not available"}
        assert "Device: Unknown (cuda:0)\nTotal Memory: 0 B\n" in utils.memory_summary()
    finally:
        allocator.STATE["available"] = True


def test_a_summary_ends_with_what_to_do(allocator: ModuleType) -> None:
    text = utils.memory_summary()
    assert "Device: Fake (cuda:0)\nTotal Memory: 1000.00 MB\n" in text
    assert "  Utilization: 5.0%\n  Reservation: 10.0%\n  Fragmentation: 20.0%\n" in text
    assert "\n  1. Low GPU memory utilization." in text and text.endswith("\n\n" + "=" * 60)


@pytest.mark.parametrize(
    ("shares", "begins"),
    [
        ({"fragmentation_ratio": 0.31, "utilization_ratio": 0.5}, "High memory fragmentation"),
        ({"utilization_ratio": 0.29}, "Low GPU memory"),
        ({"utilization_ratio": 0.91}, "Very high GPU memory"),
        ({"utilization_ratio": 0.3, "waste_ratio": 0.21}, "Significant memory waste"),
        ({"utilization_ratio": 0.9, "waste_ratio": 0.2}, "Use torch.no_grad()"),
    ],
)
def test_suggestions(shares: dict[str, float], begins: str) -> None:
    advice = utils.suggest_memory_optimization(shares)
    assert advice[0].startswith(begins)
    assert len(advice) == (4 if begins.startswith("Use") else 5)


def test_a_measured_block(torch: ModuleType) -> None:
    assert utils.MemoryContext().get_summary() == {"error": "Context not properly initialized"}
    before = torch.STATE["allocated"]
    with pytest.raises(KeyError), utils.MemoryContext("load") as context:
        torch.STATE["allocated"] += 10 * MIB
        raise KeyError
    torch.STATE["allocated"] = before
    summary = context.get_summary()
    assert (summary["name"], summary["memory_diff"]) == ("load", 10 * MIB)
    assert summary["peak_memory_usage_formatted"] == "10.00 MB"


@pytest.fixture
def tensorflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "fake_tensorflow"))
    import tensorflow

    tensorflow.__version__ = "2.20.0"
    build = {"is_cuda_build": True, "cuda_version": "12.5", "cudnn_version": "9"}
    tensorflow.sysconfig = SimpleNamespace(get_build_info=lambda: build)
    yield tensorflow
    tensorflow.STATE["gpus"] = []
    sys.modules.pop("tensorflow", None)


def test_tensorflow_and_its_devices(tensorflow: Any) -> None:
    from stormlog.tensorflow import utils as tf_utils

    assert tf_utils.get_gpu_info()["error"] == "No GPU devices found"
    assert tf_utils.get_backend_info()["runtime_backend"] == "cpu"
    tensorflow.STATE["gpus"] = [types.SimpleNamespace(name="/physical_device:GPU:0")]
    info = tf_utils.get_system_info()
    assert info["tensorflow_version"] == "2.20.0" and info["tf_cuda_version"] == "12.5"
    assert info["gpu"]["devices"][0]["current_memory_mb"] == 100.0
    assert info["backend"]["runtime_backend"] == "cuda"
    assert tf_utils.get_tensorflow_memory_usage()["gpu_current_mb"] == 100.0
    grown: list[Any] = []
    experimental = tensorflow.config.experimental
    experimental.set_memory_growth = lambda gpu, on: grown.append(on)
    experimental.get_memory_growth = lambda gpu: bool(grown)
    assert tf_utils.validate_tensorflow_environment()["memory_growth_enabled"] is False
    done = tf_utils.optimize_tensorflow_memory()
    assert done == ["Enabled memory growth for /physical_device:GPU:0"]
    assert tf_utils.validate_tensorflow_environment()["memory_growth_enabled"] is True
    tensorflow.__version__ = "2.3.0"
    (issue,) = tf_utils.validate_tensorflow_environment()["issues"]
    assert issue == "TensorFlow 2.3.0 may not be fully compatible (recommend 2.4+)"


def test_tensorflow_is_not_needed_to_ask_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from stormlog.tensorflow import utils as tf_utils

    monkeypatch.setitem(sys.modules, "tensorflow", None)
    assert tf_utils.get_system_info()["tensorflow_version"] == "Not installed"
    assert tf_utils.validate_tensorflow_environment()["issues"] == ["TensorFlow not installed"]
    assert tf_utils.optimize_tensorflow_memory() == []


def test_a_tensorflow_profile_as_text(tensorflow: Any) -> None:
    from stormlog.tensorflow import utils as tf_utils
    from stormlog.tensorflow.profiler import MemorySnapshot, ProfileResult

    sizes = [(10.0, 100.0), (20.0, 100.0)]
    snapshots = [MemorySnapshot(0.0, "s", used, 1.0, held, 0.0, 0) for used, held in sizes]
    profile = {"calls": 300, "total_duration": 1.5, "total_memory_used": 30.0, "peak_memory": 12.0}
    result = ProfileResult(0.0, 2.0, 9000.123, 100.0, 50.0, 3, 1, snapshots, {"f": profile})
    shares = tf_utils.analyze_fragmentation(snapshots)
    assert shares["fragmentation_score"] == pytest.approx(0.85)
    assert shares["fragmentation_trend"] == 0.0
    advice = tf_utils.suggest_optimizations(result)
    assert len(advice) == 10
    assert advice[8] == "Function 'f' called frequently - consider @tf.function decoration"
    text = tf_utils.generate_summary_report(result)
    assert "Peak Memory Usage: 8.79 GB\nAverage Memory Usage: 100.00 MB\n" in text
    assert "  f:\n    Calls: 300\n    Peak Memory: 12.00 MB\n    Total Duration: 1.500s\n" in text
    assert "  Fragmentation Score: 0.850\n" in text and "  TensorFlow Version: 2.20.0\n" in text
    assert tf_utils.format_memory(None) == "N/A" and tf_utils.format_memory(1536) == "1.50 KB"


@pytest.mark.skipif(find_spec("torch") is not None, reason="needs a machine without PyTorch")
def test_a_folder_is_no_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_spec("torch") is not None
    assert not _system.system_info()["torch_available"]


def test_a_folder_that_was_imported_is_no_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stored_runs").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "stored_runs", importlib.import_module("stored_runs"))
    assert not is_installed("stored_runs")
    monkeypatch.setitem(sys.modules, "made", ModuleType("made"))
    assert is_installed("made") and is_installed("json")
