"""Other engines read the tables and get the same sums."""

from __future__ import annotations

from pathlib import Path

import duckdb
import duckdb_extension_delta
import polars
import pytest

from recordings import Sink


@pytest.fixture
def stored(lake, tmp_path):
    sinks = [Sink(tmp_path / f"runs/{rank}", f"session-{rank}", rank) for rank in range(3)]
    for sink in sinks:
        sink.sample(100 + sink.rank)
        sink.close()
    lake("ingest", tmp_path / "runs", "--to", tmp_path / "lake")
    return tmp_path / "lake", sinks


def expected(sinks):
    allocated = [
        sum(1_000_000 + 1_000 * number for number in range(1, sink.samples + 1)) for sink in sinks
    ]
    return [(sink.rank, sink.samples, total) for sink, total in zip(sinks, allocated)]


def test_polars(stored):
    lake, sinks = stored
    rows = (
        polars.scan_delta(str(lake / "samples"))
        .group_by("rank")
        .agg(polars.len().alias("samples"), polars.col("allocator_allocated_bytes").sum())
        .sort("rank")
        .collect()
        .rows()
    )
    assert rows == expected(sinks)


def test_duckdb(stored):
    """With DuckDB's delta extension, as PyPI has it: the tests install nothing from elsewhere."""
    lake, sinks = stored
    connection = duckdb.connect()
    extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension"))
    connection.execute(f"LOAD '{extension}'")
    rows = connection.execute(
        "SELECT rank, count(*), CAST(sum(allocator_allocated_bytes) AS BIGINT) "
        f"FROM delta_scan('{lake}/samples') GROUP BY rank ORDER BY rank"
    ).fetchall()
    assert rows == expected(sinks)
