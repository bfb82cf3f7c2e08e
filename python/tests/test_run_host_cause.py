"""``stormlog run`` on programs whose host memory grows: the report names what holds it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import stormlog
from test_capture_commands import only_session, program, run
from waiting import PATIENCE_S

# Grows until the process was inspected, and a little longer.
GROWING = """
import pathlib, sys, time

def growing(per_second=50):
    begin, left, step = time.monotonic(), None, 0
    while time.monotonic() - begin < 80 and left != 0:
        yield step
        step += 1
        time.sleep(1 / per_second)
        left = None if left is None else left - 1
        if left is None and step % 25 == 0:
            files = pathlib.Path(sys.argv[1]).rglob("segment-*")
            if any('"is_final": true' in file.read_text() for file in files):
                left = 4 * per_second
"""

# Source, what holds the memory and the text of the line that adds to it; `None`: not named.
PROGRAMS: dict[str, tuple[str, str, str | None]] = {
    "list_in_main": (
        "kept = []\nfor step in growing():\n    kept.append(bytearray(b'x') * 200_000)\n",
        "`kept` in `__main__`",
        "kept.append",
    ),
    "dict_in_module": (
        "import store\nfor step in growing():\n    store.remember(step)\n",
        "`seen` in `store`",
        "seen[key] =",
    ),
    "closure": (
        "def make():\n    log = []\n    def keep(value):\n        log.append(value)\n"
        "    return keep\nkeep = make()\n"
        "for step in growing():\n    keep([b'x' * 50_000 + b'%d' % step for _ in range(4)])\n",
        "`log` closed over by `keep`",
        "log.append",
    ),
    "instance_attribute": (
        "class Service:\n    def __init__(self):\n        self.requests = {}\n"
        "    def handle(self, step):\n        self.requests[step, 'id'] = 'x%d' % step * 50_000\n"
        "service = Service()\nfor step in growing():\n    service.handle(step)\n",
        "`service.requests` in `__main__`",
        "self.requests[step",
    ),
    "lru_cache": (
        "import functools\n@functools.lru_cache(maxsize=None)\ndef parse(step):\n"
        "    return bytes(bytearray(b'x')) * 200_000\nfor step in growing():\n    parse(step)\n",
        "the `lru_cache` of `parse`",
        None,
    ),
    "local_variable": (
        "def main():\n    rows = []\n    for step in growing():\n"
        "        rows.extend([float(step) + n for n in range(6000)])\nmain()\n",
        "local `rows` in `main`",
        "rows.extend",
    ),
    "numpy_arrays": (
        "import numpy\nviews = []\nfor step in growing():\n"
        "    picture = numpy.ones((64, 400), dtype=numpy.float64)\n"
        "    views.append(picture[0])\n",
        "`views` in `__main__`",
        "views.append",
    ),
    "own_tracemalloc": (
        "import tracemalloc\ntracemalloc.start()\nkept = []\nfor step in growing():\n"
        "    kept.append(bytearray(b'x') * 200_000)\nassert tracemalloc.is_tracing()\n",
        "`kept` in `__main__`",
        "kept.append",
    ),
    "two_lines_add": (
        "kept = []\nfor step in growing():\n    if step % 2:\n        kept.append(b'x' * 200_000)\n"
        "    else:\n        kept.append(bytearray(b'y') * 200_000)\n",
        "`kept` in `__main__`",
        None,
    ),
    "forked_worker": (
        "import multiprocessing\nseen = {}\ndef work():\n    for step in growing():\n"
        "        seen[step] = bytes([step % 7]) * 200_000\n"
        "if __name__ == '__main__':\n"
        "    worker = multiprocessing.get_context('fork').Process(target=work)\n"
        "    worker.start()\n    worker.join()\n",
        "`seen` in `__main__`",
        "seen[step] =",
    ),
    "spawned_worker": (
        "import multiprocessing\nseen = {}\ndef work():\n    for step in growing():\n"
        "        seen[step] = bytes([step % 7]) * 200_000\n"
        "if __name__ == '__main__':\n"
        "    worker = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    worker.start()\n    worker.join()\n",
        "`seen` in `__main__`",
        "seen[step] =",
    ),
    "maps": (
        "import mmap\nbuffers = []\nfor step in growing():\n"
        "    buffer = mmap.mmap(-1, 200_000)\n    buffer.write(b'x' * 200_000)\n"
        "    buffers.append(buffer)\n",
        "`buffers` in `__main__`",
        "buffers.append",
    ),
    "threads": (
        "import threading\nlocal = threading.local()\ndone = []\ndef work(steps):\n"
        "    local.seen = []\n    for step in steps:\n"
        "        local.seen.append(b'%d' % step * 50_000)\n    done.append(1)\n"
        "threads = [threading.Thread(target=work, args=(growing(),)) for _ in range(2)]\n"
        "for thread in threads:\n    thread.start()\nfor thread in threads:\n    thread.join()\n",
        "the lists of `local.seen` in `__main__`",
        "local.seen.append",
    ),
    "handler": (
        "import logging, logging.handlers\n"
        "handler = logging.handlers.MemoryHandler(10_000_000)\n"
        "logging.getLogger().addHandler(handler)\n"
        "for step in growing():\n    logging.warning('%s', b'x' * 60_000 + b'%d' % step)\n"
        "    logging.warning('%s', b'x' * 60_000 + b'%d' % step)\n",
        "`handler.buffer` in `__main__`",
        "MemoryHandler(",
    ),
    "endless_queue": (
        "import queue\njobs = queue.Queue()\nfor step in growing():\n"
        "    jobs.put(b'x' * 200_000)\n",
        "`jobs.queue` in `__main__`",
        "jobs.put",
    ),
    "cycles": (
        "import gc\ngc.disable()\nclass Node:\n    def __init__(self, text):\n"
        "        self.text, self.parts = text, [self]\nfor step in growing():\n"
        "    for part in range(40):\n        Node('x' * 5_000 + str(step * part))\n",
        "the reference cycles of `Node` objects that nothing refers to",
        "gc.disable()",
    ),
    "registry": (
        "import ctypes, sys\nsys.path.append(sys.path[0] + '/site-packages')\nimport drawing\n"
        "for step in growing():\n    figure = drawing.figure()\n    del figure\n",
        "`Manager.figures` in `drawing`",
        None,
    ),
    "native": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\n"
        "for step in growing():\n    block = libc.malloc(200_000)\n"
        "    ctypes.memset(block, 1, 200_000)\n",
        "native memory (",
        None,
    ),
}
STORE = (
    "seen = {}\ndef remember(key):\n    seen[key] = list(range(key * 1000, key * 1000 + 6000))\n"
)


# A library whose figures have memory that Python does not see.
DRAWING = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
class Figure:
    def __init__(self):
        self.canvas = ctypes.c_void_p(libc.malloc(200_000))
        ctypes.memset(self.canvas, 1, 200_000)
class Manager:
    figures = {}
def figure():
    found = Manager.figures[len(Manager.figures) + 1] = Figure()
    return found
"""


def report(out: Path) -> dict[str, Any]:
    result = run("analyze", out, "--format", "json")
    assert result.returncode in (0, 2), result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def leaks(out: Path) -> list[dict[str, Any]]:
    return [one for one in report(out)["findings"] if one["kind"] == "host_leak"]


def looks(out: Path) -> list[dict[str, Any]]:
    events = only_session(out / "host").events
    found = [one.metadata["evidence"] for one in events if one.event_type == "memory_evidence"]
    return [one for one in found if "has_ended" not in one]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All programs at once: each sleeps most of the time."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "store.py").write_text(STORE)
    (folder / "site-packages").mkdir()
    (folder / "site-packages/drawing.py").write_text(DRAWING)
    started = {}
    for name, (source, _, _) in PROGRAMS.items():
        script, out = folder / f"{name}.py", folder / name
        script.write_text(GROWING + source)
        command = [*program("main"), "run", "-q", "--dir", str(out), "--"]
        command += [sys.executable, str(script), str(out)]
        started[name] = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        # Starting an interpreter is the only thing that takes a processor.
        time.sleep(0.3)
    for name, running in started.items():
        _, errors = running.communicate(timeout=2 * PATIENCE_S)
        assert (running.returncode, errors) == (0, ""), name
    return {name: folder / name for name in PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_holder_is_named(recordings: dict[str, Path], name: str) -> None:
    out = recordings[name]
    _, holder, line = PROGRAMS[name]
    (leak,) = leaks(out)
    cause = leak["cause"]
    assert cause is not None, looks(out)
    assert cause["holder"].startswith(holder), cause
    assert cause["share"] > 0.5
    assert holder.split(" (")[0] in leak["explanation"], leak["explanation"]
    if line is None:
        return
    site = cause["site"]
    text = Path(site["file"]).read_text().splitlines()[site["line"] - 1]
    assert line in text, (site, text)
    assert f"{Path(site['file']).name}:{site['line']}" in leak["explanation"]


def test_a_line_is_named_only_where_one_adds(recordings: dict[str, Path]) -> None:
    for name in ("two_lines_add", "native"):
        (leak,) = leaks(recordings[name])
        assert leak["cause"]["site"] is None
    (leak,) = leaks(recordings["lru_cache"])
    site = leak["cause"]["site"]
    assert (Path(site["file"]).name, site["function"]) == ("lru_cache.py", "parse")


def test_the_worker_is_named(recordings: dict[str, Path]) -> None:
    for name in ("forked_worker", "spawned_worker"):
        (leak,) = leaks(recordings[name])
        pid = int(leak["evidence"]["pid"])
        assert {look["pid"] for look in looks(recordings[name])} == {pid}
        assert re.match(rf"Worker {pid}\b", leak["explanation"]), leak["explanation"]


def test_an_inspection_keeps_to_its_budget(recordings: dict[str, Path]) -> None:
    for name, out in recordings.items():
        costs = [look["cost_us"] for look in looks(out)]
        # The last piece of a look may end a little later.
        assert costs and max(costs) < 300_000, (name, costs)


def test_the_inspector_does_not_import_threading() -> None:
    # The thread that imports it first becomes the main thread, for which the interpreter waits.
    package = Path(stormlog.__file__).parents[1]
    code = (
        f"import sys; sys.path.insert(0, {str(package)!r}); import stormlog._host_evidence; "
        "sys.exit('threading' in sys.modules)"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_a_steady_program_is_not_inspected(tmp_path: Path) -> None:
    code = (
        "import time\nring = [b'']\nbegin = time.monotonic()\n"
        "while time.monotonic() - begin < 9:\n"
        "    ring = [bytearray(b'x') * 300_000 for _ in range(20)]\n    time.sleep(0.02)\n"
    )
    result = run("run", "--dir", tmp_path / "out", "--", sys.executable, "-c", code)
    assert result.returncode == 0, result.stderr
    assert looks(tmp_path / "out") == []
    assert report(tmp_path / "out")["findings"] == []


def test_a_killed_program_leaves_its_evidence(tmp_path: Path) -> None:
    script, out = tmp_path / "killed.py", tmp_path / "out"
    source = PROGRAMS["list_in_main"][0]
    script.write_text(GROWING + source + "import os\nos.kill(os.getpid(), 9)\n")
    result = run("run", "--dir", out, "--", sys.executable, script, out)
    assert result.returncode == 128 + 9
    (leak,) = leaks(out)
    assert leak["cause"]["holder"] == "`kept` in `__main__`"


FORKS = """
import os, sys, threading, warnings
warnings.simplefilter("error")
for code in range(40):
    pid = os.fork()
    if pid == 0:
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code
assert threading.enumerate() == [threading.main_thread()] and threading.active_count() == 1
print("done")
sys.exit(3)
"""


def test_a_program_that_forks_often_is_as_without(tmp_path: Path) -> None:
    plain = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True)
    recorded = run("run", "-q", "--dir", tmp_path / "out", "--", sys.executable, "-c", FORKS)
    assert (recorded.stdout, recorded.stderr, recorded.returncode) == (
        plain.stdout,
        plain.stderr,
        3,
    )


# The signal is blocked in the main thread: without our mask it would go to our thread.
SIGNALS = """
import os, signal, sys, time
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getpid(), signal.SIGUSR1)
time.sleep(0.2)
print(len(got), signal.SIGUSR1 in signal.sigpending())
"""


def test_the_listener_takes_no_signals(tmp_path: Path) -> None:
    result = run("run", "-q", "--dir", tmp_path / "out", "--", sys.executable, "-c", SIGNALS)
    assert result.stdout == "0 True\n", result.stderr


def test_the_listener_costs_little_and_delays_no_exit(tmp_path: Path) -> None:
    inject = Path(str(stormlog.__file__)).parent / "_inject"
    hooked = {**os.environ, "PYTHONPATH": str(inject), "STORMLOG_RUN_INBOX": str(tmp_path)}
    plain = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def cost(environment: dict[str, str]) -> float:
        times = []
        for _ in range(20):
            child = subprocess.Popen([sys.executable, "-S", "-c", SITE], env=environment)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            assert child.returncode == 0
            times.append(used.ru_utime + used.ru_stime)
        return min(times)

    # Processor time, and the best of several: other programs take the machine now and then.
    assert cost(hooked) - cost(plain) < 0.01
    begin = time.monotonic()
    for _ in range(10):
        subprocess.run([sys.executable, "-c", "pass"], env=hooked, check=True)
    # Waiting for a look of the thread would take up to a second each.
    assert time.monotonic() - begin < 5 + 10 * min(1.0, 20 * cost(plain))


# Both interpreters start with -S; this imports our `sitecustomize` where it is on the path.
SITE = """
try:
    import sitecustomize
except ImportError:
    pass
"""


def test_the_listener_is_idle(tmp_path: Path) -> None:
    code = (
        "import time\ntime.sleep(1.5)\nbefore = time.process_time()\ntime.sleep(6)\n"
        "print(time.process_time() - before)\n"
    )
    result = run("run", "-q", "--dir", tmp_path / "out", "--", sys.executable, "-c", code)
    # Six looks; each takes some ten microseconds.
    assert float(result.stdout) < 0.006, result.stdout


# The main thread calls functions as fast as it can, while another thread surveys its variables.
BUSY = """
import sys, threading, time
from stormlog import _holders
sys.setswitchinterval(1e-5)

def work(first, second, depth):
    some, more, other = [first] * 3, {"k": second}, object()
    return work(some, more, depth - 1) if depth else len(some) + len(more)

def look():
    while True:
        _holders.survey(time.monotonic() + 9, rest=lambda: time.sleep(1e-4), counts_host=True, libraries=False)

threading.Thread(target=look, daemon=True).start()
end = time.monotonic() + 6
while time.monotonic() < end:
    for step in range(100):
        assert work(step, str(step), step % 25) == 4
print("done")
"""


def test_a_look_at_a_busy_program_does_not_break_it() -> None:
    done = subprocess.run([sys.executable, "-c", BUSY], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)
