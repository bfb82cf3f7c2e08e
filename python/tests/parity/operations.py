"""What a case does: one function per operation, in terms of the public package."""

from __future__ import annotations

import importlib
import shutil
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

OPERATIONS = {}


def operation(function: Any) -> Any:
    OPERATIONS[function.__name__] = function
    return function


def module(name: str) -> Any:
    return importlib.import_module(f"stormlog.{name}")


def attributes(value: Any) -> dict[str, Any]:
    """A dataclass's fields, without what this package adds to stormlog 0.3.9's."""
    return {name: item for name, item in vars(value).items() if name != "damage"}


@operation
def validate(record: Any) -> Any:
    return module("telemetry").validate_telemetry_record(record)


@operation
def from_record(record: Any, options: Any) -> Any:
    event = module("telemetry").telemetry_event_from_record(record, **options)
    return type(event).__name__, module("telemetry").telemetry_event_to_dict(event)


def event_class(version: int) -> Any:
    telemetry = module("telemetry")
    return telemetry.TelemetryEventV2 if version == 2 else telemetry.TelemetryEventV3


@operation
def construct(version: int, values: Any) -> Any:
    return attributes(event_class(version)(**values))


@operation
def round_trip(version: int, values: Any) -> Any:
    telemetry = module("telemetry")
    record = telemetry.telemetry_event_to_dict(event_class(version)(**values))
    return list(record), telemetry.telemetry_event_to_dict(
        telemetry.telemetry_event_from_record(record)
    )


@operation
def identity(options: Any) -> Any:
    return list(module("telemetry").resolve_distributed_identity(**options).items())


@operation
def summary_from_dict(payload: Any) -> Any:
    session = module("session")
    summary = session.session_summary_from_dict(payload)
    return attributes(summary), list(session.session_summary_to_dict(summary).items())


@operation
def create_summary(options: Any) -> Any:
    made = attributes(module("session").create_session_summary(**options))
    generated = [key for key in ("session_id", "host") if not options.get(key)]
    generated += [key for key in ("started_at_ns", "pid") if options.get(key) is None]
    return {key: "generated" if key in generated else value for key, value in made.items()}


def summary_of(fields: Any) -> Any:
    return module("session").SessionSummary(**fields)


@operation
def update_summary(fields: Any, options: Any) -> Any:
    return attributes(module("session").update_session_summary(summary_of(fields), **options))


@operation
def finalize_summary(fields: Any, options: Any) -> Any:
    return attributes(module("session").finalize_session_summary(summary_of(fields), **options))


@operation
def infer_summary(options: Any, events: Any) -> Any:
    rows = iter([SimpleNamespace(**event) for event in events])
    return attributes(module("session").infer_session_summary_from_events(events=rows, **options))


@operation
def sort_summaries(rows: Any, _: Any) -> Any:
    ordered = module("session").sort_session_summaries(iter([summary_of(row) for row in rows]))
    return [attributes(item) for item in ordered]


@operation
def select_session(rows: Any, _: Any) -> Any:
    chosen = module("session").select_default_session(iter([summary_of(row) for row in rows]))
    return None if chosen is None else attributes(chosen)


@operation
def select_loaded(rows: Any, counts: Any) -> Any:
    loaded = [
        SimpleNamespace(summary=summary_of(row), events=[0] * count)
        for row, count in zip(rows, counts)
    ]
    chosen = module("session").select_default_loaded_session(iter(loaded))
    return None if chosen is None else attributes(chosen.summary)


@operation
def session_status(value: Any) -> Any:
    return module("session").normalize_session_status(value)


@operation
def legacy_session_id(parts: Any) -> Any:
    return module("session").stable_legacy_session_id(*parts)


@operation
def project_mapping(record: Any, options: Any) -> Any:
    return attributes(module("telemetry_model").project_telemetry_mapping(record, **options))


@operation
def project_to_dict(record: Any, options: Any) -> Any:
    model = module("telemetry_model")
    return model.projected_record_to_dict(model.project_telemetry_mapping(record, **options))


@operation
def project_event(record: Any) -> Any:
    return attributes(module("telemetry").project_telemetry_event(record))


@operation
def unique_views(rows: Any) -> Any:
    model = module("telemetry_model")
    records = [model.project_telemetry_mapping(row) for row in rows]
    return (
        model.unique_projected_resources(iter(records)),
        model.unique_projected_correlations(iter(records)),
    )


@operation
def classify(event_type: Any, metadata: Any) -> Any:
    api = module("telemetry_classification")
    event = SimpleNamespace(event_type=event_type, metadata=metadata)
    return [
        api.is_alert_event(event),
        api.event_severity(event),
        api.is_oom_event(event),
        api.is_collector_degradation_event(event),
        api.event_backend(event),
    ]


@operation
def derived_event(event: Any) -> Any:
    return list(module("derived_fields").compute_event_fields(event).items())


@operation
def derived_object(event: Any) -> Any:
    return module("derived_fields").compute_event_fields(SimpleNamespace(**event))


@operation
def derived_session(events: Any) -> Any:
    return list(module("derived_fields").compute_session_fields(events).items())


@operation
def enrich(event: Any) -> Any:
    return list(module("derived_fields").enrich_event(event).items())


@operation
def dimensions(given: Any) -> Any:
    issues = module("issues")
    return [
        list(issues.normalize_dimensions(given).items()),
        list(issues.freeze_dimensions(given).items()),
        list(issues.json_safe_dimensions(given).items()),
    ]


@operation
def fingerprint(options: Any) -> Any:
    made = module("issues").IssueFingerprint(**options)
    return made.fingerprint_id, attributes(made), made.as_dict()


@operation
def text_dimension(value: Any) -> Any:
    normalize = module("issues").normalize_text_dimension
    return normalize(value), normalize(value, default="D")


@operation
def alert_category(value: Any) -> Any:
    return module("issues").categorize_alert_context(value)


@operation
def error_stem(value: Any) -> Any:
    return module("issues").normalized_error_stem(value)


@operation
def issue_state(value: Any) -> Any:
    return module("issues").normalize_issue_state(value)


@operation
def issue(fingerprint: Any, link: Any, options: Any) -> Any:
    issues = module("issues")
    evidence = issues.IssueEvidenceLink(**link)
    made = issues.StormlogIssue(
        fingerprint=issues.IssueFingerprint(**fingerprint),
        representative_evidence=evidence,
        evidence=[evidence],
        **options,
    )
    return list(made.as_dict().items()), made.kind, made.affected_sessions


@operation
def format_bytes(value: Any, precision: int) -> Any:
    return module("utils").format_bytes(value, precision)


@operation
def convert_bytes(value: Any, source: Any, target: Any) -> Any:
    return module("utils").convert_bytes(value, source, target)


@operation
def load(root: str, files: Any, path: str, options: Any, session: Any) -> Any:
    shutil.rmtree(root, ignore_errors=True)
    for name, content in files.items():
        file = Path(root, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    telemetry = module("telemetry")
    target = f"{root}/{path}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sessions = telemetry.load_telemetry_sessions(target, **options)
        try:
            chosen = telemetry.load_telemetry_events(target, session_id=session, **options)
            chosen = [telemetry.telemetry_event_to_dict(event) for event in chosen]
        except ValueError as error:
            chosen = str(error)
    return chosen, [
        (
            attributes(item.summary),
            [telemetry.telemetry_event_to_dict(event) for event in item.events],
            item.sources_loaded,
            item.warnings,
        )
        for item in sessions
    ]
