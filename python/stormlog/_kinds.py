"""The kinds of issues. Written by a test of the crate stormlog, from its list of detectors."""

from typing import Literal

IssueKind = Literal[
    "oom",
    "collector_degradation",
    "alert",
    "hidden_memory_anomaly",
    "oom_risk",
    "allocator_leak",
    "hidden_drift",
    "host_leak",
    "fragmentation",
    "step_change",
    "transient_spike",
    "rank_first_cause",
    "rank_imbalance",
]
