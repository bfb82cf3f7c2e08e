//! An issue and the evidence for it.

use stormlog_format::{Map, Text, Value};

/// Where an issue was seen.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys of the object, described in docs/schemas"
)]
pub struct EvidenceLink {
    pub session_id: Option<Text>,
    pub timestamp_ns: Option<i64>,
    pub rank: Option<i64>,
    pub source_path: Option<Text>,
    pub source_kind: Option<Text>,
    pub event_type: Option<Text>,
    pub bundle_path: Option<Text>,
    pub metadata: Map,
}

impl EvidenceLink {
    /// The link, keys in order.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("session_id", self.session_id.clone());
        map.insert("timestamp_ns", self.timestamp_ns);
        map.insert("rank", self.rank);
        map.insert("source_path", self.source_path.clone());
        map.insert("source_kind", self.source_kind.clone());
        map.insert("event_type", self.event_type.clone());
        map.insert("bundle_path", self.bundle_path.clone());
        map.insert("metadata", Value::Map(self.metadata.clone()));
        map
    }
}

/// One trouble with everything that was seen of it.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys of the object, described in docs/schemas"
)]
pub struct Issue {
    pub fingerprint_id: Text,
    pub kind: Text,
    /// What makes two troubles the same, normalized.
    pub dimensions: Map,
    pub state: &'static str,
    pub severity: Text,
    pub title: Text,
    pub first_seen_ns: Option<i64>,
    pub last_seen_ns: Option<i64>,
    /// Sorted, each once.
    pub affected_sessions: Vec<Text>,
    /// Never empty; the first is the one that stands for all.
    pub evidence: Vec<EvidenceLink>,
    pub details: Map,
    /// What people said about it, where it was looked up.
    pub state_info: Option<Map>,
    /// Ids that earlier versions gave the same trouble: what people said about those holds.
    pub former_ids: Vec<Text>,
}

impl Issue {
    /// How often it was seen.
    pub fn hit_count(&self) -> i64 {
        i64::try_from(self.evidence.len()).unwrap_or(i64::MAX)
    }

    /// The fingerprint, keys in order.
    pub fn fingerprint(&self) -> Map {
        let mut map = Map::new();
        map.insert("schema_version", 1);
        map.insert("fingerprint_id", self.fingerprint_id.clone());
        map.insert("kind", self.kind.clone());
        map.insert("dimensions", Value::Map(self.dimensions.clone()));
        map
    }

    /// The issue, keys in order.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("fingerprint_id", self.fingerprint_id.clone());
        map.insert("fingerprint", Value::Map(self.fingerprint()));
        map.insert("kind", self.kind.clone());
        map.insert("state", self.state);
        map.insert("severity", self.severity.clone());
        map.insert("title", self.title.clone());
        map.insert("hit_count", self.hit_count());
        map.insert("first_seen_ns", self.first_seen_ns);
        map.insert("last_seen_ns", self.last_seen_ns);
        let sessions = self.affected_sessions.iter().cloned();
        map.insert(
            "affected_sessions",
            Value::List(sessions.map(Value::Text).collect()),
        );
        let links = || self.evidence.iter().map(|link| Value::Map(link.to_map()));
        let first = links().next().unwrap_or(Value::Null);
        map.insert("representative_evidence", first);
        map.insert("evidence", Value::List(links().collect()));
        map.insert("details", Value::Map(self.details.clone()));
        if let Some(info) = &self.state_info {
            map.insert("state_info", Value::Map(info.clone()));
        }
        map
    }
}

/// How bad a severity is, the worst first.
pub fn severity_rank(severity: &Text) -> u8 {
    match severity.as_str() {
        Some("critical" | "error") => 0,
        Some("warning") => 1,
        Some("info") => 2,
        _ => 3,
    }
}

/// Which issues to list; what is not given does not matter.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the fields are the keys of the object")]
pub struct IssueFilter {
    pub fingerprint_id: Option<Text>,
    pub kind: Option<Text>,
    pub state: Option<Text>,
    pub severity: Option<Text>,
    pub session_id: Option<Text>,
}

impl IssueFilter {
    /// Whether the issue is wanted.
    pub fn accepts(&self, issue: &Issue) -> bool {
        let same = |wanted: &Option<Text>, given: &Text| {
            wanted.as_ref().is_none_or(|wanted| wanted == given)
        };
        same(&self.fingerprint_id, &issue.fingerprint_id)
            && same(&self.kind, &issue.kind)
            && self
                .state
                .as_ref()
                .is_none_or(|state| *state == issue.state)
            && same(&self.severity, &issue.severity)
            && self
                .session_id
                .as_ref()
                .is_none_or(|id| issue.affected_sessions.contains(id))
    }
}
