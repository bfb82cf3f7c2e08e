"""Other engines read the tables and get the same sums."""

from __future__ import annotations

import duckdb
import polars
import pytest
from deltalake import DeltaTable
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
    """With DuckDB's delta extension where it can be loaded, else its Parquet reader over the files
    that the log lists."""
    lake, sinks = stored
    connection = duckdb.connect()
    try:
        connection.execute("INSTALL delta; LOAD delta")
        table = f"delta_scan('{lake}/samples')"
    except duckdb.Error:
        files = DeltaTable(lake / "samples").file_uris()
        listed = ", ".join(f"'{file}'" for file in files)
        table = f"read_parquet([{listed}])"
    rows = connection.execute(
        f"SELECT rank, count(*), CAST(sum(allocator_allocated_bytes) AS BIGINT) FROM {table} GROUP BY rank ORDER BY rank"
    ).fetchall()
    assert rows == expected(sinks)
