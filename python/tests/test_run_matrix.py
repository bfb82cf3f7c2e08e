"""A program ends as it does without ``stormlog run``: exit code, output and results are the same
for every way to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from waiting import PATIENCE_S, wait_until

RUN = (
    *(
        sys.executable,
        "-c",
        "import sys; from stormlog import entrypoint; sys.exit(entrypoint.main())",
    ),
    *("run", "--quiet"),
)


@dataclass(frozen=True)
class Ended:
    code: int
    out: bytes
    err: bytes
    files: tuple[tuple[str, bytes], ...]


def ended(folder: Path, command: tuple[str, ...], redirects: str = "") -> Ended:
    """Runs a command in a new folder; what it leaves there is its result."""
    folder.mkdir()
    # A shell redirects as users do; exec keeps the program's own end.
    shell = ("sh", "-c", f'exec "$@" {redirects}', "sh", *command)
    done = subprocess.run(
        shell,
        cwd=folder,
        stdin=subprocess.DEVNULL if "<" not in redirects else None,
        capture_output=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    files = tuple(
        (path.name, path.read_bytes()) for path in sorted(folder.iterdir()) if path.is_file()
    )
    return Ended(done.returncode, done.stdout, done.stderr, files)


def same(tmp_path: Path, command: tuple[str, ...], redirects: str = "") -> Ended:
    """How a command ends, with and without ``run``."""
    alone = ended(tmp_path / "alone", command, redirects)
    watched = ended(
        tmp_path / "watched",
        (*RUN, "--dir", str(tmp_path / "recording"), "--", *command),
        redirects,
    )
    assert list((tmp_path / "recording").rglob("segment-*")), "nothing was recorded"
    # When a signal ends the program, ``run`` still has to finish the recording, so it exits with
    # the code by which a shell reports that signal (128 + its number).
    code = alone.code if alone.code >= 0 else 128 - alone.code
    assert watched == Ended(code, alone.out, alone.err, alone.files)
    return alone


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_every_exit_code(tmp_path: Path) -> None:
    def check(code: int) -> None:
        folder = tmp_path / str(code)
        folder.mkdir()
        ends = same(
            folder, ("sh", "-c", f"echo out; echo err >&2; echo {code} > result; exit {code}")
        )
        assert ends == Ended(code, b"out\n", b"err\n", (("result", b"%d\n" % code),))

    with ThreadPoolExecutor(8) as several:
        list(several.map(check, range(256)))


DEADLY = sorted(
    {
        each
        for each in signal.Signals
        if each
        not in {
            # These stop a program, continue it, or are ignored unless it asks for them.
            *(signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
            *(signal.SIGCONT, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH),
        }
    }
)


def test_every_deadly_signal(tmp_path: Path) -> None:
    def check(number: signal.Signals) -> None:
        folder = tmp_path / number.name
        folder.mkdir()
        code = (
            "import os, resource, signal, sys\n"
            "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
            "print('before', flush=True)\n"
            f"if {int(number)} != signal.SIGKILL: signal.signal({int(number)}, signal.SIG_DFL)\n"
            f"os.kill(os.getpid(), {int(number)})\n"
            "signal.pause()\n"
        )
        ends = same(folder, python(code))
        assert ends.code == -number
        assert ends.out == b"before\n"

    with ThreadPoolExecutor(8) as several:
        list(several.map(check, DEADLY))


def test_every_signal_that_a_program_handles(tmp_path: Path) -> None:
    """Sent to ``run`` itself, a signal reaches the program, which decides how to end."""
    handled = [
        *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGALRM, signal.SIGTERM),
        *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGVTALRM, signal.SIGPROF, signal.SIGXCPU),
        *(signal.SIGIO, signal.SIGPWR, signal.SIGPIPE, signal.SIGXFSZ),
        *(signal.SIGRTMIN, signal.SIGRTMIN + 5, signal.SIGRTMAX),
    ]

    def as_on_a_terminal() -> None:
        # A build may run in the background, where some of them are ignored.
        for each in handled:
            signal.signal(each, signal.SIG_DFL)

    def check(number: int) -> None:
        folder = tmp_path / f"handled-{int(number)}"
        folder.mkdir()
        code = (
            "import pathlib, signal, sys\n"
            "def handle(number, frame):\n"
            "    print('got', number, flush=True)\n"
            "    sys.exit(number)\n"
            f"signal.signal({int(number)}, handle)\n"
            "pathlib.Path('ready').touch()\n"
            "while True: signal.pause()\n"
        )
        ends = []
        for name, prefix in (
            ("alone", ()),
            ("watched", (*RUN, "--dir", str(folder / "recording"), "--")),
        ):
            (folder / name).mkdir()
            started = subprocess.Popen(
                (*prefix, *python(code)),
                cwd=folder / name,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=as_on_a_terminal,  # noqa: PLW1509 (no threads)
            )
            wait_until((folder / name / "ready").exists)
            started.send_signal(number)
            out, err = started.communicate(timeout=PATIENCE_S)
            ends.append((started.returncode, out, err))
        assert ends[0] == ends[1] == (int(number), b"got %d\n" % number, b"")

    with ThreadPoolExecutor(4) as several:
        list(several.map(check, handled))


def test_real_time_signals_are_queued(tmp_path: Path) -> None:
    """A real-time signal reaches the program as often as it was sent to ``run``."""
    code = (
        "import pathlib, signal, sys\n"
        "number, count = signal.SIGRTMIN + 2, 0\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [number])\n"
        "pathlib.Path('ready').touch()\n"
        "for _ in range(3): signal.sigwaitinfo([number])\n"
        "sys.exit(33)\n"
    )
    command = (*RUN, "--dir", str(tmp_path / "recording"), "--", *python(code))
    started = subprocess.Popen(command, cwd=tmp_path)
    wait_until((tmp_path / "ready").exists)
    for _ in range(3):
        started.send_signal(signal.SIGRTMIN + 2)
    assert started.wait(PATIENCE_S) == 33


def test_a_limit_of_file_sizes_ends_a_program_as_without_run(tmp_path: Path) -> None:
    """Python ignores SIGXFSZ for itself; a program that ``run`` starts has the default."""
    ends = same(tmp_path, ("sh", "-c", "ulimit -c 0; ulimit -f 8; cat /dev/zero > large; exit $?"))
    assert ends.code == 128 + signal.SIGXFSZ


WAYS: dict[str, tuple[tuple[str, ...], str]] = {
    "exception": (python("print('out'); raise ValueError('wrong')"), ""),
    "exception group": (python("1 / 0"), ""),
    "system exit with text": (python("import sys; sys.exit('a last word')"), ""),
    "system exit with nothing": (python("import sys; sys.exit()"), ""),
    "system exit with a large code": (python("import sys; sys.exit(1000)"), ""),
    "keyboard interrupt": (python("raise KeyboardInterrupt"), ""),
    "os exit": (python("import os; print('lost'); os._exit(9)"), ""),
    "abort": (python("import os; os.abort()"), ""),
    "syntax error": (python("def"), ""),
    "exec": (python("import os; os.execvp('sh', ['sh', '-c', 'echo executed; exit 4'])"), ""),
    "exec of another python": (
        python(
            "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'print(6); raise SystemExit(6)'])"
        ),
        "",
    ),
    "thread": (
        python("import threading; threading.Thread(target=lambda: print('late') or 1 / 0).start()"),
        "",
    ),
    "at exit": (
        python("import atexit; atexit.register(print, 'at exit'); raise SystemExit(3)"),
        "",
    ),
    "child": (
        python("import subprocess; raise SystemExit(subprocess.call(['sh', '-c', 'exit 7']))"),
        "",
    ),
    "standard input": (("cat",), "< /etc/hostname"),
    "closed standard input": (python("import sys; print(sys.stdin is None)"), "<&-"),
    "closed standard output": (
        python("import sys; print(sys.stdout is None, file=sys.stderr)"),
        ">&-",
    ),
    "closed standard error": (python("import sys; print(sys.stderr is None)"), "2>&-"),
    "all closed": (
        python("open('result', 'w').write('done'); raise SystemExit(5)"),
        "<&- >&- 2>&-",
    ),
    "full standard output": (python("print('lost'); raise SystemExit(5)"), "> /dev/full"),
    "full standard output, checked": (("sh", "-c", "echo lost || exit 6"), "> /dev/full"),
    "full standard error": (
        python("import sys; print('lost', file=sys.stderr); sys.exit(5)"),
        "2> /dev/full",
    ),
    "exception into a full standard error": (python("raise ValueError"), "2> /dev/full"),
    "both full": (python("print('lost'); raise SystemExit(5)"), "> /dev/full 2>&1"),
    "binary output": (("head", "-c", "300000", "/dev/zero"), ""),
    "program that is not there": (("sh", "-c", "exec ./missing"), ""),
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.replace(" ", "-"))
def test_ways_to_end(way: str, tmp_path: Path) -> None:
    command, redirects = WAYS[way]
    same(tmp_path, command, redirects)


@pytest.mark.parametrize(
    "program",
    [
        # Python's own end of a program whose reader went away.
        "for _ in range(100_000): print('x' * 100)",
        # A program that notices and ends in its own way.
        "import sys\ntry:\n    while True: print('x' * 100)\nexcept BrokenPipeError:\n    sys.stderr.close(); raise SystemExit(9)",
        # One that is ended by the signal.
        "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL)\nwhile True: print('x' * 100)",
    ],
)
def test_a_reader_that_goes_away(program: str, tmp_path: Path) -> None:
    code = "import os; os.environ.pop('PYTHONUNBUFFERED', None)\n" + program
    ends = []
    for prefix in ((), (*RUN, "--dir", str(tmp_path / "recording"), "--")):
        started = subprocess.Popen(
            (*prefix, *python(code)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert started.stdout is not None and started.stderr is not None
        first = started.stdout.read(10)
        started.stdout.close()
        err = started.stderr.read()
        started.stderr.close()
        code_of = started.wait(timeout=PATIENCE_S)
        ends.append((first, code_of if code_of >= 0 else 128 - code_of, err))
    assert ends[0] == ends[1]


DAEMON = """
import os, pathlib, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
null = os.open(os.devnull, os.O_RDWR)
for stream in (0, 1, 2):
    os.dup2(null, stream)
while not pathlib.Path("go").exists():
    time.sleep(0.01)
pathlib.Path("result.tmp").write_text("done")
os.rename("result.tmp", "result")
"""


def test_a_daemon_outlives_the_program(tmp_path: Path) -> None:
    """The program's own end counts, and the daemon goes on without ``run``."""
    for name, prefix in (
        ("alone", ()),
        ("watched", (*RUN, "--dir", str(tmp_path / "recording"), "--")),
    ):
        folder = tmp_path / name
        folder.mkdir()
        done = subprocess.run(
            (*prefix, *python(DAEMON)), cwd=folder, capture_output=True, timeout=PATIENCE_S
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert not (folder / "result").exists()
        (folder / "go").touch()
        wait_until((folder / "result").exists)
        assert (folder / "result").read_text() == "done"
