//! Compares the issues of two artifact sets, an old one and a new one.

use serde::Serialize;
use stormlog_format::Text;

use super::object::{Issue, severity_rank};

/// How an issue changed from the old artifact set to the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The issue was resolved and occurs again.
    Regressed,
    /// The issue is only in the new artifact set.
    New,
    /// The issue is in both artifact sets and has more hits in the new one.
    MoreFrequent,
    /// The issue is in both artifact sets and has at most as many hits in the new one.
    Same,
    /// The issue is only in the old artifact set.
    Gone,
}

stormlog_format::names!(Change {
    Regressed => "regressed",
    New => "new",
    MoreFrequent => "more_frequent",
    Same => "same",
    Gone => "gone",
});

/// An issue and how it changed.
#[derive(Clone, Debug, Serialize)]
pub struct ChangedIssue {
    /// How the issue changed.
    pub change: Change,
    /// Number of hits in the old artifact set.
    pub hits_before: Option<i64>,
    /// The issue as found in the new artifact set; for an issue that is gone, as found in the old
    /// one.
    pub issue: Issue,
}

/// The change of each issue from old to new, the worst change first. The state of each issue must
/// be set, because it decides whether the issue regressed.
pub fn compare(old: &[Issue], new: &[Issue]) -> Vec<ChangedIssue> {
    let find =
        |issues: &[Issue], id: &Text| issues.iter().position(|issue| issue.fingerprint_id == *id);
    let mut changes: Vec<ChangedIssue> = new
        .iter()
        .map(|issue| {
            let before = find(old, &issue.fingerprint_id).map(|index| &old[index]);
            let change = match before {
                _ if issue.state == "regressed" => Change::Regressed,
                None => Change::New,
                Some(before) if issue.hit_count() > before.hit_count() => Change::MoreFrequent,
                Some(_) => Change::Same,
            };
            ChangedIssue {
                change,
                issue: issue.clone(),
                hits_before: before.map(Issue::hit_count),
            }
        })
        .collect();
    let gone = old
        .iter()
        .filter(|issue| find(new, &issue.fingerprint_id).is_none());
    changes.extend(gone.map(|issue| ChangedIssue {
        change: Change::Gone,
        issue: issue.clone(),
        hits_before: Some(issue.hit_count()),
    }));
    changes.sort_by_cached_key(|changed| {
        (
            changed.change,
            severity_rank(&changed.issue.severity),
            changed.issue.fingerprint_id.clone(),
        )
    });
    changes
}
