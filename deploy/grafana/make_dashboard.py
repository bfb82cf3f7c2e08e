#!/usr/bin/env python3
"""Makes stormlog.json, the Grafana dashboard, with grafana-foundation-sdk (from PyPI).

python deploy/grafana/make_dashboard.py           writes stormlog.json beside this file
python deploy/grafana/make_dashboard.py --print   prints it
"""

from __future__ import annotations

import sys
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DatasourceVariable,
    QueryVariable,
    Row,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.timeseries import Panel
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh, VariableSort

SOURCE = DataSourceRef(type_val="prometheus", uid="$datasource")
HOSTS = 'host=~"$host"'

# Rows of panels: title, unit, what it shows, and its queries with their legends.
ROWS = [
    (
        "Devices",
        [
            ("Device memory", "bytes", "In use by all processes, and the size of the device.",
             [(f"stormlog_device_memory_used_bytes{{{HOSTS}}}", "{{host}} GPU {{gpu}} used"),
              (f"stormlog_device_memory_total_bytes{{{HOSTS}}}", "{{host}} GPU {{gpu}} total")]),
            ("Share of device memory in use", "percentunit", "1 is full.",
             [(f"stormlog_device_memory_used_bytes{{{HOSTS}}}"
               f" / stormlog_device_memory_total_bytes{{{HOSTS}}}", "{{host}} GPU {{gpu}}")]),
            ("Device memory by process", "bytes", "The ten largest.",
             [(f"topk(10, stormlog_process_device_memory_used_bytes{{{HOSTS}}})",
               "{{host}} GPU {{gpu}} pid {{pid}}")]),
            ("Allocator", "bytes", "Live tensors, and what the framework's allocator holds.",
             [(f"stormlog_allocator_allocated_bytes{{{HOSTS}}}", "rank {{rank}} allocated"),
              (f"stormlog_allocator_reserved_bytes{{{HOSTS}}}", "rank {{rank}} reserved")]),
        ],
    ),
    (
        "Host memory",
        [
            ("Host memory of programs", "bytes", "What the kernel cannot reclaim, and the limit.",
             [(f"stormlog_host_memory_used_bytes{{{HOSTS}}}", "{{host}} rank {{rank}} used"),
              (f"stormlog_host_memory_limit_bytes{{{HOSTS}}}", "{{host}} rank {{rank}} limit")]),
            ("Host memory by process", "bytes", "Anonymous memory of the ten largest.",
             [(f"topk(10, stormlog_process_host_memory_anonymous_bytes{{{HOSTS}}})",
               "{{host}} pid {{pid}}")]),
        ],
    ),
    (
        "Progress and problems",
        [
            ("Steps per second", "short", "Ends of optimizer.step.",
             [(f"rate(stormlog_steps_total{{{HOSTS}}}[$__rate_interval])", "rank {{rank}}")]),
            ("Findings", "short", "Problems that the detectors find in the run so far.",
             [("sum by (kind, severity) (stormlog_findings)", "{{kind}} ({{severity}})")]),
            ("Events recorded per second", "short", "A gap means that a recorder stalled.",
             [(f"rate(stormlog_recorded_events_total{{{HOSTS}}}[$__rate_interval])",
               "{{host}} rank {{rank}}")]),
            ("Lost", "short", "Events not stored, alerts and metrics not delivered, series left out.",
             [(f"stormlog_dropped_events_total{{{HOSTS}}}", "{{host}} rank {{rank}} events"),
              ("stormlog_deliveries_dropped_total", "to {{to}}"),
              ("stormlog_series_left_out", "series")]),
        ],
    ),
]  # fmt: skip


def dashboard() -> Dashboard:
    """The whole dashboard."""
    board = (
        Dashboard("Stormlog")
        .uid("stormlog")
        .description("Memory of accelerators and hosts, as Stormlog records it.")
        .tags(["gpu", "memory", "stormlog"])
        .refresh("30s")
        .time("now-1h", "now")
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(
            QueryVariable("host")
            .label("Host")
            .datasource(SOURCE)
            .query("label_values(stormlog_last_sample_timestamp_seconds, host)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(VariableSort.ALPHABETICAL_ASC)
            .multi(True)
            .include_all(True)
        )
    )
    for row, panels in ROWS:
        board = board.with_row(Row(row))
        for title, unit, description, queries in panels:
            panel = Panel().title(title).description(description).unit(unit).min(0)
            panel = panel.datasource(SOURCE).span(12).height(8)
            for number, (expression, legend) in enumerate(queries):
                query = Dataquery().expr(expression).legend_format(legend)
                panel = panel.with_target(query.ref_id("ABC"[number]))
            board = board.with_panel(panel)
    return board


def main() -> None:
    text = JSONEncoder(sort_keys=True, indent=2).encode(dashboard().build()) + "\n"
    if "--print" in sys.argv:
        sys.stdout.write(text)
    else:
        Path(__file__).with_name("stormlog.json").write_text(text)


if __name__ == "__main__":
    main()
