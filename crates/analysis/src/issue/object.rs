//! An issue and the evidence for it.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use stormlog_format::{Map, Text, Value};

use super::fingerprint::{ISSUE_STATES, issue_kinds};
use crate::columns::EventRef;
use crate::query::SourceKind;
use crate::query::fits;

/// Where the issue was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
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
    /// The values of this evidence. For a finding: `onset_ns`, `end_ns`, `device_id`,
    /// `magnitude_bytes`, `confidence` and `explanation`.
    pub metadata: Map,
}

/// The decision about the issue, when issues.json has one.
// People and other programs may edit issues.json, so each value is kept as it is in the file.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "each field is a key of the JSON object, described in docs/schemas"
)]
pub struct StateInfo {
    #[schemars(with = "Option<i64>")]
    pub changed_at_ns: Value,
    #[schemars(with = "Option<Text>")]
    pub changed_by: Value,
    #[schemars(with = "Option<Text>")]
    pub reason: Value,
    #[schemars(with = "Option<i64>")]
    pub ignored_until_ns: Value,
}

impl EvidenceLink {
    /// An event as evidence. The file in `source_path` contains the event.
    pub fn of_event(
        event: EventRef<'_>,
        source_path: Text,
        source_kind: SourceKind,
        metadata: Map,
    ) -> Self {
        let origin = event.origin();
        Self {
            session_id: Some(origin.session_id.clone()),
            timestamp_ns: Some(event.timestamp_ns()),
            rank: Some(origin.rank),
            source_path: Some(source_path),
            source_kind: Some(source_kind.as_str().into()),
            event_type: Some(Text::from_bytes(event.event_type())),
            bundle_path: None,
            metadata,
        }
    }

    /// Parses an evidence link from the JSON object that an issue stores for it.
    fn from_map(map: &Map) -> Self {
        let text = |key: &str| map.text(key).cloned();
        Self {
            session_id: text("session_id"),
            timestamp_ns: map.int("timestamp_ns"),
            rank: map.int("rank"),
            source_path: text("source_path"),
            source_kind: text("source_kind"),
            event_type: text("event_type"),
            bundle_path: text("bundle_path"),
            metadata: map.object("metadata").cloned().unwrap_or_default(),
        }
    }
}

/// One problem with all evidence of it, as 'stormlog issues list --json' lists it and 'stormlog
/// analyze --format json' has it under 'issues'.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(with = "IssueKeys<'static>")]
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
    pub state_info: Option<StateInfo>,
    /// Ids that earlier versions gave the same issue; decisions about those ids apply to it.
    pub former_ids: Vec<Text>,
}

impl Issue {
    /// Parses an issue from the JSON object of an issue, with the state open; `None` if the map is
    /// not an issue.
    #[must_use]
    pub fn from_map(map: &Map) -> Option<Self> {
        let text = |key: &str| map.text(key).cloned();
        let evidence = map.list("evidence").iter().filter_map(Value::as_map);
        let evidence: Vec<EvidenceLink> = evidence.map(EvidenceLink::from_map).collect();
        let sessions = map
            .list("affected_sessions")
            .iter()
            .filter_map(Value::as_text);
        let mut affected_sessions: Vec<Text> = sessions.cloned().collect();
        affected_sessions.sort();
        affected_sessions.dedup();
        let dimensions = map.object("fingerprint")?.object("dimensions");
        (!evidence.is_empty()).then_some(Self {
            fingerprint_id: text("fingerprint_id")?,
            kind: text("kind")?,
            dimensions: dimensions?.clone(),
            state: "open",
            severity: text("severity")?,
            title: text("title")?,
            first_seen_ns: map.int("first_seen_ns"),
            last_seen_ns: map.int("last_seen_ns"),
            affected_sessions,
            evidence,
            details: map.object("details").cloned().unwrap_or_default(),
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
}

impl Serialize for Issue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = IssueKeys {
            fingerprint_id: &self.fingerprint_id,
            fingerprint: FingerprintKeys {
                schema_version: 1,
                fingerprint_id: &self.fingerprint_id,
                kind: &self.kind,
                dimensions: &self.dimensions,
            },
            kind: &self.kind,
            state: self.state,
            severity: &self.severity,
            title: &self.title,
            hit_count: self.hit_count(),
            first_seen_ns: self.first_seen_ns,
            last_seen_ns: self.last_seen_ns,
            affected_sessions: &self.affected_sessions,
            representative_evidence: self.evidence.first(),
            evidence: &self.evidence,
            details: &self.details,
            state_info: self.state_info.as_ref(),
        };
        keys.serialize(serializer)
    }
}

/// An [`Issue`] with the keys that it has in JSON output.
#[derive(Serialize, JsonSchema)]
struct IssueKeys<'a> {
    /// 'issue:' and the first 24 hexadecimal digits of a SHA-256; the same problem has the same id
    /// in every run and every tool.
    fingerprint_id: &'a Text,
    fingerprint: FingerprintKeys<'a>,
    /// The first four kinds are those of stormlog 0.3.9; the others are kinds of findings of our
    /// detectors.
    #[schemars(extend("enum" = issue_kinds().collect::<Vec<_>>()))]
    kind: &'a Text,
    #[schemars(extend("enum" = ISSUE_STATES))]
    state: &'static str,
    severity: &'a Text,
    title: &'a Text,
    hit_count: i64,
    first_seen_ns: Option<i64>,
    last_seen_ns: Option<i64>,
    affected_sessions: &'a [Text],
    /// The first evidence.
    #[schemars(with = "EvidenceLink")]
    representative_evidence: Option<&'a EvidenceLink>,
    evidence: &'a [EvidenceLink],
    /// Details. Of a finding: explanation, advice, phase, `device_id`, `magnitude_bytes`,
    /// `rate_bytes_per_s`, `time_to_full_s`, confidence and the numbers behind it, those of the
    /// last sighting.
    details: &'a Map,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "StateInfo")]
    state_info: Option<&'a StateInfo>,
}

/// The properties that identify the issue, from which its id is computed.
#[derive(Serialize, JsonSchema)]
struct FingerprintKeys<'a> {
    schema_version: i64,
    fingerprint_id: &'a Text,
    kind: &'a Text,
    /// Problems with equal dimensions are the same issue; sizes, times, ranks and hosts are not
    /// dimensions.
    dimensions: &'a Map,
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
        fits(self.fingerprint_id.as_ref(), Some(&issue.fingerprint_id))
            && fits(self.kind.as_ref(), Some(&issue.kind))
            && fits(self.state.as_ref(), Some(issue.state))
            && fits(self.severity.as_ref(), Some(&issue.severity))
            && self
                .session_id
                .as_ref()
                .is_none_or(|id| issue.affected_sessions.contains(id))
    }
}
