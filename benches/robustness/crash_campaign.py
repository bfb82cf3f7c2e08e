"""Kill recording processes at random moments and check what they leave.

    python benches/robustness/crash_campaign.py --kills 10000

Every victim is a real process that is ended with SIGKILL. Events that it had flushed and decisions
that it had made, as far as it reported them through a pipe or the manifest on disk counted them,
must be there afterwards; every artifact must load; the status of a session must be interrupted, or
completed if it was; and no process may be left running. Exit code 1 when anything of this fails;
each failure is printed with its seed.

Victims are forked from a process that has imported the package and done nothing else, so that a
kill costs milliseconds. The modes are listed in ``MODES``.
"""

from __future__ import annotations

import argparse
import array
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# How long to wait for a victim; even on a loaded machine nothing takes a tenth of this time.
PATIENCE_S = 60.0
# How many processes are killed in one directory, one after the other.
KILLS_IN_A_DIRECTORY = 4
START_NS = 1_762_000_000_000_000_000
PR_SET_CHILD_SUBREAPER = 36

# The program under `run`: reports its process id and works until it is told to stop.
PROGRAM = """
import os, sys, time
pid_file, stop_file = sys.argv[1:]
with open(pid_file + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(pid_file + ".new", pid_file)
held = []
while not os.path.exists(stop_file):
    held.append(bytearray(1 << 16))
    time.sleep(0.005)
"""


class Failure(Exception):
    """What a killed process left is not what was promised."""


def record(session_id: str, number: int, event_type: str = "sample") -> dict[str, Any]:
    """One record of a session."""
    return {
        "schema_version": 3,
        "session_id": session_id,
        "timestamp_ns": START_NS + number * 100_000_000,
        "event_type": event_type,
        "collector": "stormlog.cuda_tracker",
        "sampling_interval_ms": 100,
        "pid": os.getpid(),
        "host": "node-1",
        "job_id": None,
        "rank": 0,
        "local_rank": 0,
        "world_size": 1,
        "device_id": 0,
        "allocator_allocated_bytes": (number * 7919) % 1_000_003,
        "allocator_reserved_bytes": 2_415_919_104,
        "allocator_active_bytes": 2_147_483_648,
        "allocator_inactive_bytes": 1_048_576,
        "allocator_change_bytes": 512,
        "device_used_bytes": 2_915_919_104 + number,
        "device_free_bytes": 82_983_426_816 - number,
        "device_total_bytes": 85_899_345_920,
        "context": "training",
        "metadata": {"step": number},
    }


# --- What victims do. Each runs in a process of its own until it is killed. ---


class Victims:
    """The programs that are killed; ``out`` takes what they report."""

    def __init__(self, out: int, folder: Path, seed: int) -> None:
        self.out = out
        self.folder = folder
        self.seed = seed

    def report(self, **facts: Any) -> None:
        # One write of a line is whole or not there at all.
        os.write(self.out, json.dumps(facts).encode() + b"\n")

    def sink(self) -> None:
        from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig

        config = TelemetrySinkConfig(
            root_dir=self.folder,
            flush_every_events=7,
            rollover_max_events=60,
            retention_max_files=1_000_000,
            write_rollups=self.seed % 2 == 0,
        )
        sink = AppendOnlyTelemetrySink(config)
        session_id = f"session-{os.getpid()}-{self.seed}"
        self.report(session=session_id, directory=str(sink.directory))
        number = sessions = 0
        while True:
            sink.append(record(session_id, number))
            number += 1
            if number % 7 == 0:
                self.report(events=number)
            # Some end their session and begin the next.
            if number % 700 == 0 and self.seed % 3 == 0:
                sink.close("completed")
                self.report(completed=session_id)
                sessions += 1
                session_id, number = f"session-{os.getpid()}-{self.seed}-{sessions}", 0
                self.report(session=session_id, directory=str(sink.directory))

    def thinning(self) -> None:
        from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig

        config = TelemetrySinkConfig(
            root_dir=self.folder,
            flush_every_events=7,
            rollover_max_events=20,
            thinning_budget_bytes=256 << 10,
        )
        sink = AppendOnlyTelemetrySink(config)
        session_id = f"session-{os.getpid()}-{self.seed}"
        self.report(session=session_id, directory=str(sink.directory))
        number = 0
        while True:
            sink.append(record(session_id, number, "warning" if number % 199 == 0 else "sample"))
            number += 1
            if number % 35 == 0:
                sink.flush(force=True)
                self.report(events=number)
                while sink.get_diagnostics()["final_retained_bytes"] > 256 << 10:
                    time.sleep(0.0005)

    def tracker(self) -> None:
        from stormlog.cpu_profiler import CPUMemoryTracker
        from stormlog.telemetry_sink import TelemetrySinkConfig

        config = TelemetrySinkConfig(
            root_dir=self.folder, rollover_max_events=50, retention_max_files=1_000_000
        )
        tracker = CPUMemoryTracker(
            sampling_interval=0.002, max_events=100_000, telemetry_sink_config=config
        )
        tracker.start_tracking()
        core = tracker._owner.core
        summary = tracker.get_session_summary()
        assert summary is not None
        if not core.flush(PATIENCE_S):
            os._exit(3)
        status = core.sink_status()
        self.report(session=summary.session_id, directory=str(status[0] if status else None))
        while True:
            tracker._add_event("note", 0, "campaign")
            known = core.records()
            if core.flush(PATIENCE_S):
                self.report(events=len(known), last_ns=known[-1]["timestamp_ns"])
            # Stands for the work of a program between two events.
            time.sleep(0.003)

    def fork(self) -> None:
        # The children share the parent's descriptors and live on.
        children = []
        from stormlog.cpu_profiler import CPUMemoryTracker
        from stormlog.telemetry_sink import TelemetrySinkConfig

        config = TelemetrySinkConfig(root_dir=self.folder, retention_max_files=1_000_000)
        tracker = CPUMemoryTracker(
            sampling_interval=0.002, max_events=100_000, telemetry_sink_config=config
        )
        tracker.start_tracking()
        core = tracker._owner.core
        core.flush(PATIENCE_S)
        for _ in range(2):
            child = os.fork()
            if child == 0:
                while True:
                    time.sleep(60)
            children.append(child)
        summary = tracker.get_session_summary()
        status = core.sink_status()
        assert summary is not None
        self.report(
            session=summary.session_id,
            directory=str(status[0] if status else None),
            children=children,
        )
        while True:
            known = core.records()
            if core.flush(PATIENCE_S):
                self.report(events=len(known), last_ns=known[-1]["timestamp_ns"])
            time.sleep(0.003)

    def issues(self) -> None:
        import stormlog.query

        store = stormlog.query.open([self.folder])
        names = [issue.fingerprint_id for issue in store.list_issues(include_findings=True)]
        number = 0
        while True:
            name = names[number % len(names)]
            store.issue_state.resolve(name, reason=f"decision {number} of {self.seed}")
            self.report(decided=f"decision {number} of {self.seed}")
            number += 1

    def diagnose(self) -> None:
        from stormlog.diagnose import run_diagnose

        directory, _ = run_diagnose(str(self.folder / "bundle"), None, 0.15, 0.005, "campaign")
        self.report(done=str(directory))
        time.sleep(PATIENCE_S)

    def run(self) -> None:
        from stormlog.entrypoint import main

        files = [str(self.folder / "pid"), str(self.folder / "stop")]
        command = [sys.executable, "-c", PROGRAM, *files]
        out = str(self.folder / "out")
        code = main(["run", "--dir", out, "--interval", "0.01", "-q", "--", *command])
        # The command has returned, so the interpreter need not run its own shutdown.
        os._exit(code)


class Server:
    """Forks victims: a process that has imported the package and has no other thread."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self._socket.close()
            try:
                _serve(theirs)
            finally:
                os._exit(0)
        theirs.close()

    def start(self, mode: str, folder: Path, seed: int) -> tuple[int, int]:
        """A victim's process id, and the end of the pipe that it reports through."""
        ours, theirs = os.pipe()
        request = json.dumps(["start", mode, str(folder), seed]).encode()
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs]))]
        self._socket.sendmsg([request], ancillary)
        os.close(theirs)
        return json.loads(self._socket.recv(4096)), ours

    def wait(self, pid: int) -> int:
        """How a victim ended: its exit code, or the negative signal."""
        self._socket.send(json.dumps(["wait", pid]).encode())
        return json.loads(self._socket.recv(4096))

    def children(self) -> list[int]:
        """The processes started by victims that still run."""
        self._socket.send(json.dumps(["children"]).encode())
        return json.loads(self._socket.recv(65536))

    def stop(self) -> None:
        self._socket.close()
        os.waitpid(self.pid, 0)


def _serve(link: socket.socket) -> None:
    import stormlog.cpu_profiler
    import stormlog.diagnose
    import stormlog.entrypoint
    import stormlog.query
    import stormlog.telemetry_sink  # noqa: F401

    # Processes that a killed victim leaves become children of this process, which can list them.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    while True:
        message, ancillary, _, _ = link.recvmsg(65536, socket.CMSG_SPACE(4))
        if not message:
            return
        what, *arguments = json.loads(message)
        if what == "start":
            mode, folder, seed = arguments
            out = array.array("i", ancillary[0][2][:4])[0]
            pid = os.fork()
            if pid == 0:
                link.close()
                _be_victim(mode, Path(folder), seed, out)
            os.close(out)
            link.send(json.dumps(pid).encode())
        elif what == "wait":
            _, status = os.waitpid(arguments[0], 0)
            link.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())
        else:
            link.send(json.dumps(_living_children()).encode())


def _be_victim(mode: str, folder: Path, seed: int, out: int) -> None:
    devnull = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(devnull, number)
    try:
        getattr(Victims(out, folder, seed), mode)()
    except BaseException as error:
        os.write(out, json.dumps({"error": repr(error)}).encode() + b"\n")
    os._exit(4)


def _living_children() -> list[int]:
    # Children that have ended are reaped first.
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return []
        if pid == 0:
            break
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(pid) for pid in text.split()]


# --- What the campaign knows of a victim, and what it checks. ---


class Reports:
    """What a victim has reported through its pipe."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        os.set_blocking(pipe, False)
        self._buffer = b""
        self.lines: list[dict[str, Any]] = []

    def read(self) -> None:
        while True:
            try:
                piece = os.read(self._pipe, 65536)
            except BlockingIOError:
                return
            if not piece:
                return
            self._buffer += piece
            *whole, self._buffer = self._buffer.split(b"\n")
            self.lines += [json.loads(line) for line in whole]
            for line in self.lines:
                if "error" in line:
                    raise Failure(f"the victim failed: {line['error']}")

    def close(self) -> None:
        """Take what was reported before the kill."""
        try:
            self.read()
        finally:
            os.close(self._pipe)


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"{what} did not happen in {PATIENCE_S:.0f} s")
        time.sleep(0.001)


class Campaign:
    """Kills in one worker process, counted by mode."""

    def __init__(self, seed: int, root: Path) -> None:
        self.server = Server()
        self.seed = seed
        self.root = root
        self.chance = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.acknowledged: Counter[str] = Counter()
        self.failures: list[str] = []
        self._number = 0

    def go(self, mode: str) -> None:
        """One directory: a few kills of a mode, each followed by all checks."""
        self._number += 1
        folder = self.root / f"{mode}-{self.seed}-{self._number}"
        folder.mkdir(parents=True)
        try:
            with self._nothing_left():
                getattr(self, f"_{mode}")(folder)
        except (Failure, AssertionError, OSError, ValueError) as error:
            self.failures.append(f"{mode} seed {self.seed} number {self._number}: {error!r}")
            shutil.move(folder, self.root.parent / f"failed-{folder.name}")
        shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _nothing_left(self) -> Iterator[None]:
        try:
            yield
        finally:
            left = self._settled_children()
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            if left:
                self._settled_children()
        if left:
            raise Failure(f"{len(left)} processes are left running")

    def _settled_children(self) -> list[int]:
        deadline = time.monotonic() + 5
        while (left := self.server.children()) and time.monotonic() < deadline:
            time.sleep(0.005)
        return left

    def _kill(self, mode: str, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.kills[mode] += 1

    def _moment(self, longest_s: float) -> None:
        time.sleep(self.chance.random() ** 2 * longest_s)

    def _one(self, mode: str, folder: Path, longest_s: float) -> Reports:
        """Start a victim and kill it: some at its start, most while it works."""
        pid, pipe = self.server.start(mode, folder, self.chance.randrange(1 << 30))
        reports = Reports(pipe)
        try:
            if self.chance.random() > 0.12:
                self._wait_for_report(reports, pid)
            self._moment(longest_s)
        finally:
            self._kill(mode, pid)
            ended = self.server.wait(pid)
            reports.close()
        if ended != -signal.SIGKILL:
            raise Failure(f"the victim ended by itself: {ended}")
        return reports

    def _wait_for_report(self, reports: Reports, pid: int) -> None:
        def has_reported() -> bool:
            reports.read()
            return any("events" in line or "decided" in line for line in reports.lines)

        wait_until(has_reported, f"the first report of {pid}")

    # Each mode: what is killed, and what must be there afterwards.

    def _sink(self, folder: Path, mode: str = "sink") -> None:
        sessions: dict[str, dict[str, Any]] = {}
        target = folder / "sink"
        for _ in range(KILLS_IN_A_DIRECTORY):
            reports = self._one(mode, target, 0.05)
            self._note(mode, reports, sessions, target)
            check_sink(target, sessions)

    def _note(
        self, mode: str, reports: Reports, sessions: dict[str, dict[str, Any]], target: Path
    ) -> None:
        current: dict[str, Any] = {}
        for line in reports.lines:
            if "session" in line:
                current = sessions.setdefault(line["session"], {"events": 0})
                if line["directory"] != str(target):
                    raise Failure(f"the directory was still in use: {line['directory']}")
            if "events" in line:
                self.acknowledged[mode] += line["events"] - current["events"]
                current.update(line)
            if "completed" in line:
                current["completed"] = True

    def _tracker(self, folder: Path) -> None:
        self._sink(folder, "tracker")

    def _fork(self, folder: Path) -> None:
        sessions: dict[str, dict[str, Any]] = {}
        target = folder / "sink"
        survivors: list[int] = []
        try:
            for _ in range(2):
                reports = self._one("fork", target, 0.05)
                for line in reports.lines:
                    survivors += line.get("children", [])
                # The children of the killed process live on, and the directory is free.
                self._note("fork", reports, sessions, target)
                check_sink(target, sessions)
        finally:
            # A victim that was killed before its first report has left children as well.
            for pid in self.server.children():
                self._kill("fork", pid)

    def _thinning(self, folder: Path) -> None:
        flushed = 0
        target = folder / "sink"
        for _ in range(KILLS_IN_A_DIRECTORY):
            reports = self._one("thinning", target, 0.15)
            events = [line["events"] for line in reports.lines if "events" in line]
            flushed += max(events, default=0)
            self.acknowledged["thinning"] += max(events, default=0)
            check_thinned(target, flushed)

    def _issues(self, folder: Path) -> None:
        shutil.copytree(FIXTURE, folder / "artifacts")
        for _ in range(KILLS_IN_A_DIRECTORY):
            reports = self._one("issues", folder / "artifacts", 0.03)
            decided = [line["decided"] for line in reports.lines if "decided" in line]
            self.acknowledged["issues"] += len(decided)
            check_issues(folder / "artifacts", decided)

    def _diagnose(self, folder: Path) -> None:
        pid, pipe = self.server.start("diagnose", folder, 0)
        reports = Reports(pipe)
        self._moment(0.5)
        acknowledged = counted(folder / "bundle")
        self._kill("diagnose", pid)
        self.server.wait(pid)
        reports.close()
        self.acknowledged["diagnose"] += acknowledged
        is_done = any("done" in line for line in reports.lines)
        check_bundle(folder / "bundle", acknowledged, is_done)

    def _run_parent(self, folder: Path) -> None:
        self._run_and_kill(folder, "run_parent")

    def _run_child(self, folder: Path) -> None:
        self._run_and_kill(folder, "run_child")

    def _run_both(self, folder: Path) -> None:
        self._run_and_kill(folder, "run_both")

    def _run_and_kill(self, folder: Path, mode: str) -> None:
        pid, pipe = self.server.start("run", folder, 0)
        os.close(pipe)
        out, pid_file = folder / "out", folder / "pid"
        is_late = self.chance.random() > 0.1
        if is_late or mode != "run_parent":
            wait_until(pid_file.exists, "the start of the program")
        if is_late:
            wait_until(lambda: counted(out) > 0, "the first event of the run")
        self._moment(0.08)
        acknowledged = counted(out)
        program = int(pid_file.read_text()) if pid_file.exists() else None
        self.acknowledged[mode] += acknowledged
        if mode == "run_child":
            assert program is not None
            self._kill(mode, program)
            code = self.server.wait(pid)
            if code != 128 + signal.SIGKILL:
                raise Failure(f"run exits with {code} for a program that was killed")
            check_run(out, acknowledged, {"interrupted"})
            return
        order = [pid] if mode == "run_parent" else [pid, program]
        self.chance.shuffle(order)
        for one in order:
            assert one is not None
            try:
                self._kill(mode, one)
            except ProcessLookupError:
                # The end of the one ended the other.
                self.kills[mode] += 1
            if one != order[-1]:
                self._moment(0.02)
        ended = self.server.wait(pid)
        if ended not in (-signal.SIGKILL, 128 + signal.SIGKILL):
            raise Failure(f"run ended with {ended}")
        # The sessions must read as interrupted even while the recorded program goes on.
        check_run(out, acknowledged, {"interrupted"})
        (folder / "stop").touch()
        self._settled_children()
        check_run(out, acknowledged, {"interrupted"})


def counted(folder: Path) -> int:
    """How many events the manifests below a folder count."""
    count = 0
    for manifest in [*folder.rglob("host.json"), *folder.rglob("manifest.json")]:
        try:
            found = json.loads(manifest.read_text())
        except FileNotFoundError:
            continue
        count += sum(segment["event_count"] for segment in found.get("segments", []))
    return count


def loaded(folder: Path) -> dict[str, Any]:
    """The sessions of a sink by id; what is damaged is an error."""
    from stormlog.telemetry import load_telemetry_sessions

    return {one.summary.session_id: one for one in load_telemetry_sessions(folder)}


def statuses(folder: Path) -> dict[str, str]:
    """What queries answer about the sessions of a sink."""
    import stormlog.query

    rows = stormlog.query.open([folder]).list_sessions()
    return {row.session_id: row.effective_status or row.status for row in rows}


def check_sink(folder: Path, sessions: dict[str, dict[str, Any]]) -> None:
    """Check that every acknowledged event is there and every session has the right status."""
    expected = {name: facts for name, facts in sessions.items() if facts["events"]}
    if not folder.joinpath("manifest.json").exists():
        if expected:
            raise Failure("there is no manifest")
        return
    found = loaded(folder)
    now = statuses(folder)
    for name, facts in expected.items():
        if name not in found:
            raise Failure(f"session {name} is gone with {facts['events']} events")
        times = [event.timestamp_ns for event in found[name].events]
        if "last_ns" in facts:
            # Threads read the clock before they append, so events need not be in order of time.
            if facts["last_ns"] not in times:
                raise Failure(f"the last event of {name} that was flushed is gone")
        elif times != [START_NS + number * 100_000_000 for number in range(len(times))]:
            raise Failure(f"events of {name} are out of place")
        if len(times) < facts["events"]:
            raise Failure(
                f"{facts['events']} events of {name} were flushed, {len(times)} are there"
            )
    for name, status in now.items():
        is_completed = sessions.get(name, {}).get("completed", False)
        # A victim may have been killed after it closed its session and before it reported that.
        wanted = {"completed"} if is_completed else {"interrupted", "completed"}
        if status not in wanted or (status == "completed" and "-" not in name):
            raise Failure(f"session {name} of a killed process is {status}")
    for name in expected:
        if now.get(name) is None:
            raise Failure(f"no query finds session {name}")


def check_thinned(folder: Path, flushed: int) -> None:
    """Check that every missing event is counted in the manifest as thinned or pruned."""
    from stormlog.telemetry_sink import read_telemetry_sink_manifest

    if not folder.joinpath("manifest.json").exists():
        if flushed:
            raise Failure("there is no manifest")
        return
    found = loaded(folder)
    manifest = read_telemetry_sink_manifest(folder)
    if manifest is None:
        raise Failure("the manifest cannot be read")
    kept = 0
    for one in found.values():
        times = [event.timestamp_ns for event in one.events]
        if len(times) != len(set(times)):
            raise Failure("lines are there twice")
        kept += len(times)
    removed = manifest.thinned.get("samples_dropped", 0) + manifest.pruned.get("events", 0)
    if kept + removed < flushed:
        raise Failure(
            f"{flushed} events were flushed, {kept} are there, {removed} counted as removed"
        )
    if set(statuses(folder).values()) - {"interrupted"}:
        raise Failure(f"sessions of killed processes are {statuses(folder)}")


def check_issues(folder: Path, decided: list[str]) -> None:
    """Check that the last acknowledged decision, or the one after it, is stored."""
    import stormlog.query

    states = stormlog.query.open([folder]).issue_state.all()
    if not decided:
        return
    text = folder.joinpath("issues.json").read_text()
    number, seed = (int(word) for word in decided[-1].removeprefix("decision ").split(" of "))
    later = (f'"decision {one} of {seed}"' for one in (number, number + 1))
    if not any(one in text for one in later) or "resolved" not in states.values():
        raise Failure(f"{decided[-1]} is gone")


def check_bundle(folder: Path, acknowledged: int, is_done: bool) -> None:
    """Check that the bundle of a killed diagnosis loads and has all acknowledged events."""
    manifest = folder / "manifest.json"
    if not manifest.exists():
        if is_done or acknowledged:
            raise Failure("there is no manifest")
        return
    json.loads(manifest.read_text())
    for file in folder.glob("*.json"):
        json.loads(file.read_text())
    sinks = [one.parent for one in folder.rglob("manifest.json") if one != manifest]
    events = 0
    for sink in sinks:
        events += sum(len(one.events) for one in loaded(sink).values())
        for name, status in statuses(sink).items():
            if status not in {"interrupted", "completed"}:
                raise Failure(f"session {name} of a killed diagnosis is {status}")
    if events < acknowledged:
        raise Failure(f"{acknowledged} events were flushed, {events} are there")


def check_run(folder: Path, acknowledged: int, wanted: set[str]) -> None:
    """Check that the recording of a run has all acknowledged events and the right status."""
    if acknowledged == 0 and not list(folder.rglob("host.json")) + list(
        folder.rglob("manifest.json")
    ):
        return
    events = 0
    for manifest in {*folder.rglob("host.json"), *folder.rglob("manifest.json")}:
        sink = manifest.parent
        events += sum(len(one.events) for one in loaded(sink).values())
        for name, status in statuses(sink).items():
            if status not in wanted:
                raise Failure(f"session {name} in {sink.name} is {status}")
    if events < acknowledged:
        raise Failure(f"{acknowledged} events were flushed, {events} are there")


FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "issues" / "monday"

# The share of each mode; a directory of most has several kills.
MODES = {
    "sink": 6,
    "tracker": 6,
    "fork": 4,
    "thinning": 4,
    "issues": 5,
    "diagnose": 8,
    "run_parent": 8,
    "run_child": 8,
    "run_both": 6,
}


def work(seed: int, kills: int, until: float, root: Path, out: int) -> None:
    """One worker: kills until it has enough or its time is over, then reports."""
    campaign = Campaign(seed, root)
    chance = random.Random(seed + 1)
    names = list(MODES)
    # Each mode once, then by chance.
    queue = names.copy()
    chance.shuffle(queue)
    while (
        campaign.kills.total() < kills and len(campaign.failures) < 20 and time.monotonic() < until
    ):
        mode = queue.pop() if queue else chance.choices(names, MODES.values())[0]
        campaign.go(mode)
    campaign.server.stop()
    result = [dict(campaign.kills), dict(campaign.acknowledged), campaign.failures]
    with os.fdopen(out, "w") as file:
        json.dump(result, file)


def run_campaign(
    kills: int, seconds: float, seed: int, workers: int, folder: Path
) -> tuple[Counter[str], Counter[str], list[str]]:
    """Kill so many processes, or as many as the time allows; gives kills and acknowledged events by mode, and the failures."""
    pipes = []
    until = time.monotonic() + seconds
    share = -(-kills // workers)
    for number in range(workers):
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ours)
            code = 1
            try:
                work(seed * 1000 + number, share, until, folder / f"worker-{number}", theirs)
                code = 0
            finally:
                os._exit(code)
        os.close(theirs)
        pipes.append((pid, ours))
    killed: Counter[str] = Counter()
    acknowledged: Counter[str] = Counter()
    failures: list[str] = []
    for pid, ours in pipes:
        with os.fdopen(ours) as file:
            text = file.read()
        os.waitpid(pid, 0)
        if not text:
            failures.append(f"worker {pid} ended early")
            continue
        one_killed, one_acknowledged, one_failures = json.loads(text)
        killed.update(one_killed)
        acknowledged.update(one_acknowledged)
        failures += one_failures
    return killed, acknowledged, failures


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1_000_000_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--dir", type=Path, help="where victims record (default: a temporary folder)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    arguments = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stormlog-campaign-", dir=arguments.dir) as folder:
        killed, acknowledged, failures = run_campaign(
            arguments.kills,
            arguments.seconds,
            arguments.seed,
            arguments.workers,
            Path(folder),
        )
        if failures and arguments.dir is not None:
            for left in Path(folder).rglob("failed-*"):
                shutil.move(left, arguments.dir)
    seconds = time.monotonic() - begun
    if arguments.json:
        result = {
            "seed": arguments.seed,
            "seconds": seconds,
            "kills": {mode: killed[mode] for mode in MODES},
            "acknowledged": {mode: acknowledged[mode] for mode in MODES},
            "failures": failures,
        }
        print(json.dumps(result, indent=2))
        return 1 if failures else 0
    print(f"seed {arguments.seed}, {arguments.workers} workers, {seconds:.0f} s")
    for mode in MODES:
        print(f"{mode:12} {killed[mode]:7,} kills {acknowledged[mode]:12,} acknowledged")
    rate = killed.total() / seconds
    print(
        f"{'all':12} {killed.total():7,} kills {acknowledged.total():12,} acknowledged, {rate:.1f}/s"
    )
    print(f"{len(failures)} failures")
    for failure in failures:
        print(f"  {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
