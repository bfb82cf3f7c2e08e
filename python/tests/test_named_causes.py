"""The whole command on a program that leaks: the line in `analyze`, and evidence on request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from conftest import FAKE_TORCH
from test_capture_commands import program, run
from waiting import FOR_PROGRAMS, wait_until

LOOP = f"""{FOR_PROGRAMS}
import sys, time, torch
from pathlib import Path
optimizer = torch.optim.Optimizer()
live = []
def keep():
    torch.malloc(128 << 10, (__file__, keep.__code__.co_firstlineno + 1, "keep"))  # the line at fault
def step(i, leaks):
    global live
    for address in live:
        torch.free(address)
    live = [torch.malloc(64 << 10, (__file__, 1, "step")) for _ in range(4)]
    if leaks and i % 4 == 0:
        keep()
    optimizer.step()
    time.sleep(0.002)
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(FAKE_TORCH)}


def test_a_leak_is_reported_with_its_line(tmp_path: Path) -> None:
    script, out = tmp_path / "train.py", tmp_path / "out"
    script.write_text(
        LOOP
        + "end = time.monotonic() + 25\n"
        + "i = 0\n"
        + "while time.monotonic() < end:\n    i += 1\n    step(i, True)\n"
    )
    result = run("run", "--dir", out, "--", sys.executable, script, env=ENVIRONMENT)
    assert result.returncode == 0, result.stderr
    report = json.loads(run("analyze", "--format", "json", out).stdout)
    (leak,) = [one for one in report["findings"] if one["kind"] == "allocator_leak"]
    site = leak["cause"]["site"]
    lines = script.read_text().splitlines()
    line = next(at for at, text in enumerate(lines, 1) if text.endswith("# the line at fault"))
    assert (Path(site["file"]).name, site["line"], site["function"]) == ("train.py", line, "keep")
    assert site["source_text"].endswith("# the line at fault")
    assert leak["cause"]["share"] > 0.9
    assert f"allocated at train.py:{line}" in report["verdict"]["headline"]
    text = run("analyze", out).stdout
    assert f"Allocated at train.py:{line} in keep" in text


KEEPING = """
kept = []
def forward():
    return torch.malloc(128 << 10, (__file__, forward.__code__.co_firstlineno + 1, "forward"),
                        (__file__, loop.__code__.co_firstlineno + 3, "loop"))
def loop(end):
    while time.monotonic() < end:
        step(0, False)
        address = forward()
        kept.append(torch.Tensor(address, nbytes=128 << 10))  # the line that keeps
loop(time.monotonic() + 25)
"""


def test_the_line_that_keeps_the_memory_leads(tmp_path: Path) -> None:
    script, out = tmp_path / "train.py", tmp_path / "out"
    script.write_text(LOOP + KEEPING)
    result = run("run", "--dir", out, "--", sys.executable, script, env=ENVIRONMENT)
    assert result.returncode == 0, result.stderr
    report = json.loads(run("analyze", "--format", "json", out).stdout)
    (leak,) = [one for one in report["findings"] if one["kind"] == "allocator_leak"]
    cause = leak["cause"]
    lines = script.read_text().splitlines()
    kept = next(at for at, text in enumerate(lines, 1) if text.endswith("# the line that keeps"))
    assert cause["site_role"] == "adds_items"
    assert (cause["site"]["line"], cause["site"]["function"]) == (kept, "loop")
    assert cause["allocated_at"]["function"] == "forward"
    assert [call["line"] for call in cause["call_path"]] == [kept - 1]
    assert cause["holder"] == "`kept` in `__main__`"
    assert report["verdict"]["headline"].startswith(f"LIKELY LEAK  kept  train.py:{kept}  +")
    assert f"in `kept` at train.py:{kept}" in leak["advice"]
    text = run("analyze", out).stdout
    order = [f"Items added at train.py:{kept}", "Allocated at train.py:", "called from train.py:"]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_a_running_job_answers_a_request(tmp_path: Path) -> None:
    script, out = tmp_path / "train.py", tmp_path / "out"
    script.write_text(
        LOOP + "i = 0\nwhile not Path(sys.argv[1]).exists():\n    i += 1\n    step(i, False)\n"
    )
    stop = tmp_path / "stop"
    command = [*program("main"), "run", "--dir", out, "--", sys.executable, script, stop]
    job = subprocess.Popen([str(word) for word in command], env=ENVIRONMENT)
    try:
        wait_until((out / "manifest.json").exists)
        answered = run("evidence", "--json", "--timeout", "80", out)
        assert answered.returncode == 0, answered.stderr
        (device,) = json.loads(answered.stdout)["devices"]
        assert device["is_complete"]
        assert device["evidence"]["asked_by"] == "request"
        assert len(device["evidence"]["windows"]) == 4
    finally:
        stop.touch()
        job.wait()
    refused = run("evidence", out)
    assert refused.returncode == 1 and "the run has ended" in refused.stderr
    missing = run("evidence", tmp_path / "nowhere")
    assert missing.returncode == 1 and "cannot read" in missing.stderr
