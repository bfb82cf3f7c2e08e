//! The tracks of one run: one definition of sample, hidden memory, step, phase, out-of-memory mark
//! and end, read by the detectors and by what presents them.
//!
//! A run has processes, a process has resources (its host memory, each device that it uses) and a
//! resource has a track. Nothing here judges; nothing opens a file except [`read_oom_bundles`].

mod end;
mod oom_bundles;
mod oom_cause;
mod process;
mod read;
mod run;
mod sample;
mod track;
mod windows;

pub use end::{End, RankEnd};
pub use oom_bundles::read_oom_bundles;
pub use oom_cause::{Failure, Held};
pub use process::{Process, Role};
pub(crate) use read::program_name;
pub use read::{run_id_of, run_of};
pub use run::{Program, Run};
pub use track::{Column, OomMark, PhaseSpan, Recorder, Resource, Track};
pub use windows::{EvidenceWindow, Site, WindowEvidence};

pub(crate) use end::is_over;
pub(crate) use track::float;
