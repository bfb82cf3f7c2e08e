//! How the issues of one artifact set differ from those of another.

use stormlog_format::{Map, Text, Value};

use super::object::{Issue, severity_rank};

/// What became of an issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// It was resolved and is back.
    Regressed,
    /// It was not there before.
    New,
    /// It was there and is seen more often.
    MoreFrequent,
    /// It was there and is as before, or seen less often.
    Same,
    /// It was there and is not any more.
    Gone,
}

stormlog_format::names!(Change {
    Regressed => "regressed",
    New => "new",
    MoreFrequent => "more_frequent",
    Same => "same",
    Gone => "gone",
});

/// An issue and what became of it.
#[derive(Clone, Debug)]
pub struct ChangedIssue {
    /// What became of it.
    pub change: Change,
    /// The issue as it is now; as it was, when it is gone.
    pub issue: Issue,
    /// How often it was seen before.
    pub hits_before: Option<i64>,
}

impl ChangedIssue {
    /// The change and the issue, keys in order.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("change", self.change.as_str());
        map.insert("hits_before", self.hits_before);
        map.insert("issue", Value::Map(self.issue.to_map()));
        map
    }
}

/// What became of each issue, the worst change first. Issues carry their states.
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
