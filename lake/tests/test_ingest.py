"""Ingest: everything once, whatever happens, and other engines read the same."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from conftest import PROGRAM
from recordings import Sink, event

ROOT = Path(__file__).resolve().parent.parent.parent


def column(lake: Path, table: str, name: str) -> list:
    return DeltaTable(lake / table).to_pyarrow_table(columns=[name])[name].to_pylist()


def counts(lake: Path) -> tuple[int, int]:
    return len(column(lake, "samples", "seq")), len(column(lake, "events", "seq"))


def sums(sinks: list[Sink]) -> tuple[int, int]:
    return sum(sink.samples for sink in sinks), sum(sink.events for sink in sinks)


def test_a_second_ingest_adds_nothing(lake, tmp_path):
    sink = Sink(tmp_path / "runs/a", "session-a")
    sink.sample(200)
    sink.close()
    first = lake.json("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    assert (first["samples"], first["events"]) == (200, 2)
    again = lake.json("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    assert (again["samples"], again["events"], again["unchanged_sources"]) == (0, 0, 1)
    assert counts(tmp_path / "lake") == (200, 2)
    versions = DeltaTable(tmp_path / "lake/samples").version()
    lake("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    assert DeltaTable(tmp_path / "lake/samples").version() == versions


def test_a_recording_that_was_moved_is_not_stored_again(lake, tmp_path):
    sink = Sink(tmp_path / "runs/a", "session-a")
    sink.sample(50)
    lake("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    (tmp_path / "archive").mkdir()
    sink.path = (tmp_path / "runs/a").rename(tmp_path / "archive/b")
    moved = lake.json("ingest", tmp_path / "archive", "--to", tmp_path / "lake")
    assert (moved["samples"], moved["events"]) == (0, 0)
    sink.sample(5)
    lake("ingest", tmp_path / "archive", "--to", tmp_path / "lake")
    assert counts(tmp_path / "lake") == sums([sink])
    assert column(tmp_path / "lake", "sessions", "session_id") == ["session-a"]
    # A copy is another source, as it is for queries.
    shutil.copytree(tmp_path / "archive/b", tmp_path / "copy/b")
    assert lake.json("ingest", tmp_path / "copy", "--to", tmp_path / "lake")["samples"] == 55


@pytest.mark.parametrize("shorter_first", [True, False])
def test_moved_copies_of_different_lengths_are_stored_once(lake, tmp_path, shorter_first):
    lines = [event("session-a", number) for number in range(1, 12)]
    first = tmp_path / "first/track.jsonl"
    first.parent.mkdir()
    first.write_text("".join(lines[:3]))
    lake("ingest", first.parent, "--to", tmp_path / "lake")
    first.unlink()
    lengths = [5, 11] if shorter_first else [11, 5]
    for folder, length in zip("ab", lengths, strict=True):
        (tmp_path / "copies" / folder).mkdir(parents=True)
        (tmp_path / "copies" / folder / "track.jsonl").write_text("".join(lines[:length]))
    for _ in range(2):
        lake("ingest", tmp_path / "copies", "--to", tmp_path / "lake")
        stored = column(tmp_path / "lake", "samples", "allocator_allocated_bytes")
        assert sorted(stored) == [1_000_000 + 1_000 * number for number in range(1, 12)]


def test_a_stray_segment_doubles_nothing(lake, tmp_path):
    sink = Sink(tmp_path / "runs/a", "session-a")
    sink.sample(5)
    sink.roll()
    sink.sample(5)
    # Its name has no number, so its position in the stream is before those of the other segments.
    (sink.path / "segment-old.jsonl").write_text(event("session-a", 50))
    for _ in range(3):
        lake("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
        stored = column(tmp_path / "lake", "samples", "allocator_allocated_bytes")
        assert len(stored) == len(set(stored)) >= 10


def test_another_recording_at_the_same_path_is_stored(lake, tmp_path):
    for name in ["one", "two"]:
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        sink = Sink(tmp_path / "runs/a", f"session-{name}")
        sink.sample(10)
        lake("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    assert counts(tmp_path / "lake") == (20, 2)
    assert sorted(set(column(tmp_path / "lake", "samples", "session_id"))) == [
        "session-one",
        "session-two",
    ]


def test_a_live_sink_is_continued(lake, tmp_path):
    sink = Sink(tmp_path / "runs/a", "session-a")
    random.seed(7)
    for step in range(6):
        sink.sample(random.randrange(1, 40))
        sink.note()
        if step % 2:
            sink.roll()
            sink.sample(3)
        done = lake.json("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
        assert done["samples"] + done["events"] > 0
        assert counts(tmp_path / "lake") == sums([sink])
    sink.close()
    lake("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    assert column(tmp_path / "lake", "sessions", "status") == ["completed"]
    assert len(set(column(tmp_path / "lake", "samples", "timestamp_ns"))) == sink.samples
    rollups = DeltaTable(tmp_path / "lake/rollups").to_pyarrow_table()
    assert sum(rollups["samples"].to_pylist()) == sink.samples
    assert lake.json("doctor", "--at", tmp_path / "lake")["problems"] == []


def test_logs_of_tables_are_checkpointed(lake, tmp_path):
    sink = Sink(tmp_path / "runs/a", "session-a")
    for _ in range(11):
        sink.sample(1)
        lake("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    for table in ["samples", "runs"]:
        assert (tmp_path / "lake" / table / "_delta_log/_last_checkpoint").is_file(), table
    assert counts(tmp_path / "lake") == sums([sink])


def test_a_run_of_thousands_of_ranks_is_replaced_when_one_has_grown(lake, tmp_path):
    ranks = 6000

    def line(number: int, rank: int, event_type: str = "sample") -> str:
        text = event(f"session-{rank}", number, event_type, rank)
        return text.replace('"job_id": null', '"job_id": "large"').replace(
            '"world_size": 8', f'"world_size": {ranks}'
        )

    for rank in range(ranks):
        path = tmp_path / f"runs/events-{rank}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(line(0, rank, "start") + line(1, rank))
    other = Sink(tmp_path / "other/a", "session-other")
    lake("ingest", tmp_path / "other", "--to", tmp_path / "lake")
    lake("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    with (tmp_path / "runs/events-7.jsonl").open("a") as file:
        file.write(line(2, 7))
    again = lake.json("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    assert (again["samples"], again["runs_analyzed"]) == (1, 1)
    assert counts(tmp_path / "lake") == (ranks + 1, ranks + other.events)
    sessions = column(tmp_path / "lake", "sessions", "session_id")
    assert sorted(sessions) == sorted(
        [f"session-{rank}" for rank in range(ranks)] + ["session-other"]
    )
    assert sorted(column(tmp_path / "lake", "runs", "ranks")) == [0, ranks]


def test_an_unfinished_line_is_left_for_the_next_time(lake, tmp_path):
    sink = Sink(tmp_path / "runs/a", "session-a")
    sink.sample(5)
    line = event("session-a", 99)
    with sink.segment.open("a") as file:
        file.write(line[:300])
    first = lake.json("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    assert first["samples"] == 5
    assert "300 bytes are an unfinished line" in first["damage"][0]["reason"]
    with sink.segment.open("a") as file:
        file.write(line[300:])
    again = lake.json("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    assert (again["samples"], again["damage"]) == (1, [])


def test_damage_is_data(lake, tmp_path):
    sink = Sink(tmp_path / "runs/a", "session-a")
    sink.sample(3)
    with sink.segment.open("a") as file:
        file.write('{"broken": \n')
    sink.sample(2)
    done = lake.json("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    assert done["samples"] == 5
    assert len(done["damage"]) == 1
    assert "segment-000001.jsonl" in column(tmp_path / "lake", "sources", "damage")[0]


def test_what_stormlog_query_lists_is_in_the_tables(lake, tmp_path):
    """Every kind of artifact of the fixtures: sinks, compressed, bundles, CSV, damaged ones."""
    done = lake.json("ingest", ROOT / "fixtures/runs", "--to", tmp_path / "lake")
    assert done["samples"] > 1000
    assert lake.json("doctor", "--at", tmp_path / "lake")["problems"] == []
    ids = column(tmp_path / "lake", "sessions", "session_id")
    assert len(ids) > 5
    again = lake.json("ingest", ROOT / "fixtures/runs", "--to", tmp_path / "lake")
    assert (again["samples"], again["events"]) == (0, 0)
    assert sorted(column(tmp_path / "lake", "sessions", "session_id")) == sorted(ids)


@pytest.mark.parametrize("kills", [8])
def test_killed_at_random_moments_nothing_is_lost_or_doubled(lake, tmp_path, kills):
    sinks = [Sink(tmp_path / f"runs/{rank}", f"session-{rank}", rank) for rank in range(4)]
    chance = random.Random(20261116)
    for _ in range(kills):
        for sink in sinks:
            sink.sample(chance.randrange(1, 300))
            sink.note()
        started = subprocess.Popen(
            [PROGRAM, "ingest", tmp_path / "runs", "--to", tmp_path / "lake"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(chance.uniform(0.05, 1.5))
        started.send_signal(signal.SIGKILL)
        started.wait()
    lake("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    assert counts(tmp_path / "lake") == sums(sinks)
    assert lake.json("doctor", "--at", tmp_path / "lake")["problems"] == []


def test_two_ingests_at_once_store_everything_once(lake, tmp_path):
    sinks = [Sink(tmp_path / f"runs/{rank}", f"session-{rank}", rank) for rank in range(4)]
    for sink in sinks:
        sink.sample(300)
    command = [PROGRAM, "ingest", tmp_path / "runs", "--to", tmp_path / "lake"]
    both = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for one in both:
        _, error = one.communicate(timeout=600)
        assert one.returncode == 0, error
    assert counts(tmp_path / "lake") == sums(sinks)


def test_upkeep_changes_no_row(lake, tmp_path):
    sink = Sink(tmp_path / "runs/a", "session-a")
    for _ in range(4):
        sink.sample(20)
        lake("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    files = len(DeltaTable(tmp_path / "lake/samples").file_uris())
    lake("optimize", "--at", tmp_path / "lake")
    assert len(DeltaTable(tmp_path / "lake/samples").file_uris()) < files
    refused = lake("vacuum", "--at", tmp_path / "lake", "--retention", 0, code=1)
    assert "etention" in refused.stderr
    lake("vacuum", "--at", tmp_path / "lake", "--retention", 0, "--force")
    assert counts(tmp_path / "lake") == sums([sink])
    sink.sample(7)
    assert lake.json("ingest", tmp_path / "runs", "--to", tmp_path / "lake")["samples"] == 7
    assert lake.json("doctor", "--at", tmp_path / "lake")["problems"] == []


def test_doctor_finds_rows_that_are_missing(lake, tmp_path):
    sink = Sink(tmp_path / "runs/a", "session-a")
    sink.sample(40)
    lake("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    DeltaTable(tmp_path / "lake/samples").delete("timestamp_ns % 2 = 0")
    found = lake.json("doctor", "--at", tmp_path / "lake", code=2)["problems"]
    expected = {"rows are missing", "the number of samples differs from table rollups"}
    assert expected <= {one["problem"] for one in found}


@pytest.mark.parametrize("what", ["log", "parquet", "checkpoint"])
def test_hostile_tables_give_an_error(lake, tmp_path, what):
    sink = Sink(tmp_path / "runs/a", "session-a")
    sink.sample(40)
    lake("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    table = tmp_path / "lake/samples"
    log = table / "_delta_log"
    if what == "log":
        (log / "00000000000000000001.json").write_bytes(
            b'{"add": {"path": "../../../etc/passwd"\n\xff'
        )
    elif what == "checkpoint":
        (log / "00000000000000000001.checkpoint.parquet").write_bytes(
            b"PAR1" + bytes(100) + b"PAR1"
        )
        (log / "_last_checkpoint").write_text('{"version": 1, "size": 99999999999999}')
    else:
        for file in table.rglob("*.parquet"):
            file.write_bytes(file.read_bytes()[:50] + b"\xff" * 50)
    done = subprocess.run(
        [PROGRAM, "doctor", "--at", tmp_path / "lake"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode in (1, 2), done.stdout + done.stderr
    assert "panicked" not in done.stderr and "error: " in done.stderr


def test_errors_have_hints(lake, tmp_path):
    missing = lake("ingest", tmp_path / "no", "--to", tmp_path / "lake", code=1)
    assert missing.stderr == f"error: '{tmp_path}/no' does not exist\n"
    for command in [["doctor"], ["leaks"], ["sql", "SELECT count(*) FROM samples"]]:
        nothing = lake(*command, "--at", tmp_path / "none", code=1)
        assert "there is no lake at" in nothing.stderr and "hint: " in nothing.stderr
    sink = Sink(tmp_path / "runs/a", "session-a")
    lake("ingest", sink.path, "--to", tmp_path / "lake")
    unknown = lake("sql", "SELECT * FROM sample", "--at", tmp_path / "lake", code=1)
    assert "'datafusion.public.sample' not found\nhint: \"SHOW TABLES\"" in unknown.stderr
    secret = lake("doctor", "--at", "s3://key:hush@bucket/lake", code=1)
    assert "hush" not in secret.stderr and "credentials" in secret.stderr
