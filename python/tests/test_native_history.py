"""Recording PyTorch's allocator, over a stand-in for PyTorch."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conftest import FAKE_TORCH
from stormlog import _core, _cuda_history, _tensor_index
from stormlog import cuda_native_debug as native
from stormlog.diagnose import run_diagnose
from stormlog.errors import StormlogError
from stormlog.tracker import MemoryTracker

BLOCK = {"address": 4096, "size": 512, "requested_size": 24, "state": "active_allocated"}
SNAPSHOT = {
    "segments": [
        {"device": 0, "address": 4096, "total_size": 2048, "stream": 0, "blocks": [BLOCK]}
    ],
    "device_traces": [[]],
}
OWN_FILES = [
    native.SNAPSHOT_PICKLE_FILENAME,
    native.TENSOR_ATTRIBUTION_FILENAME,
    native.ALLOCATION_ATTRIBUTION_FILENAME,
    native.TRACE_HTML_ANNOTATED_FILENAME,
    native.DEBUG_METADATA_FILENAME,
]


@pytest.fixture
def history(torch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    monkeypatch.setattr(_cuda_history, "_users", 0)
    torch.HISTORY["snapshot"] = SNAPSHOT
    yield torch.HISTORY
    assert _cuda_history._users == 0, "the history was left on"


def names_of(report: dict[str, Any]) -> dict[int, list[str]]:
    return {
        entry["storage_ptr_int"]: entry["names"] for entry in report["attributed_storage_pointers"]
    }


@pytest.mark.skipif("torch" in sys.modules, reason="needs a machine without PyTorch")
def test_without_pytorch_everything_says_so() -> None:
    code = textwrap.dedent(
        """
        import sys
        sys.modules["torch"] = None
        from pathlib import Path
        from stormlog import cuda_native_debug as native
        from stormlog.diagnose import run_diagnose
        from stormlog.errors import StormlogError
        assert not native.cuda_memory_history_supported()
        for call in (
            native.start_cuda_memory_history,
            native.build_cuda_tensor_attribution_index,
            native.cuda_memory_history().__enter__,
            lambda: native.capture_cuda_snapshot_artifacts(Path("out"), history_recorded=True),
            lambda: run_diagnose("out", None, 0.1, 0.1, "test", native_history=True),
        ):
            try:
                call()
            except RuntimeError as error:
                assert isinstance(error, StormlogError)
                assert "unavailable" in str(error) and "pip install" in str(error), error
            else:
                raise AssertionError(call)
        native.stop_cuda_memory_history()
        assert not Path("out").exists()
        """
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_a_device_the_reason_is_told(torch: ModuleType) -> None:
    torch.STATE["available"] = False
    assert not native.cuda_memory_history_supported()
    with pytest.raises(RuntimeError, match="PyTorch finds no CUDA device"):
        native.start_cuda_memory_history()


def test_history_is_on_while_somebody_needs_it(history: dict[str, Any]) -> None:
    assert native.cuda_memory_history_supported()
    with native.cuda_memory_history(trace_alloc_max_entries=77):
        native.start_cuda_memory_history()
        native.stop_cuda_memory_history()
        assert history["enabled"]
    native.stop_cuda_memory_history()
    on, off = history["calls"]
    assert on == ("all", {"context": "all", "stacks": "python", "max_entries": 77})
    assert off == (None, {})
    with pytest.raises(ValueError, match="must be >= 1"):
        native.start_cuda_memory_history(trace_alloc_max_entries=0)


def test_a_history_of_the_programs_own_is_left_alone(history: dict[str, Any]) -> None:
    history["enabled"] = True
    with native.cuda_memory_history():
        pass
    assert history["enabled"] and history["calls"] == []


def test_history_can_be_the_first_use_of_cuda(torch: ModuleType, history: dict[str, Any]) -> None:
    torch.STATE["initialized"] = False
    with native.cuda_memory_history():
        assert history["enabled"]
    assert not history["enabled"]


def test_history_survives_an_evidence_window(torch: ModuleType, history: dict[str, Any]) -> None:
    window = _cuda_history.Window(torch)
    window.open()
    with native.cuda_memory_history(trace_alloc_max_entries=77):
        window.close()
        assert window.is_taken and history["enabled"]
        assert history["calls"][-1][1]["max_entries"] == 77
        # A window that opens now uses the history as it is.
        window.open()
        window.close()
        assert window.is_taken and history["enabled"]
    assert not history["enabled"]
    window.open()
    assert history["enabled"] and not window.is_taken
    window.close()
    assert not history["enabled"]


def test_a_history_that_cannot_begin_ends_an_evidence_window(
    torch: ModuleType, history: dict[str, Any]
) -> None:
    window = _cuda_history.Window(torch)
    record = torch._C._cuda_record_memory_history
    window.open()
    switch = torch.cuda.memory._record_memory_history

    def failing(enabled: str | None = "all", **options: Any) -> None:
        if enabled == "all":
            raise TypeError("an old PyTorch")
        switch(enabled, **options)

    torch.cuda.memory._record_memory_history = failing
    with pytest.raises(StormlogError, match=r"PyTorch 2\.1 or later"):
        native.start_cuda_memory_history()
    assert window.is_taken and not history["enabled"]
    assert torch._C._cuda_record_memory_history is record
    window.close()
    assert not history["enabled"]


def test_a_closed_window_that_the_program_calls_leaves_the_open_one(
    torch: ModuleType, history: dict[str, Any]
) -> None:
    closed, window = _cuda_history.Window(torch), _cuda_history.Window(torch)
    closed.open()
    kept = torch._C._cuda_record_memory_history
    closed.close()
    window.open()
    # The program has kept the function from the time of the first window.
    kept("state", {})
    with native.cuda_memory_history():
        assert window.is_taken
        window.close()
        assert history["enabled"]


def test_history_ends_with_a_block_that_fails(history: dict[str, Any]) -> None:
    with pytest.raises(ZeroDivisionError), native.cuda_memory_history():
        1 / 0
    assert not history["enabled"]


def test_an_old_pytorch_is_told(torch: ModuleType, history: dict[str, Any]) -> None:
    torch.cuda.memory._record_memory_history = lambda enabled: None
    with pytest.raises(StormlogError, match=r"PyTorch 2\.1 or later"):
        native.start_cuda_memory_history()


def test_tensors_are_named_by_modules_first(torch: ModuleType, history: dict[str, Any]) -> None:
    class Layer(torch.nn.Module):
        def __init__(self, **children: Any) -> None:
            self._parameters: dict[str, Any] = {}
            self._buffers: dict[str, Any] = {}
            self._modules = children

        def named_parameters(self) -> None:
            raise RuntimeError("this must not be called")

    inner = Layer()
    inner._parameters["weight"] = torch.Tensor(4096)
    inner._parameters["weight"].grad = torch.Tensor(8192)
    inner._buffers["mean"] = torch.Tensor(256)
    outer = Layer(block=inner)
    outer._parameters["tied"] = inner._parameters["weight"]
    optimizer = torch.optim.Optimizer()
    optimizer.state = {inner._parameters["weight"]: {"exp_avg": torch.Tensor(512), "step": 1}}
    batches = {"batch": torch.Tensor(1024), 7: torch.Tensor(2048)}
    report = native.build_cuda_tensor_attribution_index(0)
    assert names_of(report) == {
        256: ["block.mean"],
        512: ["block.weight.exp_avg"],
        1024: ["batch"],
        2048: [],
        4096: ["block.weight", "tied"],
        8192: ["block.weight.grad", "tied.grad"],
    }
    assert report["device_index"] == 0 and report["storage_pointer_count"] == 6
    first = report["attributed_storage_pointers"][0]
    assert first == {
        "storage_ptr": "0x100",
        "storage_ptr_int": 256,
        "names": ["block.mean"],
        "tensor_count": 1,
        "tensors": [
            {
                "shape": [2, 3],
                "dtype": "torch.float32",
                "device": "cuda:0",
                "size_bytes": 24,
                "requires_grad": True,
                "is_leaf": True,
            }
        ],
    }
    assert len(batches) == 2 and outer is not None
    assert names_of(native.build_cuda_tensor_attribution_index("cuda:1")) == {}


def test_modules_that_know_the_one_they_are_in(
    torch: ModuleType, history: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # With the depth of 64, code that follows every path would run out of memory.
    monkeypatch.setattr(_tensor_index, "_DEEPEST_MODULE", 6)

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            self._parameters: dict[str, Any] = {}
            self._modules: dict[str, Any] = {}

    model, other = Layer(), Layer()
    for place in range(3):
        layer = model._modules[f"layer{place}"] = Layer()
        layer._modules["model"] = model
        layer._parameters["weight"] = torch.Tensor(4096 * (place + 1))
    other._parameters["bias"] = torch.Tensor(256)
    assert names_of(native.build_cuda_tensor_attribution_index(0)) == {
        256: ["bias"],
        4096: ["layer0.weight"],
        8192: ["layer1.weight"],
        12288: ["layer2.weight"],
    }


class Hostile:
    """Raises an error whenever it is used."""

    def __getattribute__(self, name: str) -> Any:
        raise SystemError(f"asked for {name}")

    def __eq__(self, other: object) -> bool:
        raise SystemError("compared")

    def __hash__(self) -> int:
        return 1

    def __bool__(self) -> bool:
        raise SystemError("asked whether")


def test_objects_that_break_and_tensors_that_end(
    torch: ModuleType, history: dict[str, Any]
) -> None:
    class BrokenModule(torch.nn.Module):
        def __getattribute__(self, name: str) -> Any:
            raise SystemError(name)

    class BrokenTensor(torch.Tensor):
        @property
        def is_cuda(self) -> bool:
            raise RuntimeError("no storage")

    class Odd(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            raise SystemError("items")

        def __len__(self) -> int:
            raise SystemError("len")

    kept = [Hostile(), BrokenModule(), BrokenTensor(1), Odd(name=torch.Tensor(256)), {Hostile(): 1}]
    kept.append(weakref.proxy(kept[2]))
    ending = torch.Tensor(512)
    watched = weakref.ref(ending)
    holder = {"ending": ending}
    report = native.build_cuda_tensor_attribution_index(0, skip_gc=True)
    assert names_of(report) == {256: ["name"], 512: ["ending"]}
    gc.disable()
    try:
        holder.clear()
        del ending
        assert watched() is None, "the index keeps a tensor alive"
    finally:
        gc.enable()
    assert len(kept) == 6


def test_garbage_is_collected_only_where_it_may(
    torch: ModuleType, history: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda *args: collected.append(1))
    native.build_cuda_tensor_attribution_index(0, skip_gc=True)
    assert collected == []
    native.build_cuda_tensor_attribution_index(0)
    assert collected == [1]


def test_a_captured_snapshot(torch: ModuleType, history: dict[str, Any], tmp_path: Path) -> None:
    kept = {"activations": torch.Tensor(4096)}
    names = native.capture_cuda_snapshot_artifacts(tmp_path, history_recorded=True)
    assert names == OWN_FILES and sorted(names) == sorted(os.listdir(tmp_path))
    page = (tmp_path / native.TRACE_HTML_ANNOTATED_FILENAME).read_text()
    assert "activations" in page and "0x1000" in page
    allocations = json.loads((tmp_path / native.ALLOCATION_ATTRIBUTION_FILENAME).read_text())
    assert allocations["attributed_allocations"][0]["names"] == ["activations"]
    assert len(kept) == 1


@pytest.mark.parametrize("announced", [True, False])
def test_a_bundle_has_the_history(
    torch: ModuleType, history: dict[str, Any], tmp_path: Path, announced: bool
) -> None:
    tracker = MemoryTracker(
        enable_native_cuda_history=True,
        native_history_max_entries=5,
        enable_oom_flight_recorder=True,
        oom_dump_dir=str(tmp_path),
        sampling_interval=0.01,
    )
    kept = {"activations": torch.Tensor(4096)}
    with tracker:
        assert history["enabled"] and history["calls"][0][1]["max_entries"] == 5
        with pytest.raises(torch.OutOfMemoryError), tracker.capture_oom("step 7"):
            if announced:
                torch.run_out_of_memory()
            raise torch.OutOfMemoryError("CUDA out of memory")
        assert history["enabled"], "capture_oom has switched off what the tracker needs"
    assert not history["enabled"]
    (bundle,) = tmp_path.iterdir()
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["native_history_enabled"] is True
    assert manifest["native_history_files"] == OWN_FILES
    assert manifest["files"] == [
        "manifest.json",
        "events.json",
        "metadata.json",
        "environment.json",
        *OWN_FILES,
    ]
    assert sorted(manifest["files"]) == sorted(path.name for path in bundle.iterdir())
    metadata = json.loads((bundle / "metadata.json").read_text())
    assert metadata["custom_metadata"]["native_history_files"] == OWN_FILES
    assert metadata["context"] == "step 7" and len(kept) == 1


def test_a_history_that_fails_costs_no_bundle(
    torch: ModuleType, history: dict[str, Any], tmp_path: Path
) -> None:
    tracker = MemoryTracker(
        enable_native_cuda_history=True, enable_oom_flight_recorder=True, oom_dump_dir=str(tmp_path)
    )
    torch.cuda.memory._snapshot = lambda: 1 / 0
    with pytest.raises(torch.OutOfMemoryError), tracker.capture_oom("step 7"):
        torch.run_out_of_memory()
    (bundle,) = tmp_path.iterdir()
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert "native_history_files" not in manifest and len(manifest["files"]) == 4


def test_a_bundle_does_not_claim_a_history_that_could_not_be_recorded(
    torch: ModuleType, history: dict[str, Any], tmp_path: Path
) -> None:
    tracker = MemoryTracker(
        enable_native_cuda_history=True, enable_oom_flight_recorder=True, oom_dump_dir=str(tmp_path)
    )
    torch.cuda.memory._record_memory_history = lambda **options: 1 / 0
    with tracker, pytest.raises(torch.OutOfMemoryError):
        torch.run_out_of_memory()
    (bundle,) = tmp_path.iterdir()
    metadata = json.loads((bundle / native.DEBUG_METADATA_FILENAME).read_text())
    assert metadata["history_recorded"] is False


def test_a_file_that_cannot_be_written_leaves_nothing(
    torch: ModuleType, history: dict[str, Any], tmp_path: Path
) -> None:
    in_the_way = tmp_path / native.TENSOR_ATTRIBUTION_FILENAME
    in_the_way.mkdir()
    with pytest.raises(OSError):
        native.capture_cuda_snapshot_artifacts(tmp_path, history_recorded=True)
    assert sorted(os.listdir(tmp_path)) == sorted(
        [native.SNAPSHOT_PICKLE_FILENAME, in_the_way.name]
    )


def test_a_tracker_without_a_device_refuses(torch: ModuleType) -> None:
    torch.STATE["available"] = False
    with pytest.raises(RuntimeError, match="history is unavailable"):
        MemoryTracker(enable_native_cuda_history=True)


def test_a_diagnosis_has_the_history(
    torch: ModuleType, history: dict[str, Any], tmp_path: Path
) -> None:
    directory, code = run_diagnose(
        str(tmp_path / "out"),
        None,
        0.1,
        0.02,
        "test",
        native_history=True,
        native_history_max_entries=9,
    )
    manifest = json.loads((directory / "manifest.json").read_text())
    assert code == 0 and manifest["native_history_enabled"] is True
    assert [name for name in manifest["files"] if name in OWN_FILES] == OWN_FILES
    assert all((directory / name).is_file() for name in manifest["files"])
    assert history["calls"][0][1]["max_entries"] == 9 and not history["enabled"]
    with pytest.raises(ValueError, match="must be > 0"):
        run_diagnose(
            None, None, 0.1, 0.1, "test", native_history=True, native_history_max_entries=0
        )
    plain, _ = run_diagnose(str(tmp_path / "plain"), None, 0.1, 0.02, "test")
    assert json.loads((plain / "manifest.json").read_text())["native_history_enabled"] is False


def run_recording(tmp_path: Path, program: str, **variables: str) -> Path:
    """Run a program as ``stormlog diagnose --native-history`` does, and give the bundle."""
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    command = [sys.executable, "-m", "stormlog", "run", "--dir", str(tmp_path / "run"), "--"]
    subprocess.run(
        [*command, sys.executable, "-c", textwrap.dedent(program)],
        check=True,
        env={
            **os.environ,
            "PYTHONPATH": str(FAKE_TORCH),
            "STORMLOG_RUN_NATIVE_HISTORY": str(bundle),
            "STORMLOG_RUN_NATIVE_HISTORY_ENTRIES": "7",
            **variables,
        },
    )
    return bundle


PROGRAM = f"""
    import time, torch
    torch.STATE["initialized"] = False
    torch.HISTORY["snapshot"] = {SNAPSHOT!r}
    deadline = time.monotonic() + 20
    while not torch._waiting and time.monotonic() < deadline:
        time.sleep(0.01)
    assert torch.HISTORY["calls"] == [], "recording has begun before CUDA"
    torch.cuda.start()
    assert torch.HISTORY["calls"][0][1]["max_entries"] == 7
    kept = {{"model": torch.Tensor(4096)}}
"""


def test_a_command_records_from_the_start_of_cuda_to_its_end(tmp_path: Path) -> None:
    bundle = run_recording(tmp_path, PROGRAM)
    assert sorted(path.name for path in bundle.iterdir()) == sorted(OWN_FILES)
    index = json.loads((bundle / native.TENSOR_ATTRIBUTION_FILENAME).read_text())
    assert names_of(index) == {4096: ["model"]}


def test_ranks_have_directories_of_their_own(tmp_path: Path) -> None:
    bundle = run_recording(tmp_path, PROGRAM, RANK="1", WORLD_SIZE="2", LOCAL_RANK="1")
    (place,) = bundle.iterdir()
    assert place.is_dir() and (place / native.SNAPSHOT_PICKLE_FILENAME).is_file()


def test_a_command_without_cuda_leaves_nothing(tmp_path: Path) -> None:
    assert list(run_recording(tmp_path, "print('no GPU here')").iterdir()) == []


def test_a_pytorch_without_history_costs_no_recording_of_the_device(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = """
        import os, time, torch
        del torch.cuda.memory._record_memory_history
        deadline = time.monotonic() + 20
        while not torch.OBSERVERS and time.monotonic() < deadline:
            time.sleep(0.01)
        assert torch.OBSERVERS, "no tracker of the device has begun"
    """
    assert list(run_recording(tmp_path, program).iterdir()) == []
    assert "cannot record device" not in capfd.readouterr().err


def test_a_program_without_standard_error_starts_cuda_all_the_same(tmp_path: Path) -> None:
    run_recording(
        tmp_path,
        """
        import sys, time, torch
        torch.STATE["initialized"] = False
        deadline = time.monotonic() + 20
        while not torch._waiting and time.monotonic() < deadline:
            time.sleep(0.01)
        # Recording fails, and there is nowhere to say so.
        torch.cuda.memory._record_memory_history = None
        sys.stderr = None
        torch.cuda.start()
        """,
    )


def diagnose(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    code = f"import sys; from stormlog import entrypoint; sys.exit(entrypoint.{name}(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "diagnose", "--native-history", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_diagnose_says_before_it_begins_that_nobody_could_record(tmp_path: Path) -> None:
    for name in ("main", "gpumemprof"):
        result = diagnose(name, "--output", tmp_path / "out")
        assert result.returncode == 1
        assert "'--native-history' needs a command" in result.stderr
        assert "hint: only the program itself can" in result.stderr
        if not _core.nvml_gpus():
            ran = tmp_path / "ran"
            command = (sys.executable, "-c", f"open({str(ran)!r}, 'w')")
            result = diagnose(name, "--output", tmp_path / "out", "--", *command)
            assert result.returncode == 1 and not ran.exists()
            assert "'--native-history' needs a CUDA device" in result.stderr
    # The programs of other frameworks have no such flag.
    assert "unexpected argument '--native-history'" in diagnose("tfmemprof").stderr
    assert not (tmp_path / "out").exists()
