//! Diagnoses the memory of a training run: what is wrong, since when, on which rank and with which
//! confidence. The diagnosis is empty when nothing is wrong.
//!
//! A [`Run`] is built from the recorded event columns. [`diagnose`] computes the evidence once and
//! runs all detectors on it. There is one [`Detector`] per [`Kind`], in a module with the name of
//! the kind; the module `kind` lists them. Every detector is a pure function `check` with three
//! answers: [`Answer::Clear`], [`Answer::Found`] and [`Answer::NotEnoughEvidence`]. No detector
//! opens a file, reads a clock or depends on the order of the tracks.
//!
//! The stages of a diagnosis:
//!
//! 1. `evidence::signals` puts the samples of each track in order and determines the end of the
//!    warm-up.
//! 2. `evidence::floor` finds the floor: the memory that is still held between steps.
//! 3. `growth` and `growth::jump` decide whether the floor grows or jumps.
//! 4. `evidence` compares the growth and the jumps of the ranks with one another.
//! 5. The detectors read the evidence. `finding::draft` turns what they find into findings, and
//!    `cause` names the line and the holder behind each finding.
//! 6. `diagnosis` collects the answers.
//!
//! ```
//! use stormlog_analysis::detect::{Options, Run, diagnose};
//!
//! let diagnosis = diagnose(&Run::default(), &Options::default());
//! assert!(diagnosis.headline().starts_with("Not enough data to judge"));
//! ```

// The detectors; `kind` lists them.
mod allocator_leak;
mod fragmentation;
mod hidden_drift;
mod host_leak;
mod oom_risk;
mod rank_first_cause;
mod rank_imbalance;
mod step_change;
mod transient_spike;

// Code that all detectors use, and the diagnosis that runs them.
mod answer;
mod cause;
mod detector;
mod diagnosis;
mod evidence;
mod finding;
mod growth;
mod kind;
mod options;
mod quantity;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::timeline::{Column, OomMark, PhaseSpan, Run, Track, run_of};
pub use answer::{Answer, NOT_ENOUGH_EVIDENCE};
pub use cause::{Cause, Failure, Held, Site, SiteRole};
pub use detector::{Detector, Judged};
pub use diagnosis::{Diagnosis, Headline, Outcome, PhasePeak, Scope, diagnose};
pub use evidence::levels::{
    Levels, MOST_PHASES, Measure, Metric, PhaseLevels, TrackLevels, Unit, levels_of,
};
pub use finding::{Finding, Kind, Level, Severity};
pub use options::Options;
pub use quantity::{Limit, Memory, Quantity, Samples, Trend};

/// Creates a finding about a track (the samples of one rank on one device), for tests of other
/// modules.
#[cfg(test)]
pub(crate) fn finding_of_track(kind: Kind, track: &Track) -> Finding {
    finding::draft::of_track(kind, Severity::Warning, track)
}
