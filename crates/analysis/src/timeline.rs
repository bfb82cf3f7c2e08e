//! The tracks of one run, and which sessions form a run. For detectors and reports, this module
//! defines what counts as a sample, a sampling gap, hidden memory, a step, a phase and an
//! out-of-memory error, how clocks are aligned, how large a device is, and how a run ended.
//!
//! A run has processes, a process has resources (its host memory and each device it uses), and a
//! resource has a track. This module does not decide whether memory use is a problem; the detectors
//! do. Only its function [`read_oom_bundles`] opens files.

pub(crate) mod clocks;
mod coverage;
mod end;
mod group;
mod host_inspection;
mod keeping;
mod ledger;
mod oom_bundles;
mod oom_cause;
mod process;
mod read;
mod run;
mod sampling;
mod start;
mod steps;
mod time_zero;
mod track;
mod windows;

pub use coverage::{RankCoverage, ResourceCoverage};
pub use end::{End, RankEnd};
pub use group::{
    Member, newest_first, run_among, run_with_id, runs, runs_newest_first, runs_of_summaries,
};
pub use host_inspection::{HostHolder, HostInspection};
pub use keeping::{Keeping, KeepingRole};
pub use ledger::{Ledger, LedgerEntry, Owner};
pub use oom_bundles::{BundleNumbers, fill_oom_marks, read_oom_bundles};
pub use oom_cause::{Failure, Held, category_words};
pub use process::{Process, Role};
pub use read::run_of;
pub use run::{CrowdedDevices, Program, Run};
pub use sampling::Sampling;
pub(crate) use start::{Start, program_name};
pub use start::{id_of_run, run_id_of, run_id_of_start};
pub use steps::Step;
pub use time_zero::TimeZero;
pub use track::{
    AllocatorSettings, Column, DeviceMemory, Framework, OomMark, Peaks, PhaseSpan, RecordedBy,
    Resource, Track,
};
pub use windows::{EvidenceWindow, Site, WindowEvidence, WindowHolder};

pub(crate) use end::is_over;
pub use group::of_devices;
pub(crate) use group::{GroupedBy, group};
pub(crate) use track::{devices_or_all, float};
