//! Compares the findings of two sides: findings that are new, gone, or present on both.

use schemars::JsonSchema;
use serde::Serialize;

use super::profile::{KnownFinding, Profile};

/// The findings of a comparison, grouped by the side that has them. When a rank has several
/// findings of one kind on one side, only the first is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct FindingChanges {
    /// Findings that only the new side has.
    pub new: Vec<KnownFinding>,
    /// Findings that only the base side has.
    pub gone: Vec<KnownFinding>,
    /// Findings of the base side for which the recording on the new side is too short to decide
    /// whether they are gone.
    pub unanswered: Vec<KnownFinding>,
    /// Findings that both sides have, with the data of the new side.
    pub shared: Vec<KnownFinding>,
}

pub(super) fn changes(base: &Profile, new: &Profile) -> FindingChanges {
    let nothing_recorded = new.ranks.is_empty();
    let undecided_kinds = &new.unanswered;
    let (base, new) = (
        first_per_rank(&base.findings),
        first_per_rank(&new.findings),
    );
    // A finding of the new side is not new if the base side has one of the same kind for the same
    // rank or for the whole run.
    let covers = |known: &[KnownFinding], finding: &KnownFinding| {
        let same_kind = known.iter().filter(|other| other.kind == finding.kind);
        same_kind
            .map(|other| other.rank)
            .any(|rank| rank.is_none() || rank == finding.rank)
    };
    let (shared, only_new) = new
        .iter()
        .cloned()
        .partition(|finding| covers(&base, finding));
    let (unanswered, gone) = base
        .into_iter()
        .filter(|finding| !new.iter().any(|other| is_same_problem(other, finding)))
        .partition(|finding| nothing_recorded || undecided_kinds.contains(&finding.kind));
    FindingChanges {
        new: only_new,
        gone,
        unanswered,
        shared,
    }
}

/// Whether two findings describe the same problem. A finding of the whole run matches a finding of
/// any rank.
fn is_same_problem(new: &KnownFinding, base: &KnownFinding) -> bool {
    new.kind == base.kind && (new.rank == base.rank || new.rank.is_none() || base.rank.is_none())
}

/// The first finding of each kind and rank.
fn first_per_rank(findings: &[KnownFinding]) -> Vec<KnownFinding> {
    let mut seen = std::collections::BTreeSet::new();
    let first = findings
        .iter()
        .filter(|finding| seen.insert((finding.kind.as_str(), finding.rank)));
    first.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::rank;
    use super::*;

    fn profile(findings: &[(&str, Option<u32>)]) -> Profile {
        let one = |&(kind, rank): &(&str, Option<u32>)| KnownFinding {
            kind: kind.into(),
            rank,
            severity: "warning".into(),
            confidence: 0.9,
            explanation: String::new(),
        };
        Profile {
            findings: findings.iter().map(one).collect(),
            ranks: vec![rank(0, 0, 1.0)],
            ..Profile::default()
        }
    }

    fn changed(base: &[(&str, Option<u32>)], new: &[(&str, Option<u32>)]) -> [Vec<Option<u32>>; 3] {
        let changes = changes(&profile(base), &profile(new));
        let ranks = |found: &[KnownFinding]| found.iter().map(|one| one.rank).collect();
        [
            ranks(&changes.new),
            ranks(&changes.gone),
            ranks(&changes.shared),
        ]
    }

    #[test]
    fn findings_are_known_by_kind_and_rank() {
        let (leak, drift) = ("allocator_leak", "hidden_drift");
        let both = changed(
            &[(leak, Some(0)), (drift, Some(1))],
            &[(leak, Some(0)), (leak, Some(2)), (leak, Some(2))],
        );
        assert_eq!(both, [vec![Some(2)], vec![Some(1)], vec![Some(0)]]);
    }

    #[test]
    fn a_finding_that_could_not_be_checked_is_not_gone() {
        let leak = ("allocator_leak", Some(0));
        let mut short = profile(&[]);
        short.unanswered = vec!["allocator_leak".into()];
        let found = changes(&profile(&[leak]), &short);
        assert_eq!((found.gone.len(), found.unanswered.len()), (0, 1));
        let found = changes(&profile(&[leak]), &Profile::default());
        assert_eq!((found.gone.len(), found.unanswered.len()), (0, 1));
    }

    #[test]
    fn what_all_ranks_had_is_not_new_on_one() {
        let leak = "allocator_leak";
        let healed = changed(&[(leak, None)], &[(leak, Some(3))]);
        assert_eq!(healed, [vec![], vec![], vec![Some(3)]]);
        let spread = changed(&[(leak, Some(3))], &[(leak, None)]);
        assert_eq!(spread, [vec![None], vec![], vec![]]);
    }
}
