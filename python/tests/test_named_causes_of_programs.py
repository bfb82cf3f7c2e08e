"""Causes in recordings of real programs: the line that allocates and what holds the memory.

The recordings are those of fixtures/causes. The programs of this repository are in
benches/programs/untuned: ``c_`` is clean, ``f_`` has a fault, and a comment marks its line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stormlog import analyze

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "fixtures" / "causes"
PROGRAMS = [ROOT / "benches" / "programs" / "untuned" / name for name in ("second", "third")]

# The kind, the file and line, and the holder that the finding names. None: not named.
EXPECTED: dict[str, tuple[str, str | None, str | None]] = {
    "outputs_list": ("allocator_leak", "outputs_list.py:8", "`preds` in `__main__`"),
    "kv_cache": ("allocator_leak", "net.py:22", "`sessions` in `__main__`"),
    "rank_leak": ("allocator_leak", "net.py:37", "`kept` in `__main__`"),
    "host_leak": ("host_leak", "host_leak.py:9", "`log` in `__main__`"),
    "leak_to_oom": ("oom_risk", "net.py:67", "the autograd graphs of 62 tensors in `aux`"),
    "native_malloc": ("hidden_drift", None, None),
    "f_lru_cache": ("allocator_leak", "f_lru_cache.py:7", "the `lru_cache` of `position_bias`"),
    "f_exceptions_kept": ("allocator_leak", "f_exceptions_kept.py:5", "exceptions in `errors`"),
    "f_class_attribute": ("allocator_leak", "f_class_attribute.py:8", "`Trainer.seen`"),
    "f_logger_queue": ("allocator_leak", "f_logger_queue.py:12", "`q.queue` in `__main__`"),
    "f_forward_hook": ("allocator_leak", "f_forward_hook.py:5", "`rec.activations`"),
    "f_closure_callbacks": ("allocator_leak", "f_closure_callbacks.py:8", "`bus.callbacks`"),
    "f_late_eval_cache": ("allocator_leak", "f_late_eval_cache.py:6", None),
    "f_host_history": ("host_leak", "f_host_history.py:7", "`t.logits` in `__main__`"),
    "f_host_loader_worker": ("host_leak", "f_host_loader_worker.py:9", "`self.cache`"),
    "f_oom_long_sequence": ("oom_risk", "net.py:25", "the autograd graph of local `x`"),
    # Rare: two windows show its line.
    "f_hooks_pile_up": ("allocator_leak", "f_hooks_pile_up.py:5", None),
    # It leaked in one window before the program ended, which is not enough for a name.
    "f_old_optimizers": ("allocator_leak", None, None),
    "f_driver_surfaces": ("hidden_drift", None, None),
    "f_fragmented_bank": ("oom_risk", "f_fragmented_bank.py:35", "`bank` in `__main__`"),
    "f_kv_cache_shared": ("allocator_leak", None, None),
    "f_metric_never_reset": ("allocator_leak", "f_metric_never_reset.py:22", "`auroc.target`"),
    "f_oom_broadcast_loss": ("oom_risk", "f_oom_broadcast_loss.py:14", None),
    "f_param_groups_grow": (
        "allocator_leak",
        "f_param_groups_grow.py:13",
        "`optimizer.param_groups`",
    ),
    "f_stash_without_backward": ("allocator_leak", "f_stash_without_backward.py:15", "`stash`"),
    "f_view_keeps_batch": ("allocator_leak", "f_view_keeps_batch.py:14", "`hard` in `__main__`"),
    # The search for the holder had no time left, and the graphs were allocated by many lines.
    "traceback_holds_batch": ("allocator_leak", None, None),
}
# Loops without steps whose memory grows from the beginning: a leak, or data that is being loaded.
NOTED: dict[str, tuple[str, str | None]] = {
    "f_gc_off_cycles": ("allocator_leak", None),
    "f_host_prefetch_unbounded": ("host_leak", "`frames.queue` in `__main__`"),
    "f_slow_session_buffers": ("allocator_leak", "`model` in `__main__`"),
    "f_streams_abandoned": ("allocator_leak", None),
    "f_workspace_per_thread": ("allocator_leak", "`workspaces` in `__main__`"),
}
CLEAN = sorted(
    {path.name for path in RECORDINGS.iterdir()} - set(EXPECTED) - set(NOTED) - {"README.md"}
)


def findings(name: str) -> list[dict[str, Any]]:
    document: Any = analyze(RECORDINGS / name).document
    found: list[dict[str, Any]] = document["findings"]
    return [one for one in found if one["severity"] != "info"]


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_program_is_silent(name: str) -> None:
    assert [one["explanation"] for one in findings(name)] == []


@pytest.mark.parametrize("name", EXPECTED)
def test_the_cause_is_named(name: str) -> None:
    kind, line, holder = EXPECTED[name]
    first = findings(name)[0]
    assert first["kind"] == kind, first["explanation"]
    cause = first["cause"]
    if line is None and holder is None:
        assert cause is None
        return
    site = cause["site"]
    assert f"{Path(site['file']).name}:{site['line']}" == line
    assert line in first["explanation"]
    if holder is None:
        assert cause["holder"] is None
    elif kind == "oom_risk":
        assert holder in first["explanation"]
    else:
        assert holder in cause["holder"]


# Programs whose allocating line also makes the memory stay, as its text in the recording shows.
KEEPING = (
    "outputs_list",
    "f_class_attribute",
    "f_forward_hook",
    "f_logger_queue",
    "f_stash_without_backward",
)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_line_that_keeps_leads(name: str) -> None:
    cause = findings(name)[0]["cause"]
    if name in KEEPING:
        assert cause["site_role"] == "adds_items"
        assert cause["allocated_at"] == cause["site"]
    elif cause is not None:
        # Recordings of versions up to 0.5.0 have no line of other holders of device memory.
        is_host = findings(name)[0]["kind"] == "host_leak"
        assert cause["site_role"] in (("adds_items",) if is_host else ("allocates", "fails"))
        assert cause["allocated_at"] is None


@pytest.mark.parametrize("name", EXPECTED)
def test_no_advice_compares_snapshots(name: str) -> None:
    for finding in findings(name):
        assert "snapshot" not in finding["advice"]


@pytest.mark.parametrize("name", NOTED)
def test_growth_that_may_be_a_load_is_a_note(name: str) -> None:
    kind, holder = NOTED[name]
    assert findings(name) == []
    document: Any = analyze(RECORDINGS / name).document
    (note,) = (one for one in document["findings"] if one["kind"] == kind)
    assert (note["cause"] or {}).get("holder") == holder


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.startswith("f_")])
def test_the_named_line_is_the_marked_one(name: str) -> None:
    _, line, _ = EXPECTED[name]
    if line is None or not line.startswith(name):
        return
    (program,) = (folder / f"{name}.py" for folder in PROGRAMS if (folder / f"{name}.py").exists())
    source = program.read_text().splitlines()
    assert "# CULPRIT" in source[int(line.split(":")[1]) - 1]


def test_there_are_recordings_of_both_kinds() -> None:
    assert len(CLEAN) >= 24 and len(EXPECTED) >= 27
