"""The views of fleets mean the same in another engine."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

LAKE = Path(__file__).resolve().parent.parent
FIXTURES = LAKE.parent / "fixtures/recordings"
VIEWS = {
    "fleet_leaks": "run_id, kind, rank, session_id",
    "fleet_waste": "job_id, owner",
    "fleet_ooms": "session_id",
    "fleet_headroom": "job_id, owner",
    "fleet_regressions": "program, world_size, first_started_ns",
}
TABLES = ("samples", "events", "rollups", "sessions", "runs", "findings")


@pytest.fixture(scope="module")
def stored(lake, tmp_path_factory):
    at = tmp_path_factory.mktemp("views") / "lake"
    names = ("rank_leak_ddp", "losses_to_oom", "shared_kv_cache", "warmup")
    lake("ingest", *(FIXTURES / name for name in names), "--to", at)
    return at


@pytest.fixture(scope="module")
def connection(stored):
    connection = duckdb.connect()
    for table in TABLES:
        files = DeltaTable(stored / table).file_uris()
        listed = ", ".join(f"'{file}'" for file in files)
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet([{listed}])")
    return connection


@pytest.mark.parametrize("view", VIEWS)
def test_duckdb_has_the_same_rows(lake, stored, connection, view):
    connection.execute((LAKE / f"views/{view}.sql").read_text())
    question = f"SELECT * FROM {view} ORDER BY {VIEWS[view]}"
    answer = connection.execute(question)
    names = [column[0] for column in answer.description]
    theirs = [dict(zip(names, row)) for row in answer.fetchall()]
    ours = lake.json("sql", question, "--at", stored)
    assert len(ours) == len(theirs) > 0
    for own, other in zip(ours, theirs):
        assert own.keys() == other.keys()
        for name, value in own.items():
            # Sums of floating-point numbers depend on the order.
            assert other[name] == (
                pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            ), name
