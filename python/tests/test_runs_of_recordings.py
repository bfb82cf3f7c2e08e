"""``list_runs`` and ``analyze`` name the runs that the first events of the sessions name."""

from __future__ import annotations

from pathlib import Path

import stormlog
from stormlog import query

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
FOLDERS = ("recordings", "runs", "causes")


def recorded(store: query.QueryStore) -> dict[str, set[str]]:
    """The sessions of each run, by the run id in their start events."""
    runs: dict[str, set[str]] = {}
    for row in store.query_events(query.EventFilter(event_type="start")):
        metadata = row.event.metadata
        run_id = (metadata.get("run") or {}).get("id") or metadata.get("run_id")
        if run_id:
            runs.setdefault(run_id, set()).add(row.event.session_id)
    return runs


def test_python_names_the_recorded_runs() -> None:
    compared = 0
    entries = (entry for folder in FOLDERS for entry in (FIXTURES / folder).iterdir())
    for path in sorted(entry for entry in entries if entry.is_dir()):
        store = query.open([path])
        expected = recorded(store)
        sessions = set().union(*expected.values())
        listed = {row.run_id: set(row.sessions) for row in store.list_runs()}
        assert {key: ids for key, ids in listed.items() if ids & sessions} == expected, path
        if not expected:
            continue
        report = stormlog.analyze(path, skip_damaged=True)
        analyzed = {run.run_id: set(run.session_ids) for run in report.runs}
        assert {key: ids for key, ids in analyzed.items() if ids & sessions} == expected, path
        for run_id in expected:
            (run,) = store.list_runs(query.RunFilter(run_id=run_id))
            attachments = store.list_run_attachments(query.RunAttachmentFilter(run_id=run_id))
            assert run.attachment_count == len(attachments) > 0, path
        compared += len(expected)
    assert compared >= 80
