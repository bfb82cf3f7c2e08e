"""The hook of ``stormlog run`` in a Python interpreter leaves the interpreter as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import stormlog

PACKAGE = Path(str(stormlog.__file__)).parent


def hooked(folder: Path, script: str, **variables: str) -> str:
    """What a program prints that has the hook and, like another interpreter, not our package."""
    environment = os.environ | {
        "PYTHONPATH": str(PACKAGE / "_inject"),
        "STORMLOG_RUN_INBOX": str(folder),
        **variables,
    }
    # With -S, site-packages are not on the path.
    command = [sys.executable, "-S", "-c", "import sitecustomize, sys\n" + textwrap.dedent(script)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


# Prints which of the named modules a finder behind Stormlog's was asked for.
ASKED = """
class Finder:
    asked = []

    def find_spec(self, name, path=None, target=None):
        self.asked.append(name)

sys.meta_path.insert(1, Finder())
"""


def test_the_finder_behind_ours_is_asked_for_the_framework(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("")
    script = ASKED + "import torch\nprint(Finder.asked)"
    assert "'torch'" in hooked(tmp_path, script)


def test_the_finder_behind_ours_is_asked_for_the_module_of_cuda(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("")
    (tmp_path / "torch/cuda.py").write_text("")
    notify = f"""
    sys.path.append({str(PACKAGE.parent)!r})
    from stormlog import _cuda_start
    _cuda_start.notify(print, print)
    """
    script = textwrap.dedent(notify) + ASKED + "import torch.cuda\nprint(Finder.asked)"
    assert "'torch.cuda'" in hooked(tmp_path, script, STORMLOG_RUN_INBOX="")


def test_a_folder_of_our_name_does_not_hide_the_package(tmp_path: Path) -> None:
    (tmp_path / "stormlog").mkdir()
    script = (
        "print(sitecustomize._own_module('_fork') is not None, sys.modules['stormlog'].__file__)"
    )
    found = hooked(tmp_path, script, STORMLOG_RUN_PACKAGE=str(PACKAGE.parent))
    assert found == f"True {PACKAGE / '__init__.py'}\n"
    script = "print(sitecustomize._own_module('_fork'), 'stormlog' in sys.modules)"
    assert hooked(tmp_path, script, STORMLOG_RUN_PACKAGE="") == "None False\n"
    # What the program itself has imported stays.
    assert hooked(tmp_path, "import stormlog\n" + script, STORMLOG_RUN_PACKAGE="") == "None True\n"


# Makes a listener; with an empty inbox, the hook itself makes none.
LISTENER = """
import gc, os
listener = sitecustomize._Listener(os.getcwd())
listener.start()
"""


def test_callbacks_after_ours_are_called_at_every_collection(tmp_path: Path) -> None:
    script = """
    listener.before_fork()
    phases = []
    gc.callbacks.append(lambda phase, info: phases.append(phase))
    gc.collect()
    print(phases, listener._end is not None)
    listener.before_fork()
    print(len(gc.callbacks))
    """
    out = hooked(tmp_path, LISTENER + textwrap.dedent(script), STORMLOG_RUN_INBOX="")
    assert out == "['start', 'stop'] True\n2\n"


def test_a_fork_without_a_free_descriptor_is_silent(tmp_path: Path) -> None:
    script = """
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    listener.before_fork()
    print(listener._end is not None)
    """
    assert hooked(tmp_path, LISTENER + textwrap.dedent(script), STORMLOG_RUN_INBOX="") == "True\n"


# Makes every write stop after some bytes, as on a disk that is full.
FULL_DISK = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"


def test_a_report_that_cannot_be_written_completely_is_none(tmp_path: Path) -> None:
    leave = f"""
    sys.path.append({str(PACKAGE.parent)!r})
    from stormlog import _inbox
    def fails(leave, *arguments):
        try:
            leave(*arguments)
        except OSError:
            return True
    print(fails(sitecustomize._leave, "inbox", ["message " + "x" * 5000]))
    print(fails(_inbox.leave, "inbox/evidence-1", "objects 0\\n" * 5000))
    """
    (tmp_path / "inbox").mkdir()
    out = hooked(tmp_path, FULL_DISK + textwrap.dedent(leave), STORMLOG_RUN_INBOX="")
    assert out == "True\nTrue\n"
    assert {path.suffix for path in (tmp_path / "inbox").iterdir()} == {".tmp"}
