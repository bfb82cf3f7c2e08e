//! An issue and the evidence for it.

use serde::Serialize;
use stormlog_format::json::value_of;
use stormlog_format::{Map, Text, Value};

/// Where an issue was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "each field is a key of the JSON object, described in docs/schemas"
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
    /// Parses an evidence link from the JSON object that an issue stores for it.
    #[must_use]
    pub fn from_map(map: &Map) -> Self {
        let text = |key: &str| map.get(key).and_then(Value::as_text).cloned();
        let int = |key: &str| map.get(key).and_then(Value::as_int);
        let metadata = map.get("metadata").and_then(Value::as_map);
        Self {
            session_id: text("session_id"),
            timestamp_ns: int("timestamp_ns"),
            rank: int("rank"),
            source_path: text("source_path"),
            source_kind: text("source_kind"),
            event_type: text("event_type"),
            bundle_path: text("bundle_path"),
            metadata: metadata.cloned().unwrap_or_default(),
        }
    }
}

/// An issue: one problem with all evidence of it.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "each field is a key of the JSON object, described in docs/schemas"
)]
pub struct Issue {
    pub fingerprint_id: Text,
    pub kind: Text,
    /// The normalized dimensions; problems with equal kind and dimensions are the same issue.
    pub dimensions: Map,
    pub state: &'static str,
    pub severity: Text,
    pub title: Text,
    pub first_seen_ns: Option<i64>,
    pub last_seen_ns: Option<i64>,
    /// Ids of the sessions that the issue affects, sorted and unique.
    pub affected_sessions: Vec<Text>,
    /// The evidence of the issue; never empty. The first link is shown as
    /// `representative_evidence`.
    pub evidence: Vec<EvidenceLink>,
    pub details: Map,
    /// The decision of people about the issue, if `issues.json` was read.
    pub state_info: Option<Map>,
    /// Ids that earlier versions gave the same issue; decisions about those ids apply to it.
    pub former_ids: Vec<Text>,
}

impl Issue {
    /// Parses an issue from a map that [`to_map`](Self::to_map) created, with the state open;
    /// `None` if the map is not an issue.
    #[must_use]
    pub fn from_map(map: &Map) -> Option<Self> {
        let text = |key: &str| map.get(key)?.as_text().cloned();
        let object = |key: &str| map.get(key)?.as_map().cloned();
        let evidence = map.list("evidence").iter().filter_map(Value::as_map);
        let evidence: Vec<EvidenceLink> = evidence.map(EvidenceLink::from_map).collect();
        let sessions = map
            .list("affected_sessions")
            .iter()
            .filter_map(Value::as_text);
        let mut affected_sessions: Vec<Text> = sessions.cloned().collect();
        affected_sessions.sort();
        affected_sessions.dedup();
        let dimensions = object("fingerprint")?.get("dimensions")?.as_map().cloned();
        (!evidence.is_empty()).then_some(Self {
            fingerprint_id: text("fingerprint_id")?,
            kind: text("kind")?,
            dimensions: dimensions?,
            state: "open",
            severity: text("severity")?,
            title: text("title")?,
            first_seen_ns: map.get("first_seen_ns").and_then(Value::as_int),
            last_seen_ns: map.get("last_seen_ns").and_then(Value::as_int),
            affected_sessions,
            evidence,
            details: object("details").unwrap_or_default(),
            state_info: None,
            former_ids: Vec::new(),
        })
    }

    /// Adds the evidence of the same issue from later artifacts.
    pub(super) fn join(&mut self, later: Self) {
        if severity_rank(&later.severity) < severity_rank(&self.severity) {
            self.severity = later.severity;
        }
        self.details.extend(later.details);
        let first = [self.first_seen_ns, later.first_seen_ns];
        self.first_seen_ns = first.into_iter().flatten().min();
        self.last_seen_ns = self.last_seen_ns.max(later.last_seen_ns);
        self.affected_sessions.extend(later.affected_sessions);
        self.affected_sessions.sort();
        self.affected_sessions.dedup();
        self.evidence.extend(later.evidence);
    }

    /// Number of hits: how often the issue was seen.
    pub fn hit_count(&self) -> i64 {
        i64::try_from(self.evidence.len()).unwrap_or(i64::MAX)
    }

    /// The fingerprint as a map, with keys in a fixed order.
    pub fn fingerprint(&self) -> Map {
        let mut map = Map::new();
        map.insert("schema_version", 1);
        map.insert("fingerprint_id", self.fingerprint_id.clone());
        map.insert("kind", self.kind.clone());
        map.insert("dimensions", Value::Map(self.dimensions.clone()));
        map
    }

    /// The issue as a map, with keys in a fixed order.
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
        map.insert("affected_sessions", value_of(&self.affected_sessions));
        map.insert("representative_evidence", value_of(&self.evidence.first()));
        map.insert("evidence", value_of(&self.evidence));
        map.insert("details", Value::Map(self.details.clone()));
        if let Some(info) = &self.state_info {
            map.insert("state_info", Value::Map(info.clone()));
        }
        map
    }
}

/// The rank of a severity for sorting; 0 is the most severe.
pub fn severity_rank(severity: &Text) -> u8 {
    match severity.as_str() {
        Some("critical" | "error") => 0,
        Some("warning") => 1,
        Some("info") => 2,
        _ => 3,
    }
}

/// Which issues to list; a field that is `None` accepts every issue.
#[derive(Clone, Debug, Default)]
#[expect(
    missing_docs,
    reason = "each field has the name of the key that it filters by"
)]
pub struct IssueFilter {
    pub fingerprint_id: Option<Text>,
    pub kind: Option<Text>,
    pub state: Option<Text>,
    pub severity: Option<Text>,
    pub session_id: Option<Text>,
}

impl IssueFilter {
    /// Whether the filter accepts the issue.
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
