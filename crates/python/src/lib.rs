//! The extension module `stormlog._core`: conversions only, no logic of its own.
#![allow(
    clippy::needless_pass_by_value,
    reason = "PyO3 hands arguments over by value"
)]

mod analyses;
mod any_events;
mod arrow;
mod convert;
mod drawing;
mod errors;
mod events;
mod json_objects;
mod labels;
mod load;
mod phases;
mod profile;
mod program;
mod projection;
mod records;
mod rows;
mod sessions;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use stormlog_format::classify;

    #[pymodule_export]
    use crate::analyses::{
        attribute_collectives, check_collective_fields, check_collective_limits,
        collective_fields_in_order, collective_preset, compare_ranks, gap_findings,
        timeline_markers,
    };
    #[pymodule_export]
    use crate::any_events::rows_from_events;
    #[pymodule_export]
    use crate::drawing::Drawing;
    #[pymodule_export]
    use crate::labels::{
        alert_category, error_stem, event_backend, event_fields, event_severity, fingerprint_id,
        is_alert_event, is_collector_degradation_event, is_oom_event, issue_kind, issue_state,
        normalize_dimensions, normalize_text, session_fields,
    };
    #[pymodule_export]
    use crate::load::{load_events, load_sessions, manifest_path, read_manifest, segment_paths};
    #[pymodule_export]
    use crate::phases::{PhaseReplay, attribute_phase, merge_phases, phase_boundary, phase_label};
    #[pymodule_export]
    use crate::profile::{optimization_score, profile_insights, profile_patterns, profile_summary};
    #[pymodule_export]
    use crate::program::main;
    #[pymodule_export]
    use crate::projection::{distinct, project};
    #[pymodule_export]
    use crate::records::{event_from_record, resolve_identity, validate_record};
    #[pymodule_export]
    use crate::rows::{EventRows, rows_from_records};
    #[pymodule_export]
    use crate::sessions::{
        new_session_id, normalize_session_status, session_from_mapping, session_integer,
        session_order, session_span, stable_legacy_session_id,
    };

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const ALERT_EVENT_TYPES: [&str; 3] = classify::ALERT_TYPES;
    #[pymodule_export]
    const COLLECTOR_TRANSITION_TYPES: [&str; 2] = classify::COLLECTOR_TRANSITION_TYPES;
    #[pymodule_export]
    const COLLECTOR_DEGRADED_STATUSES: [&str; 2] = classify::COLLECTOR_DEGRADED_STATUSES;
}
