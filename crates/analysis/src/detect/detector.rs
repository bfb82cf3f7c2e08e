//! What is known of a detector besides its findings, and what a detector is given to judge.

use serde::Serialize;

use super::answer::Answer;
use super::evidence::Evidence;
use super::finding::Kind;
use super::host_leak::HostEvidence;
use super::options::Options;
use crate::timeline::{Run, Track};

/// A detector: what its findings are called, what they are about, and the function that finds them.
#[derive(Debug, Serialize)]
pub struct Detector {
    /// The kind of its findings.
    pub kind: Kind,
    /// The title of its issues.
    pub title: &'static str,
    /// What a finding is called at the beginning of its line, after its level: `LIKELY LEAK`.
    pub noun: &'static str,
    /// The label of its marks in pictures, in a few words.
    pub label: &'static str,
    /// The memory that it judges.
    pub resource: Judged,
    /// Whether it looks for memory that keeps growing.
    pub is_growth: bool,
    /// Whether pictures show when its problems ended. A leak lasts to the end of the run, so a band
    /// over the rest of the plot would add no information.
    pub draws_end: bool,
    /// The kind under which versions up to 0.4.0 reported its findings, if it was another one.
    pub formerly: Option<Kind>,
    /// Judges a run. The function is pure: it uses no file, no clock and no terminal.
    #[serde(skip)]
    pub(super) check: fn(&Context<'_>) -> Answer,
}

/// The memory that a detector judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// Devices, and the processes that a tracker recorded.
    Device,
    /// The host memory that `stormlog run` recorded.
    Host,
    /// Both.
    Both,
}

stormlog_format::names!(Judged {
    Device => "device",
    Host => "host",
    Both => "both",
});

/// What the detectors judge: the evidence of a run.
pub(super) struct Context<'a> {
    run: &'a Run,
    /// Devices and the processes that a tracker recorded, if there are any. They are judged
    /// separately, because ranks are comparable only on the same kind of resource.
    groups: Vec<Evidence<'a>>,
    host: HostEvidence<'a>,
    pub(super) options: &'a Options,
}

impl<'a> Context<'a> {
    pub(super) fn of(run: &'a Run, options: &'a Options) -> Self {
        let judged = run.tracks.iter().filter(|track| !track.is_host_of_run());
        let (hosts, devices): (Vec<&Track>, Vec<&Track>) =
            judged.partition(|track| track.is_host());
        let groups = [devices, hosts].into_iter();
        Self {
            run,
            groups: groups
                .filter(|tracks| !tracks.is_empty())
                .map(|tracks| Evidence::of_tracks(run, &tracks))
                .collect(),
            host: HostEvidence::of(run),
            options,
        }
    }

    /// The answer of `check` about devices and the processes that a tracker recorded.
    pub(super) fn of_tracks(&self, check: impl Fn(&Evidence<'_>) -> Answer) -> Answer {
        let answers = self.groups.iter().map(check);
        answers.fold(Answer::NotEnoughEvidence, Answer::and)
    }

    /// The answer of `check` about the host memory that `stormlog run` recorded.
    pub(super) fn of_host(&self, check: impl Fn(&Run, &HostEvidence<'_>) -> Answer) -> Answer {
        match check(self.run, &self.host) {
            Answer::Clear if !self.host.is_recorded() => Answer::NotEnoughEvidence,
            answer => answer,
        }
    }
}
