//! Makes the memory timeline of several ranks, with the title and the marks of stormlog 0.3.9.

use stormlog_analysis::detect::Severity;
use stormlog_analysis::{Events, LoadedSession};
use stormlog_report::{Mark, MarkKind, Story, clean};

use crate::cross_rank;

/// The timeline of several ranks, with two marks from stormlog 0.3.9's cross-rank analysis: the
/// rank whose memory probably rose first (the suspect), and the time at which the memory of a
/// second rank rose (the onset).
pub fn story_of_ranks(events: &Events) -> Story {
    let cross = cross_rank::merge(events);
    let cause = cross.first_cause(None);
    let mut story = Story::of_sessions(&[&LoadedSession::of_events(events)]);
    let suspect = cause.suspects.first();
    story.add_marks(suspect.map(|suspect| Mark {
        time_ns: suspect.first_spike_timestamp_ns,
        end_ns: None,
        rank: Some(suspect.rank),
        severity: Severity::Critical,
        label: "first cause".into(),
        detail: None,
        kind: MarkKind::Suspect,
        on_host: false,
    }));
    story.add_marks(cause.cluster_onset_timestamp_ns.map(|onset| Mark {
        time_ns: onset,
        end_ns: None,
        rank: None,
        severity: Severity::Info,
        label: "cluster onset".into(),
        detail: None,
        kind: MarkKind::Onset,
        on_host: false,
    }));
    let job = cross.job_id.as_ref();
    let job = job.map(|job| format!(" ({})", job.to_str_lossy()));
    let top = suspect.map(|suspect| format!(" - top suspect rank {}", suspect.rank));
    story.title = Some(clean(&format!(
        "Cross-Rank Memory Timeline{}{}",
        job.unwrap_or_default(),
        top.unwrap_or_default()
    )));
    story
}
