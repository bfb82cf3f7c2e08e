"""A program of any Python interpreter that this machine has ends with ``stormlog run`` as it does
without: every version from 2.7 on, and subinterpreters."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from waiting import PATIENCE_S

RUN = (
    sys.executable,
    "-c",
    "import sys; from stormlog import entrypoint; sys.exit(entrypoint.main())",
    "run",
    "--quiet",
)

VERSIONS = ("2.7", *(f"3.{minor}" for minor in range(6, 16)))

# Each in the Python of every version.
PROGRAMS = {
    "print": "import sys; print(sys.version_info[0] > 1)",
    "exception": "raise ValueError('wrong')",
    "exit code": "import sys; sys.exit(7)",
    "a module": "import json, decimal; print(json.dumps([1]))",
    "fork": "import os; child = os.fork(); os._exit(3) if not child else print(os.waitpid(child, 0)[1])",
    "thread": "import threading; t = threading.Thread(target=lambda: print(1)); t.start(); t.join()",
    "child": "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', 'raise SystemExit(4)']))",
    "console": (
        "import code, sys\n"
        "class Console(code.InteractiveConsole):\n"
        "    def write(self, text): sys.stdout.write('written: ' + text)\n"
        "console = Console()\n"
        "console.push('1/0')\n"
    ),
    "excepthook": "import sys; print(sys.excepthook is sys.__excepthook__)",
}

SUBINTERPRETER = """
try:
    import _interpreters as module
except ImportError:
    import _xxsubinterpreters as module
one = module.create()
run = getattr(module, "exec", None) or module.run_string
run(one, "print('inside')")
print("outside")
"""


def interpreters() -> Iterator[tuple[str, str]]:
    """The version and path of each interpreter here. A shim of pyenv is none: it starts one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in VERSIONS:
        installed = sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
        name = installed[0] if installed else shutil.which(f"python{version}")
        if name and subprocess.run([name, "-c", ""], capture_output=True).returncode == 0:
            yield version, str(name)


def ends(folder: Path, *command: str, **variables: str) -> tuple[int, bytes, bytes]:
    folder.mkdir()
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"} | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    return done.returncode, done.stdout, done.stderr


def same(tmp_path: Path, *command: str, **variables: str) -> tuple[int, bytes, bytes]:
    alone = ends(tmp_path / "alone", *command, **variables)
    recording = tmp_path / "recording"
    watched = ends(tmp_path / "watched", *RUN, "--dir", str(recording), "--", *command, **variables)
    assert watched == alone
    assert list(recording.rglob("segment-*")), "nothing was recorded"
    return alone


def test_every_program_in_every_version(tmp_path: Path) -> None:
    found = dict(interpreters())
    assert found, "not even the interpreter of the tests was found"

    def check(version: str, name: str) -> None:
        folder = tmp_path / f"{version} {name}"
        folder.mkdir()
        same(folder, found[version], "-c", PROGRAMS[name])

    with ThreadPoolExecutor(4) as several:
        list(
            several.map(lambda pair: check(*pair), [(v, name) for v in found for name in PROGRAMS])
        )


def test_a_subinterpreter_that_is_left_open_does_not_abort(tmp_path: Path) -> None:
    for version, python in interpreters():
        if version not in ("2.7", "3.6", "3.7"):
            for turn in range(3):
                folder = tmp_path / f"{version} {turn}"
                folder.mkdir()
                code, out, _ = same(folder, python, "-c", SUBINTERPRETER)
                assert (code, out.split()) == (0, [b"inside", b"outside"])


def test_a_warning_about_encodings_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "warned").mkdir()
    assert same(
        tmp_path / "warned", sys.executable, "-c", "pass", PYTHONWARNDEFAULTENCODING="1"
    ) == (0, b"", b"")
    (tmp_path / "error").mkdir()
    options = ("-X", "warn_default_encoding", "-W", "error")
    assert same(tmp_path / "error", sys.executable, *options, "-c", "pass") == (0, b"", b"")


def test_a_module_of_the_users_with_our_name_does_not_run(tmp_path: Path) -> None:
    """Neither for the recorder of devices, which the import of torch starts, nor as our package."""
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "stormlog.py").write_text("print('it ran')")
    (tmp_path / "program" / "torch.py").write_text("")
    script = tmp_path / "program" / "train.py"
    script.write_text("import torch, sys; print('stormlog' in sys.modules)")
    assert same(tmp_path, sys.executable, str(script)) == (0, b"False\n", b"")


# Enters a namespace of its own, for which the kernel wants a single thread.
ENTER = """
import ctypes, os, subprocess, sys
def enter():
    done = ctypes.CDLL(None, use_errno=True).unshare(0x10000000)
    os.write(1, b"entered\\n" if done == 0 else os.strerror(ctypes.get_errno()).encode())
"""


def test_a_child_enters_a_namespace(tmp_path: Path) -> None:
    ways = {
        "preexec": "subprocess.run(['true'], preexec_fn=enter)",
        "fork": "child = os.fork()\nif not child: enter(), os._exit(0)\nos.waitpid(child, 0)",
    }
    for name, way in ways.items():
        (tmp_path / name).mkdir()
        assert same(tmp_path / name, sys.executable, "-c", ENTER + way) == (0, b"entered\n", b"")


def test_an_interactive_interpreter_goes_on_after_an_error(tmp_path: Path) -> None:
    code, _, err = same(tmp_path, sys.executable, "-i", "-c", "raise ValueError('survived')")
    assert code == 0 and b"survived" in err
    lines = [path.read_text() for path in (tmp_path / "recording").rglob("segment-*")]
    assert lines and not any('"exception"' in text for text in lines)
