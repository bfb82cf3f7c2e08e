"""Metrics and alerts of programs that run: the real Prometheus scrapes, promtool reads, alerts arrive."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from waiting import wait_until

STORMLOG = [sys.executable, "-m", "stormlog"]
DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "stormlog.json"

HOLD = textwrap.dedent(
    """
    import time
    held = bytearray(64 << 20)
    for place in range(0, len(held), 4096):
        held[place] = 1
    time.sleep(300)
    """
)

LEAK = textwrap.dedent(
    """
    import sys, time
    kept = []
    until = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < until:
        block = bytearray(1 << 20)
        block[::4096] = b"x" * len(block[::4096])
        kept.append(block)
        time.sleep(0.02)
    """
)

CLEAN = LEAK.replace("kept.append(block)", "kept = [block]")


def prometheus_tools() -> None:
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


class Receiver:
    """A receiver of alerts or OTLP on this machine."""

    def __init__(self, answer: Callable[[int], int] = lambda number: 200) -> None:
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                body = self.rfile.read(length)
                status = answer(len(receiver.bodies))
                receiver.bodies.append(body)
                receiver.paths.append(self.path)
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def text_of(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text: str = answer.read().decode()
        return text


@contextmanager
def tracking(program: str, *flags: str, cwd: Path) -> Iterator[str]:
    """``stormlog track --listen`` on a program; gives the address of its metrics."""
    command = [*STORMLOG, "track", "--listen", "127.0.0.1:0", *flags]
    command += ["--", sys.executable, "-c", program]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=cwd, text=True
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"metrics on (http://\S+)", line)
        assert found, line
        yield found.group(1)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


@contextmanager
def prometheus(target: str, folder: Path) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """The real Prometheus, which scrapes one target; gives a function that asks it."""
    config = folder / "prometheus.yml"
    address = urllib.parse.urlsplit(target).netloc
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        "- job_name: stormlog\n"
        f"  static_configs: [{{targets: ['{address}']}}]\n"
    )
    subprocess.run(["promtool", "check", "config", str(config)], check=True, capture_output=True)
    # Port 0 is not reported by Prometheus: take one that is free now.
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        port = server.server_address[1]
    base = f"http://127.0.0.1:{port}"
    log = (folder / "prometheus.log").open("w")
    process = subprocess.Popen(
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
         f"--web.listen-address=127.0.0.1:{port}"],
        stdout=log, stderr=log,
    )  # fmt: skip

    def ask(query: str) -> list[dict[str, Any]]:
        address = f"{base}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        try:
            answer = json.loads(text_of(address))
        except OSError:
            return []
        assert answer["status"] == "success", answer
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    try:
        yield ask
    finally:
        process.terminate()
        process.wait(timeout=60)
        log.close()


def queries() -> list[str]:
    """Every query of the dashboard, its variables replaced as Grafana would."""
    document = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in document["panels"] for target in panel.get("targets", [])]
    assert len(found) >= 10
    found = [query.replace("$__rate_interval", "1m") for query in found]
    return [re.sub(r"\$\w+", ".*", query) for query in found]


def test_prometheus_scrapes_and_answers_every_query_of_the_dashboard(tmp_path: Path) -> None:
    prometheus_tools()
    sink = tmp_path / "sink"
    flags = ("--sink", str(sink), "--alert-after", "1", "--alert", "http://127.0.0.1:9/")
    with tracking(HOLD, *flags, cwd=tmp_path) as url, prometheus(url, tmp_path) as ask:
        wait_until(lambda: ask("stormlog_host_memory_used_bytes > 60e6"), seconds=90)
        used = ask("stormlog_host_memory_used_bytes")
        assert len(used) == 1
        labels = used[0]["metric"]
        assert labels["job"] == "stormlog" and labels["rank"] == "0" and int(labels["pid"]) > 0
        total = int(float(ask("stormlog_host_memory_limit_bytes")[0]["value"][1]))
        assert total > int(float(used[0]["value"][1]))
        # Two scrapes of a counter have a rate.
        wait_until(lambda: ask("rate(stormlog_recorded_events_total[1m]) > 0"), seconds=90)
        wait_until(lambda: ask("stormlog_findings"), seconds=90)
        assert ask("sum(stormlog_findings)")[0]["value"][1] == "0"
        assert ask("stormlog_series_left_out")[0]["value"][1] == "0"
        # What this machine has no numbers for is absent, never zero.
        if not ask("stormlog_device_memory_total_bytes"):
            assert ask("stormlog_device_memory_used_bytes") == []
        assert ask("up")[0]["value"][1] == "1"
        for query in queries():
            answer = ask(query)
            if "device" not in query and "allocator" not in query and "steps" not in query:
                assert answer, query
        text = text_of(url)
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_serve_answers_with_the_numbers_of_all_running_recordings(tmp_path: Path) -> None:
    recording = [*STORMLOG, "track", "--sink", str(tmp_path / "runs" / "one"), "--"]
    serving = [*STORMLOG, "serve", str(tmp_path / "runs"), "--listen", "127.0.0.1:0", "--json"]
    (tmp_path / "runs").mkdir()
    with subprocess.Popen([*recording, sys.executable, "-c", HOLD], cwd=tmp_path) as recorder:
        with subprocess.Popen(serving, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = f"http://{json.loads(server.stdout.readline())['address']}/metrics"
            used = re.compile(r"^stormlog_host_memory_used_bytes\{[^}]*\} (\d+)", re.MULTILINE)
            wait_until(lambda: max([0, *map(int, used.findall(text_of(address)))]) > 64 << 20)
            server.terminate()
        recorder.terminate()


def test_the_dashboard_is_what_its_source_makes() -> None:
    pytest.importorskip("grafana_foundation_sdk")
    folder = DASHBOARD.parent
    command = [sys.executable, str(folder / "make_dashboard.py"), "--print"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(made.stdout) == json.loads(DASHBOARD.read_text())


def test_a_leak_raises_an_alert_while_it_runs(tmp_path: Path, receiver: Receiver) -> None:
    command = [*STORMLOG, "run", "--dir", "run", "--alert", f"{receiver.url}/hook/SECRET"]
    command += ["--alert-after", "8", "--", sys.executable, "-c", LEAK, "300"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: bool(receiver.bodies), seconds=240)
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    alert = json.loads(receiver.bodies[0])
    assert alert["source"] == "stormlog"
    assert alert["finding"]["kind"] in ("host_leak", "oom_risk")
    assert alert["finding"]["severity"] in ("warning", "critical")
    assert alert["run"]["recording"] == str(tmp_path / "run")
    assert receiver.paths[0] == "/hook/SECRET"
    assert "SECRET" not in errors
    recorded = "".join(path.read_text() for path in (tmp_path / "run").rglob("*.json*"))
    assert "SECRET" not in recorded


def test_a_clean_run_raises_none_and_a_dead_receiver_delays_nothing(tmp_path: Path) -> None:
    dead = Receiver()
    dead.close()
    flags = ["--alert", f"{dead.url}/SECRET", "--otlp", dead.url, "--metrics-interval", "0.5"]
    command = [*STORMLOG, "run", "--dir", "run", "--alert-after", "1", *flags]
    command += ["--", sys.executable, "-c", CLEAN, "4"]
    start = time.monotonic()
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0
    # Four seconds of program; the machine of the tests is often busy.
    assert time.monotonic() - start < 60
    assert "OTLP request" in ran.stderr and "not delivered" in ran.stderr
    assert "alert not delivered" not in ran.stderr
    assert "SECRET" not in ran.stderr


def test_textfile_is_whole_and_goes_with_the_run(tmp_path: Path) -> None:
    prometheus_tools()
    file = tmp_path / "metrics" / "stormlog.prom"
    command = [*STORMLOG, "run", "--dir", "run", "--metrics-file", str(file)]
    command += ["--metrics-interval", "0.2", "--", sys.executable, "-c", HOLD]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        wait_until(
            lambda: file.exists() and "stormlog_host_memory_used_bytes" in file.read_text(),
            seconds=90,
        )
        for _ in range(20):
            text = file.read_text()
            assert text.endswith("\n") and "stormlog_series_left_out 0" in text
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, text=True, capture_output=True
    )
    assert checked.returncode == 0, checked.stderr
    assert not file.exists()


def test_otlp_arrives_at_the_path_of_metrics(tmp_path: Path, receiver: Receiver) -> None:
    variables = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
    command = [*STORMLOG, "run", "--dir", "run", "--metrics-interval", "0.5"]
    program = ["--", sys.executable, "-c", CLEAN, "3"]
    # The variable alone sends nothing: programs have it for reasons of their own.
    subprocess.run(
        [*command, *program], cwd=tmp_path, env=variables, check=True, capture_output=True
    )
    assert receiver.bodies == []
    asked = [*command, "--otlp", "env", *program]
    subprocess.run(asked, cwd=tmp_path, env=variables, check=True, capture_output=True)
    assert set(receiver.paths) == {"/v1/metrics"}
    assert b"stormlog.host_memory_used" in receiver.bodies[-1]
    assert b"host.name" in receiver.bodies[-1]


def test_bad_addresses_are_refused_without_being_repeated(tmp_path: Path) -> None:
    for flag, value in (("--alert", "ftp://x/SECRET"), ("--otlp", "SECRET"), ("--otlp", "env")):
        command = [*STORMLOG, "run", flag, value, "--", "touch", "ran"]
        variables = {name: text for name, text in os.environ.items() if "OTEL" not in name}
        ran = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert ran.returncode == 1
        assert ran.stderr.startswith("error: ") and "SECRET" not in ran.stderr
        assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("tracker", "stand_in"),
    [
        ("from stormlog import CPUMemoryTracker as Tracker", None),
        ("from stormlog.tensorflow.tracker import MemoryTracker as Tracker", "fake_tensorflow"),
        ("from stormlog.jax import MemoryTracker as Tracker", "fake_jax"),
    ],
)
def test_a_tracker_has_its_alerts_sent_by_another_process(
    tmp_path: Path, receiver: Receiver, tracker: str, stand_in: str | None
) -> None:
    program = textwrap.dedent(
        f"""
        import os, time
        os.environ["STORMLOG_ALERT"] = "http://127.0.0.1:9/"
        from pathlib import Path
        {tracker}
        from stormlog.telemetry_sink import TelemetrySinkConfig
        config = TelemetrySinkConfig(root_dir=Path("sink"))
        tracker = Tracker(0.1, telemetry_sink_config=config, alert={receiver.url!r})
        tracker.start_tracking()
        watcher = tracker._alert_process._process
        line = Path(f"/proc/{{watcher.pid}}/cmdline").read_bytes()
        def names():
            return {{task.read_text() for task in Path(f"/proc/{{watcher.pid}}/task").glob("*/comm")}}
        while "stormlog-online\\n" not in names() and watcher.poll() is None:
            time.sleep(0.01)
        print(b"127.0.0.1" in line, watcher.poll() is None)
        tracker.stop_tracking()
        print(watcher.wait(60))
        """
    )
    variables = dict(os.environ)
    if stand_in is not None:
        variables["PYTHONPATH"] = str(Path(__file__).parent / stand_in)
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.stdout.split() == ["False", "True", "0"], ran.stderr


DEPLOY = DASHBOARD.parents[1]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_systemd_unit_is_valid(tmp_path: Path) -> None:
    # On this machine the program is not installed at that path, which is no error of the unit.
    unit = (DEPLOY / "systemd" / "stormlog-track.service").read_text()
    copy = tmp_path / "stormlog-track.service"
    copy.write_text(unit.replace("/usr/local/bin/stormlog", "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stderr
    line = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    words = line.split()[1:]
    # The program accepts all flags of the unit. It may still fail, because there is no GPU here.
    ran = subprocess.run([*STORMLOG, *words, "--duration", "0.1"], capture_output=True, text=True)
    assert "unexpected argument" not in ran.stderr, ran.stderr


def test_slurm_prolog_and_epilog_start_and_end_a_recorder(tmp_path: Path) -> None:
    # Without GPUs the recorder would end at once: this one records a process that sleeps.
    program = tmp_path / "stormlog"
    program.write_text(
        f'#!/bin/sh\nshift\nexec {sys.executable} -m stormlog track --pid $WATCHED "$@"\n'
    )
    program.chmod(0o755)
    sleeper = subprocess.Popen(["sleep", "300"])
    runs, metrics = tmp_path / "runs", tmp_path / "metrics"
    variables = {
        **os.environ,
        "STORMLOG": str(program),
        "STORMLOG_RUNS": str(runs),
        "STORMLOG_METRICS": str(metrics),
        "SLURM_JOB_ID": "4711",
        "WATCHED": str(sleeper.pid),
    }
    try:
        subprocess.run([str(DEPLOY / "slurm" / "prolog.sh")], env=variables, check=True, timeout=60)
        pid = int((runs / "pids" / "4711").read_text())
        file = metrics / "stormlog-job-4711.prom"
        wait_until(lambda: file.exists() and 'job_id="4711"' in file.read_text())
        subprocess.run([str(DEPLOY / "slurm" / "epilog.sh")], env=variables, check=True, timeout=60)
        wait_until(lambda: not file.exists())
        wait_until(lambda: not Path(f"/proc/{pid}").exists())
    finally:
        sleeper.kill()
        sleeper.wait()
    hostile = {**variables, "SLURM_JOB_ID": "../x"}
    for script in ("prolog.sh", "epilog.sh"):
        subprocess.run([str(DEPLOY / "slurm" / script)], env=hostile, check=True, timeout=60)
    assert sorted(path.name for path in runs.iterdir()) == ["job-4711", "job-4711.log", "pids"]
