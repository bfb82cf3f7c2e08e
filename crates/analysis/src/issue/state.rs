//! The decisions of people about issues, by fingerprint id: open, resolved, ignored.
//!
//! This module computes and changes states in memory; [`super::sidecar`] reads and writes them as
//! `issues.json`. Unknown keys are preserved, so that other tools may keep their own notes in the
//! same file.

use std::collections::HashMap;

use stormlog_format::{Map, Text, Value};

use super::finding::is_finding;
use super::object::{Issue, StateInfo};

/// The value of the key `format` in `issues.json`, the file with the states of issues.
const FORMAT: &str = "stormlog.issues";

/// The version of the file format that is written.
const VERSION: i64 = 1;

/// Why a document is not a valid `issues.json`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum StateError {
    #[error("not an object")]
    NotAnObject,
    #[error("the value of 'format' is not 'stormlog.issues'")]
    WrongFormat,
    #[error("schema_version {0} is newer than this program can read")]
    Newer(i64),
    #[error("schema_version is missing or is not a number")]
    NoVersion,
    #[error("'issues' is not an object whose values are objects")]
    NoIssues,
    #[error("the state of issue '{0}' is missing or unknown")]
    UnknownState(Text),
}

/// A decision of a person about an issue.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The state of the issue from now on.
    pub state: DecidedState,
    /// Who made the decision.
    pub by: Text,
    /// When the decision was made.
    pub at_ns: i64,
    /// The reason for the decision, in free text.
    pub reason: Option<Text>,
}

/// A state that a person can set; `regressed` cannot be set, because it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedState {
    /// The issue was seen, and there is no other decision about it.
    Open,
    /// The issue is fixed; when it is seen again, its state becomes `regressed`.
    Resolved,
    /// The issue is ignored, permanently or until a given time.
    Ignored {
        /// The time until which the issue is ignored; `None` means permanently.
        until_ns: Option<i64>,
    },
}

impl DecidedState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Resolved => "resolved",
            Self::Ignored { .. } => "ignored",
        }
    }
}

/// The states of issues by fingerprint id. The other contents of the file are kept too, so that
/// they are written back unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct States {
    /// The top-level object of the file. The value of its key `issues` is null, because `entries`
    /// has the issues.
    document: Map,
    entries: Vec<(Text, Map)>,
    /// For each fingerprint id, the index of its entry in `entries`.
    places: HashMap<Text, usize>,
}

impl Default for States {
    fn default() -> Self {
        let mut document = Map::new();
        document.insert("schema_version", VERSION);
        document.insert("format", FORMAT);
        document.insert("issues", Value::Null);
        Self {
            document,
            entries: Vec::new(),
            places: HashMap::new(),
        }
    }
}

impl States {
    /// Parses the content of `issues.json`; a file of another format or a newer version is an
    /// error, so that it is never overwritten.
    pub fn from_value(document: &Value) -> Result<Self, StateError> {
        let document = document.as_map().ok_or(StateError::NotAnObject)?;
        let format = document.text("format");
        if format.is_none_or(|format| *format != FORMAT) {
            return Err(StateError::WrongFormat);
        }
        match document.get("schema_version") {
            Some(Value::Int(version)) if *version > VERSION => {
                return Err(StateError::Newer(*version));
            }
            Some(Value::Int(1..)) => {}
            _ => return Err(StateError::NoVersion),
        }
        let Some(issues) = document.object("issues") else {
            return Err(StateError::NoIssues);
        };
        let mut entries = Vec::with_capacity(issues.len());
        for (id, entry) in issues.iter() {
            let entry = entry.as_map().ok_or(StateError::NoIssues)?;
            let state = entry.text("state");
            let is_known = |state: &Text| {
                super::fingerprint::ISSUE_STATES
                    .iter()
                    .any(|known| state == known)
            };
            if !state.is_some_and(is_known) {
                return Err(StateError::UnknownState(id.clone()));
            }
            entries.push((id.clone(), entry.clone()));
        }
        let mut document = document.clone();
        document.insert("issues", Value::Null);
        let places = entries.iter().enumerate();
        Ok(Self {
            places: places.map(|(index, (id, _))| (id.clone(), index)).collect(),
            document,
            entries,
        })
    }

    /// The whole document, in the form that is written to the file.
    pub fn to_value(&self) -> Value {
        let entries = self.entries.iter().cloned();
        let issues: Map = entries.map(|(id, entry)| (id, Value::Map(entry))).collect();
        let mut document = self.document.clone();
        document.insert("issues", Value::Map(issues));
        Value::Map(document)
    }

    /// The entry of a fingerprint id.
    pub fn entry(&self, id: &Text) -> Option<&Map> {
        let index = *self.places.get(id)?;
        Some(&self.entries[index].1)
    }

    /// The entry of an issue, under its current id or an id that an earlier version gave it.
    pub fn entry_of(&self, issue: &Issue) -> Option<&Map> {
        let mut ids = std::iter::once(&issue.fingerprint_id).chain(&issue.former_ids);
        ids.find_map(|id| self.entry(id))
    }

    /// Whether there is an entry for a fingerprint id.
    pub fn knows(&self, id: &Text) -> bool {
        self.places.contains_key(id)
    }

    /// Whether there is an entry for an issue, under its current id or an earlier one.
    pub fn knows_issue(&self, issue: &Issue) -> bool {
        self.entry_of(issue).is_some()
    }

    /// The state of an issue at the time `now_ns`, considering when the issue was last seen.
    pub fn state_of(&self, issue: &Issue, now_ns: i64) -> &'static str {
        let Some(entry) = self.entry_of(issue) else {
            return "open";
        };
        match entry.text("state").and_then(Text::as_str) {
            Some("resolved") if was_seen_again(issue, entry) => "regressed",
            Some("resolved") => "resolved",
            Some("ignored") => {
                let until = entry.int("ignored_until_ns");
                if until.is_some_and(|until| until <= now_ns) {
                    "open"
                } else {
                    "ignored"
                }
            }
            Some("regressed") => "regressed",
            _ => "open",
        }
    }

    /// Sets the state of each issue at the time `now_ns`, and copies the decision about it into the
    /// issue.
    pub fn apply(&self, issues: &mut [Issue], now_ns: i64) {
        for issue in issues {
            issue.state = self.state_of(issue, now_ns);
            issue.state_info = self.entry_of(issue).map(|entry| {
                let value = |key: &str| entry.get(key).cloned().unwrap_or(Value::Null);
                StateInfo {
                    changed_at_ns: value("changed_at_ns"),
                    changed_by: value("changed_by"),
                    reason: value("reason"),
                    ignored_until_ns: value("ignored_until_ns"),
                }
            });
        }
    }

    /// Records a decision about an issue, with a summary of the issue at the time of the decision.
    pub fn decide(&mut self, issue: &Issue, decision: &Decision) {
        let entry = self.entry_mut(issue);
        entry.insert("state", decision.state.as_str());
        entry.insert("changed_at_ns", decision.at_ns);
        entry.insert("changed_by", decision.by.clone());
        entry.insert("reason", decision.reason.clone());
        let until = match decision.state {
            DecidedState::Ignored { until_ns } => until_ns,
            _ => None,
        };
        entry.insert("ignored_until_ns", until);
        if decision.state == DecidedState::Resolved {
            entry.insert("resolved_until_ns", issue.last_seen_ns);
            let sessions = issue.affected_sessions.iter().cloned().map(Value::Text);
            entry.insert("resolved_sessions", Value::List(sessions.collect()));
        }
        entry.insert("summary", Value::Map(summary(issue)));
    }

    /// Records that an issue was seen, without a decision about it.
    pub fn remember(&mut self, issue: &Issue) {
        let entry = self.entry_mut(issue);
        if !entry.contains("state") {
            entry.insert("state", "open");
        }
        entry.insert("summary", Value::Map(summary(issue)));
    }

    /// The entry of an issue, which is created if it does not exist. If an earlier version gave the
    /// issue another id and that id has an entry, the new entry begins as a copy of it. The entry
    /// under the earlier id is kept for programs of the earlier version.
    fn entry_mut(&mut self, issue: &Issue) -> &mut Map {
        let id = &issue.fingerprint_id;
        let kept = self.entry_of(issue).cloned().unwrap_or_default();
        let index = *self.places.entry(id.clone()).or_insert_with(|| {
            self.entries.push((id.clone(), kept));
            self.entries.len() - 1
        });
        &mut self.entries[index].1
    }
}

/// Whether a resolved issue was seen again: whether any of its evidence is later than all evidence
/// that was known when the issue was resolved. If a time is unknown, evidence counts when it is
/// from a session that was not known when the issue was resolved.
///
/// Evidence of a finding counts only if it is later and also from a session that was not known
/// when the issue was resolved. The reason is that the time of this evidence is the onset of the
/// finding, an estimate that changes while the session continues.
fn was_seen_again(issue: &Issue, entry: &Map) -> bool {
    let known_until = entry.int("resolved_until_ns");
    let known_sessions = entry.list("resolved_sessions");
    let is_known = |session: &Text| {
        known_sessions
            .iter()
            .any(|known| known.as_text() == Some(session))
    };
    let is_estimate = is_finding(&issue.kind);
    issue.evidence.iter().any(|link| {
        let session = link.session_id.as_ref();
        let is_other_session = session.is_some_and(|session| !is_known(session));
        match (link.timestamp_ns, known_until) {
            (Some(time), Some(until)) => time > until && (!is_estimate || is_other_session),
            _ => is_other_session,
        }
    })
}

/// A summary of the issue that is kept in its entry, so that the issue can be described without its
/// artifacts.
fn summary(issue: &Issue) -> Map {
    let mut map = Map::new();
    map.insert("kind", issue.kind.clone());
    map.insert("severity", issue.severity.clone());
    map.insert("title", issue.title.clone());
    map.insert("hit_count", issue.hit_count());
    map.insert("first_seen_ns", issue.first_seen_ns);
    map.insert("last_seen_ns", issue.last_seen_ns);
    let sessions = i64::try_from(issue.affected_sessions.len()).unwrap_or(i64::MAX);
    map.insert("session_count", sessions);
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issue::EvidenceLink;

    fn issue(times: &[i64]) -> Issue {
        let evidence = times.iter().map(|time| EvidenceLink {
            session_id: Some(format!("s{time}").into()),
            timestamp_ns: Some(*time),
            ..EvidenceLink::default()
        });
        Issue {
            fingerprint_id: "issue:1".into(),
            kind: "oom".into(),
            dimensions: Map::new(),
            state: "open",
            severity: "critical".into(),
            title: "OOM".into(),
            first_seen_ns: times.iter().min().copied(),
            last_seen_ns: times.iter().max().copied(),
            affected_sessions: times.iter().map(|time| format!("s{time}").into()).collect(),
            evidence: evidence.collect(),
            details: Map::new(),
            state_info: None,
            former_ids: Vec::new(),
        }
    }

    fn decided(state: DecidedState) -> States {
        let mut states = States::default();
        let decision = Decision {
            state,
            by: "me".into(),
            at_ns: 100,
            reason: Some("fixed".into()),
        };
        states.decide(&issue(&[5]), &decision);
        states
    }

    #[test]
    fn a_resolved_issue_that_returns_has_regressed() {
        let states = decided(DecidedState::Resolved);
        assert_eq!(states.state_of(&issue(&[5]), 200), "resolved");
        assert_eq!(states.state_of(&issue(&[4, 5]), 200), "resolved");
        assert_eq!(states.state_of(&issue(&[5, 6]), 200), "regressed");
    }

    #[test]
    fn without_times_a_new_session_counts() {
        let states = decided(DecidedState::Resolved);
        let mut again = issue(&[5]);
        again.evidence[0].timestamp_ns = None;
        assert_eq!(states.state_of(&again, 200), "resolved");
        again.evidence[0].session_id = Some("other".into());
        assert_eq!(states.state_of(&again, 200), "regressed");
    }

    #[test]
    fn a_finding_in_the_same_session_is_the_same() {
        let mut states = States::default();
        let leak = |time: i64, session: &str| {
            let mut leak = issue(&[time]);
            leak.kind = "allocator_leak".into();
            leak.evidence[0].session_id = Some(session.into());
            leak.affected_sessions = vec![session.into()];
            leak
        };
        let decision = Decision {
            state: DecidedState::Resolved,
            by: "me".into(),
            at_ns: 100,
            reason: None,
        };
        states.decide(&leak(5, "monday"), &decision);
        assert_eq!(states.state_of(&leak(7, "monday"), 200), "resolved");
        assert_eq!(states.state_of(&leak(3, "sunday"), 200), "resolved");
        assert_eq!(states.state_of(&leak(7, "tuesday"), 200), "regressed");
    }

    #[test]
    fn ignoring_ends_at_its_time() {
        let states = decided(DecidedState::Ignored {
            until_ns: Some(300),
        });
        assert_eq!(states.state_of(&issue(&[5, 99]), 299), "ignored");
        assert_eq!(states.state_of(&issue(&[5]), 300), "open");
        let states = decided(DecidedState::Ignored { until_ns: None });
        assert_eq!(states.state_of(&issue(&[5]), i64::MAX), "ignored");
    }

    #[test]
    fn unknown_keys_survive() {
        let text = br#"{"x": 1, "schema_version": 1, "format": "stormlog.issues",
            "issues": {"issue:1": {"state": "open", "ticket": "ABC-1"}}}"#;
        let document = stormlog_format::json::parse(text).expect("valid JSON");
        let mut states = States::from_value(&document).expect("ours");
        states.remember(&issue(&[5]));
        let kept = States::from_value(&states.to_value()).expect("still ours");
        let entry = kept.entry(&"issue:1".into()).expect("kept");
        assert_eq!(entry.get("ticket"), Some(&Value::text("ABC-1")));
        assert_eq!(kept.document.get("x"), Some(&Value::Int(1)));
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        for (text, error) in [
            ("[]", StateError::NotAnObject),
            ("{}", StateError::WrongFormat),
            (
                r#"{"format": "stormlog.issues", "schema_version": 2}"#,
                StateError::Newer(2),
            ),
            (
                r#"{"format": "stormlog.issues", "schema_version": 1, "issues": {"a": {}}}"#,
                StateError::UnknownState("a".into()),
            ),
        ] {
            let document = stormlog_format::json::parse(text.as_bytes()).expect("valid JSON");
            assert_eq!(States::from_value(&document), Err(error), "{text}");
        }
    }
}
