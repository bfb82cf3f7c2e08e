//! Creates findings for detectors, and reduces the findings of single tracks to one per rank or one
//! for the whole run.

use super::{Finding, Kind, Severity};
use crate::detect::evidence::{Evidence, Subject};
use crate::timeline::Track;

/// A problem on at least this share of the ranks is reported once, for the whole run.
const ALL_RANKS_SHARE: f64 = 0.75;

/// Creates a finding with the fields that all kinds of findings share, about a problem that
/// continues to the end of the track; the detector fills in the rest.
pub(crate) fn finding(kind: Kind, severity: Severity, subject: &Subject) -> Finding {
    let signals = &subject.signals;
    Finding {
        end_ns: Some(signals.ns(signals.end)),
        may_go_on: subject.end.may_go_on(),
        ..of_track(kind, severity, signals.track)
    }
}

/// Creates a finding about a recorded track, for callers that have not computed its signals. Its
/// end is unknown.
pub(crate) fn of_track(kind: Kind, severity: Severity, track: &Track) -> Finding {
    Finding {
        kind,
        severity,
        rank: Some(track.rank),
        device_id: track.device_id,
        session_id: track.session_id.clone(),
        onset_ns: None,
        end_ns: None,
        magnitude_bytes: None,
        rate_bytes_per_s: None,
        time_to_full_s: None,
        confidence: 0.0,
        phase: None,
        evidence: Vec::new(),
        headline: String::new(),
        also: Vec::new(),
        size_words: String::new(),
        whose: String::new(),
        may_go_on: false,
        explanation: String::new(),
        advice: String::new(),
        cause: None,
    }
}

/// Adds the growth per step to the evidence of a finding, when steps were counted during the growth.
/// Returns the growth per step in bytes.
pub(crate) fn add_steps(finding: &mut Finding, grown: f64, steps: Option<f64>) -> Option<f64> {
    let steps = steps?;
    let per_step = grown / steps;
    finding
        .evidence
        .extend([("steps", steps), ("bytes_per_step", per_step)]);
    Some(per_step)
}

/// Rounds a number of bytes to the nearest whole number.
pub(crate) fn whole(bytes: f64) -> i64 {
    stormlog_format::whole(bytes.round())
}

/// The ranks that have samples in the evidence, in ascending order without repetition.
pub(crate) fn ranks(evidence: &Evidence) -> Vec<u32> {
    let mut ranks: Vec<u32> = evidence
        .subjects
        .iter()
        .map(|s| s.signals.track.rank)
        .collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// Whether a problem on `affected` of the `recorded` ranks is reported as a problem of the whole
/// run.
pub(crate) fn is_run_wide(affected: usize, recorded: usize) -> bool {
    let share = affected as f64 / recorded.max(1) as f64;
    recorded > 1 && affected > 1 && share >= ALL_RANKS_SHARE
}

/// Reduces findings to one per rank, or to one for the whole run when nearly all ranks are
/// affected.
///
/// A rank that restarted has several sessions. Only its earliest finding is kept, because the same
/// problem comes back after a restart.
pub(crate) fn per_rank_or_run(evidence: &Evidence, mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_by_key(|f| (f.rank, f.onset_ns, f.end_ns));
    found.dedup_by_key(|f| f.rank);
    let recorded = ranks(evidence).len();
    if !is_run_wide(found.len(), recorded) {
        return found;
    }
    for_run(found, recorded).into_iter().collect()
}

/// Replaces the findings of many ranks by one finding: that of the rank where the problem began
/// first. If the onsets are equal or unknown, the finding of the rank whose device will be full
/// first is used.
fn for_run(found: Vec<Finding>, recorded: usize) -> Option<Finding> {
    let affected = found.len();
    let highest_confidence = found.iter().map(|f| f.confidence).fold(0.0, f64::max);
    let urgency = |f: &Finding| f.time_to_full_s.unwrap_or(f64::INFINITY);
    let mut first = found.into_iter().min_by(|a, b| {
        a.onset_ns
            .cmp(&b.onset_ns)
            .then(urgency(a).total_cmp(&urgency(b)))
    })?;
    first.explanation = format!(
        "{explanation}; {affected} of {recorded} recorded ranks are affected, and the numbers \
         are those of rank {rank}",
        explanation = first.explanation,
        rank = first.rank.unwrap_or(0),
    );
    first.rank = None;
    first.confidence = highest_confidence;
    first.evidence.extend([
        ("ranks_affected", affected as f64),
        ("ranks_recorded", recorded as f64),
    ]);
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::sketch::{a_rank, run_of};

    fn found_on(evidence: &Evidence, ranks: &[u32]) -> Vec<Finding> {
        let of = |&rank: &u32| {
            let subject = evidence
                .subjects
                .iter()
                .find(|s| s.signals.track.rank == rank);
            let mut finding = finding(Kind::StepChange, Severity::Warning, subject.unwrap());
            finding.onset_ns = Some(1000 - i64::from(rank));
            finding
        };
        per_rank_or_run(evidence, ranks.iter().map(of).collect())
    }

    #[test]
    fn nearly_all_ranks_are_the_run() {
        let run = run_of((0..8).map(a_rank));
        let evidence = Evidence::of(&run);
        let all = found_on(&evidence, &[0, 1, 2, 3, 4, 5]);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].rank, all[0].onset_ns), (None, Some(995)));
        assert_eq!(found_on(&evidence, &[0, 1, 2]).len(), 3);
    }

    #[test]
    fn a_restarted_rank_is_reported_once() {
        let run = run_of([a_rank(0), a_rank(0), a_rank(1), a_rank(2)]);
        let evidence = Evidence::of(&run);
        assert_eq!(found_on(&evidence, &[0, 0]).len(), 1);
    }
}
