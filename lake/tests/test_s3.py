"""Object storage: a real server of the S3 protocol, with and without a network that fails."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import boto3
import pytest
from deltalake import DeltaTable

from conftest import PROGRAM
from flaky_proxy import FlakyProxy
from recordings import Sink

SECRET = "hush-this-is-secret"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(port: int) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "test-key",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
    }


@pytest.fixture(scope="module")
def server():
    port = free_port()
    moto = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="test-key",
        aws_secret_access_key=SECRET,
    )
    deadline = time.monotonic() + 120
    while True:
        try:
            client.create_bucket(Bucket="fleet")
            break
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)
    # Without this answer to a second writer, commits could replace each other.
    client.put_object(Bucket="fleet", Key="once", Body=b"1", IfNoneMatch="*")
    with pytest.raises(client.exceptions.ClientError, match="PreconditionFailed"):
        client.put_object(Bucket="fleet", Key="once", Body=b"2", IfNoneMatch="*")
    yield port
    moto.terminate()
    moto.wait()


def rows(name: str, table: str, port: int) -> int:
    options = {**environment(port), "AWS_S3_ALLOW_UNSAFE_RENAME": "false"}
    return (
        DeltaTable(f"s3://fleet/{name}/{table}", storage_options=options)
        .to_pyarrow_table()
        .num_rows
    )


def test_a_lake_in_object_storage(lake, tmp_path, server):
    sink = Sink(tmp_path / "runs/a", "session-a")
    env = environment(server)
    for _ in range(2):
        sink.sample(30)
        lake("ingest", tmp_path / "runs", "--to", "s3://fleet/plain", env=env)
    assert (rows("plain", "samples", server), rows("plain", "events", server)) == (60, 1)
    assert lake.json("doctor", "--at", "s3://fleet/plain", env=env)["problems"] == []


def test_workers_read_object_storage_with_credentials_of_their_own(lake, tmp_path, server):
    for rank in range(3):
        Sink(tmp_path / f"runs/{rank}", f"session-{rank}", rank).sample(50)
    env = environment(server)
    at = ("--at", "s3://fleet/shared")
    lake("ingest", tmp_path / "runs", "--to", "s3://fleet/shared", env=env)
    question = "SELECT rank, count(*) AS samples, max(timestamp_ns) AS last FROM samples GROUP BY rank ORDER BY rank"
    alone = lake.json("sql", question, *at, env=env)
    assert [row["samples"] for row in alone] == [50, 50, 50]
    cluster = subprocess.Popen(
        [PROGRAM, "cluster", *at], env={**os.environ, **env}, stdout=subprocess.PIPE, text=True
    )
    try:
        addresses = cluster.stdout.readline().strip()
        engine = ("--engine", addresses, "--bytes-per-task", 1)
        assert lake.json("sql", question, *at, *engine, env=env) == alone
        plan = lake("sql", question, "--explain", *at, *engine, env=env).stdout
    finally:
        cluster.terminate()
        assert cluster.wait(timeout=60) == 0
    # The question was shared out, and its plan carries neither the place of the lake nor a key to it.
    assert "NetworkShuffleExec" in plan
    assert "s3" not in plan and "test-key" not in plan and SECRET not in plan


def test_a_network_that_fails_loses_and_doubles_nothing(lake, tmp_path, server):
    proxy = FlakyProxy(server, rate=0.1)
    sinks = [Sink(tmp_path / f"runs/{rank}", f"session-{rank}", rank) for rank in range(3)]
    env = environment(proxy.port)
    try:
        for _ in range(3):
            for sink in sinks:
                sink.sample(50)
                sink.note()
            # An ingest may fail, but must leave nothing wrong behind.
            done = subprocess.run(
                [PROGRAM, "ingest", tmp_path / "runs", "--to", "s3://fleet/flaky"],
                env={**os.environ, **env},
                capture_output=True,
                text=True,
                timeout=600,
            )
            assert SECRET not in done.stdout + done.stderr
        proxy.is_calm = True
        lake("ingest", tmp_path / "runs", "--to", "s3://fleet/flaky", env=env)
    finally:
        proxy.close()
    assert proxy.disturbed > 10
    assert rows("flaky", "samples", server) == sum(sink.samples for sink in sinks)
    assert rows("flaky", "events", server) == sum(sink.events for sink in sinks)
    assert (
        lake.json("doctor", "--at", "s3://fleet/flaky", env=environment(server))["problems"] == []
    )


def test_credentials_are_not_printed(lake, tmp_path, server):
    env = environment(server) | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    env |= {"AWS_MAX_RETRIES": "0"}
    failed = lake("doctor", "--at", "s3://fleet/none", "--json", env=env, code=1)
    assert SECRET not in failed.stdout + failed.stderr and "test-key" not in failed.stderr
    assert failed.stderr.startswith("error: ")
