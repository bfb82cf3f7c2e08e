//! Diagnoses the memory of a training run: what is wrong, since when, on which rank and with which
//! confidence. The diagnosis is empty when nothing is wrong.
//!
//! A [`Run`] is built from the recorded event columns. [`diagnose`] computes the [`Evidence`] once
//! and runs nine detectors on it, one module each. Every detector is a pure function with three
//! verdicts: [`Verdict::Clear`], [`Verdict::Found`] and [`Verdict::TooShort`]. No detector opens a
//! file, reads a clock or depends on the order of the tracks.
//!
//! Data flow: `run` -> `signals` (samples in order, with the end of the warm-up determined) ->
//! `floor` (memory held between steps) -> `trend`, `growth`, `jump` (how the floor changes; `shift`
//! checks a jump against single samples) -> `evidence` (compares the ranks) -> the detectors ->
//! `draft`.
//!
//! ```
//! use stormlog_analysis::detect::{Options, Run, Verdict, diagnose};
//!
//! let diagnosis = diagnose(&Run::default(), &Options::default());
//! assert!(diagnosis.headline().starts_with("Not enough data to judge"));
//! ```

mod cause;
mod diagnosis;
mod evidence;
mod finding;
mod growth;
mod options;

#[cfg(test)]
pub(crate) mod tests;

pub mod allocator_leak;
pub mod fragmentation;
pub mod hidden_drift;
mod host_leak;
pub mod oom_risk;
pub mod rank_first_cause;
pub mod rank_imbalance;
pub mod step_change;
pub mod transient_spike;

pub use crate::timeline::{Column, OomMark, PhaseSpan, Run, Track, run_of};
pub use cause::{Cause, Failure, Held, Site};
pub use diagnosis::{Diagnosis, Note, Scope, diagnose};
pub use evidence::Evidence;
pub use evidence::levels::{
    Levels, MOST_PHASES, Measure, Metric, PhaseLevels, TrackLevels, Unit, levels_of,
};
pub use finding::{Finding, Kind, Severity, Verdict};
pub use options::Options;

/// Creates a finding about a track, for tests of other modules.
#[cfg(test)]
pub(crate) fn finding_of_track(kind: Kind, track: &Track) -> Finding {
    finding::draft::of_track(kind, Severity::Warning, track)
}
