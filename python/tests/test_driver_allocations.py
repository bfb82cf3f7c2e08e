"""Attribution of the driver's allocations, over a stand-in for CUPTI that the tests compile."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parent / "fake_cupti" / "cupti.c"
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

HEAD = """
import ctypes, json, sys
from stormlog import _core, _driver

folder = sys.argv[1]
driver = ctypes.CDLL(folder + "/libcuda.so.1")
cupti = ctypes.CDLL(folder + "/libcupti.so")

def call(name, *parameters, result=0, context=1):
    values = (ctypes.c_uint64 * len(parameters))(*parameters)
    return cupti.fake_call(name.encode(), values, result, ctypes.c_size_t(context))

def place(value):
    kept = ctypes.c_uint64(value)
    places.append(kept)
    return ctypes.addressof(kept)

places = []
_driver._libraries = lambda: [folder + "/libcupti.so"]
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-ins for CUPTI and for the driver, compiled."""
    folder = tmp_path_factory.mktemp("cupti")
    assert COMPILER is not None
    for name in ("libcupti.so", "libcuda.so.1"):
        named = [f"-Wl,-soname,{name}"]
        command = [COMPILER, "-shared", "-fPIC", *named, "-o", str(folder / name), str(SOURCE)]
        subprocess.run(command, check=True)
    return folder


def ran(libraries: Path, body: str) -> Any:
    """The output of a program that consists of HEAD and ``body``."""
    script = HEAD + textwrap.dedent(body)
    command = [sys.executable, "-c", script, str(libraries)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_allocations_are_followed_until_they_are_freed(libraries: Path) -> None:
    held = ran(
        libraries,
        """
        assert _driver.start() is None
        call("cuMemAlloc_v2", place(0x1000), 300)
        call("cuMemAlloc_v2", place(0x2000), 50, context=2)
        call("cuMemAlloc_v2", place(0x3000), 70)
        call("cuMemFree_v2", 0x3000)
        call("cuMemAlloc_v2", place(0x4000), 999, result=2)
        call("cuMemAllocManaged", place(0x5000), 11)
        call("cuMemAllocAsync", place(0x6000), 13, 0)
        call("cuMemAllocPitch_v2", place(0x7000), place(512), 500, 4, 4)
        properties = (ctypes.c_int * 8)(1, 0, 1, 3)
        call("cuMemCreate", place(0x1000), 4096, ctypes.addressof(properties), 0)
        on_host = (ctypes.c_int * 8)(1, 0, 2, 0)
        call("cuMemCreate", place(0x1001), 77, ctypes.addressof(on_host), 0)
        call("cuMemCreate", place(0x1002), 78, ctypes.addressof(properties), 0)
        call("cuMemRelease", 0x1002)
        print(json.dumps(_core.driver_held()))
        """,
    )
    found = {(one["device"], one["kind"], one["bytes"], one["blocks"]) for one in held[0]}
    # 300 bytes and four rows of 512.
    assert found == {
        (0, "device", 300 + 4 * 512, 2),
        (1, "device", 50, 1),
        (0, "managed", 11, 1),
        (0, "pool", 13, 1),
        (3, "device", 4096, 1),
    }
    assert {one["library"] for one in held[0]} == {"ctypes"}


def test_arrays_are_followed_and_have_no_size(libraries: Path) -> None:
    held = ran(
        libraries,
        """
        class Description(ctypes.Structure):
            _fields_ = [(name, ctypes.c_size_t) for name in ("width", "height", "depth")]
            _fields_ += [(name, ctypes.c_uint) for name in ("format", "channels", "flags")]

        class Flat(ctypes.Structure):
            _fields_ = [(name, ctypes.c_size_t) for name in ("width", "height")]
            _fields_ += [(name, ctypes.c_uint) for name in ("format", "channels")]

        def described(description):
            places.append(description)
            return ctypes.addressof(description)

        assert _driver.start() is None
        call("cuArrayCreate_v2", place(0x10), described(Flat(640, 480, 0x20, 4)))
        call("cuArray3DCreate_v2", place(0x20), described(Description(64, 64, 8, 0x20, 4, 0)))
        call("cuMipmappedArrayCreate", place(0x30), described(Description(64, 64, 0, 0x20, 4, 0)), 3)
        # Without memory: sparse, and mapped later.
        for number, flags in ((0x40, 0x40), (0x50, 0x80)):
            call("cuArray3DCreate_v2", place(number), described(Description(9, 9, 9, 0x20, 4, flags)))
        call("cuArrayCreate_v2", place(0x60), described(Flat(1, 1, 1, 1)), result=2)
        call("cuArrayDestroy", 0x20)
        # An address with the number of an array is another thing.
        call("cuMemAlloc_v2", place(0x10), 70)
        call("cuMemFree_v2", 0x10)
        print(json.dumps(_core.driver_held()))
        """,
    )
    [arrays] = held[0]
    assert (arrays["kind"], arrays["bytes"], arrays["blocks"]) == ("array", None, 2)


def test_new_contexts_are_waited_for(libraries: Path) -> None:
    answers = ran(
        libraries,
        """
        import threading
        wait = _core.wait_for_contexts
        answers = [wait([], 0.01, 0.0)]
        driver.fake_contexts(0b0001)
        answers.append(wait([], 0.01, 60.0))
        answers.append(wait([0], 0.01, 0.05))
        timer = threading.Timer(0.2, driver.fake_contexts, [0b1001])
        timer.start()
        answers.append(wait([0], 0.01, 60.0))
        print(json.dumps(answers))
        """,
    )
    assert [devices for devices, _ in answers] == [[], [0], [], [3]]
    assert answers[1][1] is None, "it was there at the first look"
    assert answers[2][1] >= 0.04
    assert answers[3][1] >= 0.1


def test_another_subscriber_is_reported(libraries: Path) -> None:
    reason, state = ran(
        libraries,
        """
        handle = ctypes.c_void_p()
        cupti.cuptiSubscribe(ctypes.byref(handle), ctypes.c_void_p(1), None)
        print(json.dumps([_driver.start(), _driver.state()]))
        """,
    )
    assert "MULTIPLE_SUBSCRIBERS" in reason
    assert state == {"state": "unavailable", "reason": reason}


def test_cupti_is_not_touched_without_a_driver(libraries: Path) -> None:
    script = (
        "import json\nfrom stormlog import _core\n"
        f"print(json.dumps(_core.driver_start([{str(libraries / 'libcupti.so')!r}])))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert json.loads(done.stdout) == "the NVIDIA driver is not loaded"


def test_a_profiler_of_the_program_gets_cupti(libraries: Path) -> None:
    calls, state, held = ran(
        libraries,
        """
        import types
        calls = []
        for name in ("torch", "torch.autograd", "torch.autograd.profiler"):
            sys.modules[name] = types.ModuleType(name)
        profiler = sys.modules["torch.autograd.profiler"]

        def prepare(*arguments, **options):
            handle = ctypes.c_void_p()
            free = cupti.cuptiSubscribe(ctypes.byref(handle), ctypes.c_void_p(1), None) == 0
            calls.append([list(arguments), options, free])
            return "prepared"

        profiler._prepare_profiler = prepare
        assert _driver.start() is None
        call("cuMemAlloc_v2", place(0x1000), 300)
        assert profiler._prepare_profiler(1, two=2) == "prepared"
        print(json.dumps([calls, _driver.state(), _core.driver_held()[0]]))
        """,
    )
    assert calls == [[[1], {"two": 2}, True]]
    assert state["state"] == "ended" and "profiler" in state["reason"]
    assert [one["bytes"] for one in held] == [300], "what was held stays known"


def test_large_allocations_of_the_program_have_a_line(libraries: Path, tmp_path: Path) -> None:
    body = HEAD + textwrap.dedent(
        """
        import time
        assert _driver.start() is None
        deadline = time.monotonic() + 60
        found = []
        number = 0
        while not found and time.monotonic() < deadline:
            number += 1
            time.sleep(0.05)
            call("cuMemAlloc_v2", place(number << 12), 4 << 20)  # here
            held = _core.driver_held()[0]
            found = [one["site"] for one in held if "site" in one]
            if number % 6 == 0 and not found:
                # After unanswered questions none are asked for a minute.
                break
        print(json.dumps(found))
        """
    )
    program = tmp_path / "train.py"
    program.write_text(body)
    command = [sys.executable, str(program), str(libraries)]
    # A question waits for milliseconds only, so a busy machine may leave all of one run unanswered.
    found: list[dict[str, Any]] = []
    for _ in range(10):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        if found:
            break
    here = next(n for n, line in enumerate(body.splitlines(), 1) if line.endswith("# here"))
    lines = {(Path(site["file"]).name, site["line"]) for site in found}
    assert lines, "no line was found in ten runs"
    # The stand-in is called through a function of this file.
    called = next(n for n, line in enumerate(body.splitlines(), 1) if "cupti.fake_call" in line)
    assert lines <= {("train.py", here), ("train.py", called)}
