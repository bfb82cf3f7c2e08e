//! Detects growth of host memory that accompanies a leak of device memory. Tensors that are kept
//! alive also have Python objects and autograd nodes in host memory, so without this check one
//! fault would be reported twice.

use crate::detect::answer::Answer;
use crate::detect::cause::{Cause, SiteRole};
use crate::detect::finding::{Finding, Kind, Severity};
use crate::timeline::float;

/// Host memory that grows at less than this share of the device leak's rate is attributed to the
/// device leak. In recordings, the host objects of a kept autograd graph took 9 % of the graph's
/// device memory.
const MOST: f64 = 0.25;
/// The least share of the growth that a holder must hold to be named as its cause.
const MOST_OF_GROWTH: f64 = 0.8;

/// Lowers a host leak to a note when a device leak of the same rank explains it.
pub(super) fn demote(answers: &mut [(Kind, Answer)]) {
    let leaks: Vec<(Option<u32>, f64)> = answers
        .iter()
        .flat_map(|(_, answer)| answer.findings())
        .filter(|one| one.kind == Kind::AllocatorLeak && one.severity > Severity::Info)
        .filter_map(|one| Some((one.rank, one.rate_bytes_per_s?)))
        .collect();
    for (_, answer) in answers {
        let Answer::Found(found) = answer else {
            continue;
        };
        for finding in found.iter_mut().filter(|one| is_companion(one, &leaks)) {
            finding.severity = Severity::Info;
            finding
                .explanation
                .push_str("; this host memory grows together with the leak of device memory");
        }
    }
}

/// The holder that had most of the memory when memory ran out is also the holder of the growth that
/// led there, when it held as much as had grown and growth has no cause of its own.
pub(super) fn share_holder(answers: &mut [(Kind, Answer)]) {
    let errors: Vec<Finding> = answers
        .iter()
        .flat_map(|(_, answer)| answer.findings())
        .filter(|one| one.kind == Kind::OomRisk && one.severity == Severity::Critical)
        .cloned()
        .collect();
    for (_, answer) in answers {
        let Answer::Found(found) = answer else {
            continue;
        };
        let is_unnamed = |one: &&mut Finding| one.kind.detector().is_growth && one.cause.is_none();
        for growth in found.iter_mut().filter(is_unnamed) {
            let mut same = errors
                .iter()
                .filter(|error| error.rank == growth.rank && error.device_id == growth.device_id);
            growth.cause = same.find_map(|error| holder_of_growth(error, growth.magnitude_bytes?));
        }
    }
}

fn holder_of_growth(error: &Finding, grown: i64) -> Option<Cause> {
    let cause = error.cause.as_ref()?;
    let (holder, failure) = (cause.holder.as_ref()?, cause.failure.as_ref()?);
    let own = failure.holders.iter().filter(|one| one.holder == *holder);
    let held = own.fold(0_i64, |sum, one| sum.saturating_add(one.bytes));
    let is_most = float(held) >= MOST_OF_GROWTH * float(grown);
    is_most.then(|| Cause {
        site: cause
            .site
            .clone()
            .filter(|_| cause.site_role != SiteRole::Fails),
        site_role: match cause.site_role {
            SiteRole::Fails => SiteRole::Allocates,
            role => role,
        },
        allocated_at: None,
        call_path: Vec::new(),
        holder: Some(holder.clone()),
        attributed_bytes: held.min(grown),
        share: (float(held) / float(grown.max(1))).min(1.0),
        failure: None,
    })
}

fn is_companion(finding: &Finding, leaks: &[(Option<u32>, f64)]) -> bool {
    finding.kind == Kind::HostLeak
        && finding.severity == Severity::Warning
        && finding.cause.is_none()
        && finding.rate_bytes_per_s.is_some_and(|rate| {
            let mut same = leaks.iter().filter(|(rank, _)| *rank == finding.rank);
            same.any(|(_, device)| rate < MOST * device)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kind: Kind, rank: u32, rate: f64) -> (Kind, Answer) {
        let track = crate::timeline::Track::default();
        let mut finding = crate::detect::finding_of_track(kind, &track);
        finding.severity = Severity::Warning;
        finding.rank = Some(rank);
        finding.rate_bytes_per_s = Some(rate);
        (kind, Answer::Found(vec![finding]))
    }

    fn severity_of_host(mut answers: Vec<(Kind, Answer)>) -> Severity {
        demote(&mut answers);
        answers[1].1.findings()[0].severity
    }

    #[test]
    fn objects_of_kept_tensors_are_a_note() {
        let device = || found(Kind::AllocatorLeak, 0, 100.0);
        let host = |rank, rate| found(Kind::HostLeak, rank, rate);
        assert_eq!(
            severity_of_host(vec![device(), host(0, 9.0)]),
            Severity::Info
        );
        // A host leak stays a finding of its own when it grows as fast as the device leak, or on
        // another rank.
        assert_eq!(
            severity_of_host(vec![device(), host(0, 90.0)]),
            Severity::Warning
        );
        assert_eq!(
            severity_of_host(vec![device(), host(1, 9.0)]),
            Severity::Warning
        );
    }
}
