//! The extension module `stormlog._core`, which only converts values and has no logic of its own.
#![allow(
    clippy::needless_pass_by_value,
    reason = "PyO3 passes arguments by value"
)]

mod allocator_snapshot;
mod analyses;
mod any_events;
mod arrow;
mod convert;
mod device_profile;
mod diagnosis;
mod dict_entries;
mod distributed;
mod drawing;
mod driver;
mod errors;
mod events;
mod filters;
mod framework;
mod issues;
mod json_objects;
mod json_text;
mod labels;
mod load;
mod oom;
mod phase_stacks;
mod phases;
mod profile;
mod program;
mod projection;
mod query;
mod raised;
mod record_lines;
mod recorder;
mod records;
mod reports;
mod rollups;
mod rows;
mod services;
mod sessions;
mod sink;
mod sources;
mod torch_source;
mod wrap;

use pyo3::prelude::*;
use stormlog_capture::memory::WithReserve;

/// The allocator of the extension module; with it, a failed allocation of the recorder does not end
/// the program.
#[global_allocator]
static ALLOCATOR: WithReserve = WithReserve;

#[pymodule]
mod _core {
    use pyo3::prelude::*;
    use stormlog_analysis::issue;
    use stormlog_format::classify;

    /// Initializes the extension module; when the interpreter ends, the files unpacked from packs
    /// are deleted.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let close = wrap_pyfunction!(crate::load::close_packs, module)?;
        let atexit = module.py().import("atexit")?;
        atexit.call_method1("register", (close,))?;
        Ok(())
    }

    #[pymodule_export]
    use crate::{
        allocator_snapshot::{allocator_snapshot_page, allocator_snapshot_still},
        analyses::{
            attribute_collectives, check_collective_fields, check_collective_limits,
            collective_fields_in_order, collective_preset, compare_ranks, gap_findings,
            timeline_markers,
        },
        any_events::rows_from_events,
        device_profile::{device_profile_page, read_device_profile},
        diagnosis::{DiagnoseBundle, gpu_fragmentation},
        distributed::{distributed_model, gather_artifacts, parse_rank_filter},
        drawing::Drawing,
        driver::{
            device_shares, driver_answer, driver_held, driver_question, driver_start, driver_state,
            driver_stop, process_name, wait_for_contexts,
        },
        framework::{
            framework_efficiency, framework_fragmentation, framework_leaks, framework_patterns,
            framework_performance, framework_score, framework_suggestions,
        },
        labels::{
            alert_category, error_stem, event_backend, event_fields, event_severity,
            fingerprint_id, is_alert_event, is_collector_degradation_event, is_library_file,
            is_oom_event, issue_kind, issue_state, normalize_dimensions, normalize_text,
            session_fields,
        },
        load::{load_events, load_sessions, manifest_path, read_manifest, segment_paths},
        oom::{
            amend_oom_bundle, attach_history_to_oom_bundle, classify_oom, classify_oom_legacy,
            launcher_is_incomplete, machine_memory, nvml_gpus, process_sizes, prune_oom_bundles,
            requested_bytes, retry_delay_s, write_oom_bundle,
        },
        phase_stacks::PhaseStacks,
        phases::{PhaseReplay, attribute_phase, merge_phases, phase_boundary, phase_label},
        profile::{optimization_score, profile_insights, profile_patterns, profile_summary},
        program::{is_command, main},
        projection::{distinct, project},
        query::{QueriedEvents, QueryStore, is_run_envelope, read_run_envelope},
        raised::MemoryErrors,
        recorder::Recorder,
        records::{event_from_record, recorded_identity, resolve_identity, validate_record},
        reports::{analyze_runs, compare_runs, save_baseline},
        rollups::{
            read_rollups, rollup_path, rollups_from_mapping, session_rollups, write_rollups,
        },
        rows::{EventRows, rows_from_records},
        services::{sendable, sendable_document, sendable_text},
        sessions::{
            new_session_id, normalize_session_status, session_from_mapping, session_integer,
            session_order, session_span, stable_legacy_session_id,
        },
        sink::{
            Sink, after_fork_in_parent, before_fork, every_fork_is_announced, forget_after_fork,
        },
        torch_source::{StepHook, live_blocks, pool_sizes},
        wrap::{Around, InPhase},
    };

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const DEFAULT_THRESHOLDS: [(&str, f64); 4] =
        stormlog_capture::record::alerts::DEFAULT_THRESHOLDS;
    #[pymodule_export]
    const THINNING_BUDGET_BYTES: u64 = stormlog_capture::store::Thinning::DEFAULT.budget_bytes;
    #[pymodule_export]
    const ALERT_EVENT_TYPES: [&str; 3] = classify::ALERT_TYPES;
    #[pymodule_export]
    const COLLECTOR_TRANSITION_TYPES: [&str; 2] = issue::COLLECTOR_TRANSITION_TYPES;
    #[pymodule_export]
    const COLLECTOR_DEGRADED_STATUSES: [&str; 2] = issue::COLLECTOR_DEGRADED_STATUSES;
}
