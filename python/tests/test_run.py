"""``stormlog run``: every process of a real program from its first line to its last."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import FAKE_TORCH
from stormlog import _run
from test_capture_commands import WORK, only_session, program, run
from waiting import FOR_PROGRAMS, PATIENCE_S, recorded_since, wait_until

MIB = 1 << 20
# Takes 80 MiB in all, and ends once it was seen with all of it.
GROW = f"""{FOR_PROGRAMS}
import os, sys
kept = []
for _ in range(8):
    kept.append(bytearray(os.urandom(1 << 20) * 10))
    wait_for_events(sys.argv[1], 1)
"""


def record(out: Path, *command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return run("run", "--dir", out, "--interval", "0.02", "--", *command, **options)


def host_events(out: Path) -> list[Any]:
    return list(only_session(out / "host").events)


def of_type(events: list[Any], event_type: str) -> list[Any]:
    return [event for event in events if event.event_type == event_type]


def levels(events: list[Any]) -> list[float]:
    """The unreclaimable memory of all processes, in MiB."""
    return [event.device_used_bytes / MIB for event in of_type(events, "sample")]


def growth_by_role(events: list[Any]) -> dict[str, float]:
    """How far the anonymous memory of any process of each role rose, in MiB."""
    started = of_type(events, "process_start")
    roles = {
        event.metadata["process"]["pid"]: event.metadata["process"]["role"] for event in started
    }
    seen: dict[int, list[int]] = {}
    for event in of_type(events, "sample"):
        for pid, anonymous, *_ in event.metadata["processes"]:
            seen.setdefault(pid, []).append(anonymous)
    grown: dict[str, float] = {}
    for pid, sizes in seen.items():
        role = roles[pid]
        grown[role] = max(grown.get(role, 0.0), (max(sizes) - min(sizes)) / MIB)
    return grown


def test_a_program_is_recorded_from_its_start_to_its_end(tmp_path: Path) -> None:
    script, out = tmp_path / "work.py", tmp_path / "out"
    script.write_text(WORK.replace("sys.argv[1:]", "sys.argv[1:2]") + "sys.exit(5)")
    secret = "--api-key=abcdef0123456789"
    result = record(out, sys.executable, script, out, secret, cwd=tmp_path)
    assert result.returncode == 5, result.stderr
    assert result.stdout == "done\n"
    verdict, end = result.stderr.splitlines()
    assert verdict.startswith("stormlog: ")
    assert end == "stormlog: exit code 5 \u00b7 stormlog analyze out"
    session = only_session(out / "host")
    assert (session.summary.source, session.summary.status) == ("stormlog.run.host", "interrupted")
    start, *_, stop = session.events
    identity = start.metadata["run"]
    assert identity["program"] == "work.py"
    assert identity["cwd"] == str(tmp_path)
    assert "abcdef" not in json.dumps(identity["command"])
    assert stop.metadata["end"] | {"text": ""} == {
        "kind": "exit",
        "code": 5,
        "signal": None,
        "text": "",
    }
    assert {event.event_type for event in session.events} == {
        "start",
        "process_start",
        "sample",
        "stop",
    }
    assert sorted(path.name for path in out.iterdir()) == ["host"]


def test_output_is_the_same_without_our_line(tmp_path: Path) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    plain = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    quiet = run("run", "-q", "--dir", tmp_path / "out", "--", sys.executable, "-c", code)
    assert (quiet.stdout, quiet.stderr, quiet.returncode) == (plain.stdout, plain.stderr, 7)


def test_a_sitecustomize_of_the_users_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mine = 42")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = record(tmp_path / "out", sys.executable, "-c", "print(mine)", env=environment)
    assert (result.stdout, result.returncode) == ("42\n", 0), result.stderr


def test_nothing_is_recorded_when_it_is_switched_off(tmp_path: Path) -> None:
    environment = {**os.environ, "STORMLOG_DISABLE": "1"}
    code = "import os; print('STORMLOG_RUN_INBOX' in os.environ)"
    result = record(tmp_path / "out", sys.executable, "-c", code, env=environment)
    assert (result.stdout, result.returncode) == ("False\n", 0)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "is_launcher"),
    [
        ("/usr/bin/torchrun --nproc-per-node 2 train.py", True),
        ("-m torch.distributed.run train.py", True),
        ("-X dev -W ignore -u /usr/bin/torchrun train.py", True),
        ("-Wignore -Xdev -um torch.distributed.run train.py", True),
        ("--check-hash-based-pycs always -mdeepspeed train.py", True),
        ("train.py --strategy deepspeed", False),
        ("train.py torchrun", False),
        ("-m train accelerate", False),
        ("-c pass torchrun", False),
        ("- torchrun", False),
        ("", False),
    ],
)
def test_only_the_program_itself_is_judged_as_a_launcher(
    monkeypatch: pytest.MonkeyPatch, words: str, is_launcher: bool
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(sys, "orig_argv", ["python", *words.split()])
    assert _run._is_launcher() is is_launcher


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_that_grows_is_named(tmp_path: Path, method: str) -> None:
    script, out = tmp_path / "train.py", tmp_path / "out"
    script.write_text(
        "import multiprocessing, sys\n"
        f"def work():\n    exec({GROW!r})\n"
        "if __name__ == '__main__':\n"
        f"    worker = multiprocessing.get_context({method!r}).Process(target=work)\n"
        "    worker.start()\n    worker.join()\n"
    )
    assert record(out, sys.executable, script, out).returncode == 0
    grown = growth_by_role(host_events(out))
    assert grown["worker"] > 55 and grown["program"] < 30, grown


def test_a_subprocess_that_grows_is_named(tmp_path: Path) -> None:
    child, out = tmp_path / "child.py", tmp_path / "out"
    child.write_text(GROW)
    code = "import subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]])"
    assert record(out, sys.executable, "-c", code, child, out).returncode == 0
    events = host_events(out)
    grown = growth_by_role(events)
    assert grown["subprocess"] > 55 and grown["program"] < 30, grown
    assert max(levels(events)) > 75


def test_memory_that_forks_share_counts_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = f"""{FOR_PROGRAMS}
import os, signal, sys
shared = bytearray(300 << 20)
for i in range(0, len(shared), 4096):
    shared[i] = 1
wait_for_events(sys.argv[1], 5)
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        signal.pause()
    children.append(pid)
wait_for_events(sys.argv[1], 30)
for pid in children:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
"""
    assert record(out, sys.executable, "-c", code, out).returncode == 0
    events = host_events(out)
    assert max(event.metadata["process_count"] for event in of_type(events, "sample")) == 5
    # Five processes of 300 MiB each, resident; there are 300 MiB.
    assert 300 < max(levels(events)) < 400


def test_a_mapped_file_is_not_in_the_level(tmp_path: Path) -> None:
    out, data = tmp_path / "out", tmp_path / "data"
    data.write_bytes(bytes(200 * MIB))
    code = f"""{FOR_PROGRAMS}
import mmap, sys
file = open({str(data)!r}, "rb")
mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
total = sum(mapped[i] for i in range(0, len(mapped), 4096))
wait_for_events(sys.argv[1], 10)
"""
    assert record(out, sys.executable, "-c", code, out).returncode == 0
    events = host_events(out)
    files = [event.metadata["host_memory"]["file"] / MIB for event in of_type(events, "sample")]
    assert max(files) > 200
    assert max(levels(events)) < 60


def test_a_program_that_runs_another_in_its_place_is_one_process(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "work.py").write_text(WORK)
    words = [sys.executable, str(tmp_path / "work.py"), str(out)]
    again = f"import os, sys; wait_for_events(sys.argv[1], 9); os.execv({words[0]!r}, {words!r})"
    assert record(out, sys.executable, "-c", FOR_PROGRAMS + again, out).returncode == 0
    events = host_events(out)
    started = [event.metadata["process"] for event in of_type(events, "process_start")]
    assert len({process["pid"] for process in started}) == 1
    assert "work.py" in started[-1]["name"]
    assert max(levels(events)) > 20


def test_a_second_run_in_a_directory_is_another_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for code in ("pass", "import sys; sys.exit(4)"):
        record(out, sys.executable, "-c", code)
    first, second = only_session(out / "host"), only_session(out / "host-2")
    ids = {session.events[0].metadata["run"]["id"] for session in (first, second)}
    assert len(ids) == 2
    # Neither run used a device, so both sinks have the file name that stormlog 0.3.9 finds.
    assert sorted(path.parent.name for path in out.rglob("manifest.json")) == ["host", "host-2"]


def test_the_end_of_a_killed_program_is_recorded(tmp_path: Path) -> None:
    out = tmp_path / "out"
    kill = FOR_PROGRAMS + "import os, sys; wait_for_events(sys.argv[1], 3); os.kill(os.getpid(), 9)"
    result = record(out, sys.executable, "-c", kill, out)
    assert result.returncode == 128 + signal.SIGKILL
    assert "SIGKILL" in result.stderr
    session = only_session(out / "host")
    assert session.summary.status == "interrupted"
    end = session.events[-1].metadata["end"]
    assert (end["kind"], end["signal"]) == ("signal", 9)


def test_an_exception_is_recorded_with_its_line(tmp_path: Path) -> None:
    script, out = tmp_path / "broken.py", tmp_path / "out"
    script.write_text("import json\ndef load():\n    return json.loads('x')\nload()\n")
    result = record(out, sys.executable, script)
    assert result.returncode == 1 and "JSONDecodeError" in result.stderr
    (event,) = of_type(host_events(out), "exception")
    found = event.metadata["exception"]
    assert found["type"] == "json.decoder.JSONDecodeError"
    assert (found["file"], found["line"], found["function"]) == (str(script), 3, "load")
    assert host_events(out)[-1].metadata["end"]["exception"]["line"] == 3
    assert not (out / "oom_dumps").exists()


OUT_OF_MEMORY = {
    "MemoryError": "bytearray(1 << 50)",
    "torch.DefaultCPUAllocator": "raise RuntimeError('[enforce fail at alloc_cpu.cpp:124] . "
    "DefaultCPUAllocator: can\\'t allocate memory: you tried to allocate 9 bytes.')",
    "message_pattern:out of memory": "raise RuntimeError('RESOURCE_EXHAUSTED: Out of memory')",
}


@pytest.mark.parametrize("reason", OUT_OF_MEMORY)
def test_a_failed_allocation_leaves_a_bundle(tmp_path: Path, reason: str) -> None:
    script, out = tmp_path / "big.py", tmp_path / "out"
    script.write_text("def take():\n    " + OUT_OF_MEMORY[reason] + "\ntake()\n")
    assert record(out, sys.executable, script).returncode == 1
    (bundle,) = (out / "oom_dumps").iterdir()
    assert json.loads((bundle / "manifest.json").read_text())["reason"] == reason
    events = host_events(out)
    (error,) = of_type(events, "error")
    assert error.metadata["oom_reason"] == reason
    assert of_type(events, "exception")[0].metadata["exception"]["line"] == 2
    # The whole directory is readable as it is.
    assert run("validate", out).returncode == 0


RAISING_AGAIN = {
    "wrapped": "raise ValueError('training failed') from error",
    "in the handler": "raise ValueError('training failed')",
    "again": "raise",
}


@pytest.mark.parametrize("way", RAISING_AGAIN)
def test_an_error_that_is_raised_again_ends_the_program(tmp_path: Path, way: str) -> None:
    script, out = tmp_path / "big.py", tmp_path / "out"
    script.write_text(
        "def take():\n    return bytearray(1 << 50)\n"
        f"try:\n    take()\nexcept MemoryError as error:\n    {RAISING_AGAIN[way]}\n"
    )
    assert record(out, sys.executable, script).returncode == 1
    events = host_events(out)
    exception = of_type(events, "exception")[0].metadata["exception"]
    assert exception["chain"] == ([] if way == "again" else ["builtins.MemoryError: "])
    error = of_type(events, "error")[-1]
    assert error.metadata["oom_reason"] == "MemoryError"
    # The line that failed, and not the one that raised the exception again.
    site = error.metadata["oom"]["cause"]["site"]
    assert (site["file"], site["line"], site["function"]) == (str(script), 2, "take")
    report = json.loads(run("analyze", "--format", "json", out).stdout)
    (finding,) = [one for one in report["findings"] if one["kind"] == "oom_risk"]
    assert finding["severity"] == "critical"
    assert "went on" not in finding["explanation"]


def test_a_program_without_python_is_recorded_and_says_so(tmp_path: Path) -> None:
    out = tmp_path / "out"
    seen = f"$(cat {out}/host/segment-* 2>/dev/null | wc -l)"
    result = record(out, "sh", "-c", f'while [ "{seen}" -lt 6 ]; do sleep 0.05; done; exit 3')
    assert result.returncode == 3
    stop = host_events(out)[-1]
    assert stop.metadata["reached_python"] is False


def test_each_rank_gets_a_sink_for_its_device(tmp_path: Path) -> None:
    script, out = tmp_path / "train.py", tmp_path / "out"
    script.write_text(f"{FOR_PROGRAMS}import os, sys, torch\n" + WAIT_FOR_DEVICE)
    one = f"RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 {sys.executable} {script} {out}/rank-000$r"
    environment = {**os.environ, "PYTHONPATH": str(FAKE_TORCH)}
    command = ("sh", "-c", f"for r in 0 1; do {one} & done; wait")
    assert record(out, *command, env=environment).returncode == 0
    assert sorted(path.name for path in out.iterdir()) == ["host", "rank-0000", "rank-0001"]
    session = only_session(out / "rank-0001")
    assert (session.summary.rank, session.summary.source) == (1, "stormlog.run")
    host = only_session(out / "host").events[0].metadata["run"]
    assert session.events[0].metadata["run_id"] == host["id"]


def test_an_error_of_a_ranks_device_is_recorded_once(tmp_path: Path) -> None:
    script, out = tmp_path / "train.py", tmp_path / "out"
    script.write_text(
        f"{FOR_PROGRAMS}import os, sys, torch\n{WAIT_FOR_DEVICE}"
        "if os.environ['RANK'] == '1':\n    torch.run_out_of_memory()\n"
    )
    one = f"RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 {sys.executable} {script} {out}/rank-000$r"
    environment = {**os.environ, "PYTHONPATH": str(FAKE_TORCH)}
    command = ("sh", "-c", f"for r in 0 1; do {one} & done; wait")
    assert record(out, *command, env=environment).returncode == 0
    (bundle,) = out.rglob("oom_dump_*")
    assert bundle.parent == out / "rank-0001" / "oom_dumps"
    assert not of_type(host_events(out), "error")


WAIT_FOR_DEVICE = "wait_for_events(sys.argv[1], 20)\n"


def test_the_device_is_recorded_beside_the_host(tmp_path: Path) -> None:
    script, out = tmp_path / "train.py", tmp_path / "out"
    script.write_text(
        f"{FOR_PROGRAMS}import sys, torch\n"
        "from pathlib import Path\n"
        "from waiting import wait_until\n"
        "optimizers = [torch.optim.Optimizer(), torch.optim.Optimizer()]\n"
        "wait_until(lambda: torch.STEP_HOOKS)\n"
        "def steps():\n"
        "    for i, optimizer in enumerate(optimizers):\n"
        "        torch.STATE['allocated'] = (50 + 10 * i) << 20\n"
        "        optimizer.step()\n"
        "    path = Path(sys.argv[1], 'segment-000001.jsonl')\n"
        "    text = path.read_text() if path.exists() else ''\n"
        "    return text.count('\"optimizer\": 0') > 3 and text.count('\"optimizer\": 1') > 3\n"
        "wait_until(steps)\n"
        "try:\n    torch.run_out_of_memory()\n"
        "except torch.OutOfMemoryError:\n    pass\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(FAKE_TORCH)}
    result = record(out, sys.executable, script, out, env=environment)
    assert result.returncode == 0, result.stderr
    device = only_session(out)
    assert {event.collector for event in device.events} == {"stormlog.cuda_tracker"}
    assert {event.event_type for event in device.events} == {"start", "sample", "error", "stop"}
    stepped = [event for event in device.events if "step" in event.metadata]
    found = {
        (event.metadata["optimizer"], event.allocator_allocated_bytes >> 20) for event in stepped
    }
    # Each optimizer has one level at the ends of its steps.
    assert found == {(0, 50), (1, 60)}
    (oom,) = of_type(list(device.events), "error")
    assert oom.metadata["oom"]["requested_bytes"] == 8 << 30
    (bundle,) = (out / "oom_dumps").iterdir()
    assert json.loads((bundle / "manifest.json").read_text())["event_count"] > 0
    # Host memory goes on, and stormlog 0.3.9 does not find it.
    assert levels(list(only_session(out / "host").events))
    assert not list(out.rglob("host/*.jsonl")) and not (out / "host" / "manifest.json").exists()


@pytest.mark.parametrize("is_caught", [True, False])
def test_an_error_of_device_memory_leaves_the_output_as_it_is(
    tmp_path: Path, is_caught: bool
) -> None:
    script, out = tmp_path / "train.py", tmp_path / "out"
    script.write_text(
        f"{FOR_PROGRAMS}import sys, torch\n"
        "from pathlib import Path\n"
        "from waiting import wait_until\n"
        "if len(sys.argv) > 1:\n"
        # The device is recorded later than the host, whose segments are in a folder of their own.
        "    wait_until(lambda: list(Path(sys.argv[1]).glob('segment-*')))\n"
        "    wait_for_events(sys.argv[1], 3)\n"
        "try:\n    torch.run_out_of_memory()\n"
        f"except torch.OutOfMemoryError:\n    {'print(1)' if is_caught else 'raise'}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(FAKE_TORCH)}
    plain = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment
    )
    program = (sys.executable, script, out)
    quiet = run("run", "-q", "--dir", out, "--interval", "0.02", "--", *program, env=environment)
    assert (quiet.stdout, quiet.stderr) == (plain.stdout, plain.stderr)
    assert len(list((out / "oom_dumps").iterdir())) == 1


def test_a_python_without_the_package_is_recorded_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    other = tmp_path / "venv" / "bin" / "python"
    script = tmp_path / "train.py"
    script.write_text(f"{FOR_PROGRAMS}import sys, torch\n" + WAIT_FOR_DEVICE)
    environment = {**os.environ, "PYTHONPATH": str(FAKE_TORCH)}
    missing = subprocess.run([other, "-c", "import stormlog"], capture_output=True)
    assert missing.returncode == 1
    result = record(out, other, script, out, env=environment)
    assert result.returncode == 0, result.stderr
    assert only_session(out).events[0].collector == "stormlog.cuda_tracker"


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({"RANK": "9", "WORLD_SIZE": "2"}, 0),
        ({"RANK": "", "WORLD_SIZE": "2"}, 0),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "2"}, 0),
        ({"RANK": "", "WORLD_SIZE": "", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, 1),
        ({"NODE_RANK": "0", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}, 1),
    ],
)
def test_a_program_with_odd_variables_of_a_launcher_is_recorded(
    tmp_path: Path, variables: dict[str, str], rank: int
) -> None:
    script, out = tmp_path / "train.py", tmp_path / "out"
    sink = out / f"rank-{rank:04}" if rank else out
    script.write_text(f"{FOR_PROGRAMS}import sys, torch\n{WAIT_FOR_DEVICE}raise SystemExit(6)\n")
    environment = {**os.environ, "PYTHONPATH": str(FAKE_TORCH), **variables}
    result = record(out, sys.executable, script, sink, env=environment)
    assert result.returncode == 6, result.stderr
    events = only_session(sink).events
    assert {(event.collector, event.rank) for event in events} == {("stormlog.cuda_tracker", rank)}
    host = out / (f"host-rank-{rank:04}" if rank else "host")
    assert {event.rank for event in only_session(host).events} == {rank}


def test_a_directory_that_cannot_be_made_does_not_keep_a_program_from_running(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    command = (sys.executable, "-c", "print('ran'); raise SystemExit(6)")
    result = record(tmp_path / "file" / "out", *command)
    assert (result.stdout, result.returncode) == ("ran\n", 6)
    assert "stormlog: the program runs without recording: cannot create" in result.stderr
    assert "next:" not in result.stderr, "there is nothing to analyze"
    environment = {**os.environ, "TMPDIR": str(tmp_path / "missing")}
    result = record(tmp_path / "out", *command, env=environment)
    assert (result.stdout, result.returncode) == ("ran\n", 6), result.stderr


SIGNALS = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT, signal.SIGHUP]


@pytest.mark.parametrize("sent", SIGNALS, ids=lambda sent: sent.name)
def test_signals_reach_the_program(tmp_path: Path, sent: signal.Signals) -> None:
    handle = (
        f"import signal, sys, time; signal.signal({sent.value}, lambda *_: sys.exit(9))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    command = [*program("main"), "run", "--dir", str(tmp_path / "out"), "--", sys.executable]
    process = subprocess.Popen([*command, "-c", handle], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(sent)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 9


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGQUIT], ids=lambda sent: sent.name)
def test_a_background_job_gets_signals_that_it_handles(
    tmp_path: Path, sent: signal.Signals
) -> None:
    """A shell starts background jobs with these signals ignored; a program may handle them."""
    handle = (
        f"import signal, sys, time; signal.signal({sent.value}, lambda *_: sys.exit(9))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    ignore = f'trap "" {sent.value}; exec "$@"'
    command = [*program("main"), "run", "--dir", str(tmp_path / "out"), "--", sys.executable]
    process = subprocess.Popen(
        ["sh", "-c", ignore, "sh", *command, "-c", handle], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    wait_until(lambda: recorded_since(tmp_path / "out") > 0)
    process.send_signal(sent)
    assert process.wait(PATIENCE_S) == 9


def test_what_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    code = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    command = [*program("main"), "run", "--dir", str(tmp_path / "out"), "--", sys.executable]
    result = subprocess.run(["nohup", *command, "-c", code], capture_output=True, text=True)
    assert result.stdout == "True\n"


def test_the_program_outlives_a_killed_recorder(tmp_path: Path) -> None:
    out, done = tmp_path / "out", tmp_path / "done"
    code = (
        FOR_PROGRAMS
        + "import os, sys, time; wait_for_events(sys.argv[1], 3); print(os.getpid(), flush=True)\n"
        f"parent = os.getppid()\nwhile os.getppid() == parent: time.sleep(0.01)\nopen({str(done)!r}, 'w')"
    )
    command = [
        *program("main"),
        "run",
        "--dir",
        str(out),
        "--",
        sys.executable,
        "-c",
        code,
        str(out),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline()
    process.kill()
    process.wait(timeout=PATIENCE_S)
    wait_until(done.exists)
    # What was recorded until then is there, and nothing claims that it ended well.
    session = only_session(out / "host")
    assert session.summary.status != "completed"
    assert of_type(list(session.events), "sample")


def test_an_exit_code_does_not_depend_on_who_reads_the_output(tmp_path: Path) -> None:
    """The codes of gates and of a program that is run, with the output closed or full."""
    fixtures = Path(__file__).parents[2] / "fixtures"
    clean, leak = fixtures / "runs" / "h200_clean_train", fixtures / "runs" / "h200_leak_graph"
    empty, garbage = tmp_path / "empty", tmp_path / "garbage.csv"
    empty.mkdir()
    garbage.write_text("a,b\n1")

    def python(code: str) -> tuple[str, ...]:
        return ("--", sys.executable, "-c", code)

    commands: list[tuple[int, tuple[str | Path, ...]]] = [
        (2, ("analyze", "--fail-on", "allocator_leak", leak)),
        (2, ("compare", clean, leak, "--fail-on", "new-findings")),
        (2, ("compare", clean, leak, "--max-slope", "1MB/min", "--format", "github")),
        (1, ("compare", clean, fixtures / "runs" / "never_flushed", "--max-slope", "1MB/min")),
        (2, ("issues", "check", fixtures / "issues" / "monday")),
        (1, ("issues", "check", empty)),
        (1, ("validate", garbage)),
        (2, ("diagnose", "--output", tmp_path / "oom", *python("raise MemoryError"))),
        (1, ("diagnose", "--output", tmp_path / "failed", *python("raise SystemExit(3)"))),
        (5, ("run", "--dir", tmp_path / "run", *python("raise SystemExit(5)"))),
        (6, ("track", *python("raise SystemExit(6)"))),
    ]
    for code, words in commands:
        command = shlex.join([*program("main"), *map(str, words)])
        for ending in ("2>&1 | true", ">/dev/full", "2>/dev/full", ">/dev/full 2>&1"):
            line = f"set -o pipefail; {command} {ending}"
            result = subprocess.run(["bash", "-c", line], capture_output=True)
            assert result.returncode == code, (line, result)


def test_the_two_dashes_may_be_left_out(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:])"
    result = run("run", "--dir", tmp_path / "out", sys.executable, "-c", code, "--dir", "x", "-q")
    assert (result.stdout, result.returncode) == ("['--dir', 'x', '-q']\n", 0), result.stderr
    missing = run("run", "--dir", tmp_path / "none", "--", "/no/such/program")
    assert missing.returncode == 1 and not (tmp_path / "none").exists()
    mistyped = run("run", "--dirr", tmp_path / "out", "--", "true")
    assert mistyped.returncode == 1 and "--dirr" in mistyped.stderr
