//! Writes the line of each finding ([`Finding::headline`]), when all findings of a run are known.

use crate::detect::answer::Answer;
use crate::detect::cause::Cause;
use crate::detect::finding::{Finding, Kind, Severity};
use crate::timeline::Run;

pub(super) fn write(answers: &mut [(Kind, Answer)], run: &Run) {
    let has_ranks = run.has_several_ranks();
    let growths: Vec<Finding> = answers
        .iter()
        .flat_map(|(_, answer)| answer.findings())
        .filter(|one| one.kind.detector().is_growth && one.severity > Severity::Info)
        .cloned()
        .collect();
    for (_, answer) in answers {
        let Answer::Found(findings) = answer else {
            continue;
        };
        for finding in findings {
            let whose = whose(finding, has_ranks, run);
            finding.headline = match growths.iter().find(|growth| explains(growth, finding)) {
                Some(growth) => with_cause_of(growth, finding).line(&whose),
                None => finding.line(&whose),
            };
        }
    }
}

/// The rank or the memory that a finding is about, where its cause does not identify it.
fn whose(finding: &Finding, has_ranks: bool, run: &Run) -> String {
    if !finding.whose.is_empty() {
        return finding.whose.clone();
    }
    let cause = finding.cause.as_ref();
    let is_named = cause.is_some_and(|one| one.holder.is_some() || one.leading_place().is_some());
    match (has_ranks, finding.rank) {
        (true, Some(rank)) => format!("rank {rank}"),
        (true, None) => "all ranks".to_owned(),
        _ if is_named => String::new(),
        _ if finding.device_id >= 0 => format!("GPU {}", finding.device_id),
        _ => run.program.shown_name().unwrap_or_default().to_owned(),
    }
}

/// Whether the cause of growth is also the cause of an out-of-memory error whose own cause is
/// unknown.
fn explains(growth: &Finding, error: &Finding) -> bool {
    let names_holder = |one: &Finding| one.cause.as_ref().is_some_and(|one| one.holder.is_some());
    let place = |one: &Finding| one.cause.as_ref().and_then(Cause::leading_place);
    let holder = |one: &Finding| one.cause.as_ref().and_then(Cause::short_holder);
    let is_missing = !names_holder(error) || holder(growth) == holder(error);
    error.kind == Kind::OomRisk
        && error.rate_bytes_per_s.is_none()
        && error.severity == Severity::Critical
        && growth.rank == error.rank
        && growth.device_id == error.device_id
        && is_missing
        && (names_holder(growth) || place(growth).is_some())
}

fn with_cause_of(growth: &Finding, error: &Finding) -> Finding {
    let mut error = error.clone();
    error.cause.clone_from(&growth.cause);
    error
}
