//! Gathers hits of the same problem into issues.

use std::collections::VecDeque;
use std::path::Path;

use stormlog_format::{Map, Text, Value};

use super::finding;
use super::fingerprint::{fingerprint_id, normalize_dimensions};
use super::from_events::Subject;
use super::object::{EvidenceLink, Issue, severity_rank};
use crate::detect::Diagnosis;
use crate::query::SourceKind;
use crate::timeline::Member;

/// A hit: one occurrence of a problem.
#[expect(
    missing_docs,
    reason = "a hit has the fields of the issue that it becomes"
)]
pub struct Hit {
    pub kind: &'static str,
    pub dimensions: Map,
    pub title: Text,
    pub severity: Text,
    pub evidence: EvidenceLink,
    pub details: Map,
    /// Other sessions that share the problem, besides the session of the evidence.
    pub peers: Vec<Text>,
    /// Ids that earlier versions gave the same issue.
    pub former_ids: Vec<Text>,
}

/// Issues while hits are being added, in the order in which they were first seen.
#[derive(Default)]
pub(crate) struct Gathering<'a> {
    issues: Vec<Issue>,
    indices: hashbrown::HashMap<Text, usize>,
    /// A cache of the last different [`Subject`]s (what events report), each with its details and
    /// the index of its issue in `issues`. For an event whose subject is in the cache, no
    /// fingerprint is computed, which would cost more than everything else.
    recent: VecDeque<(Subject<'a>, Map, usize)>,
}

/// Maximum number of subjects in the cache `Gathering::recent`.
const RECENT: usize = 8;

impl<'a> Gathering<'a> {
    pub(crate) fn add(&mut self, hit: Hit) {
        let Some(index) = self.index_of(hit.kind, &hit.dimensions, hit.title) else {
            return;
        };
        let issue = &mut self.issues[index];
        if issue.evidence.is_empty() {
            issue.former_ids = hit.former_ids;
        }
        update(issue, &hit.severity, &hit.details);
        see(issue, hit.evidence, &hit.peers);
    }

    /// Adds an issue that was gathered elsewhere. If the issue is known already, the new hits are
    /// treated as later than the known hits.
    pub(crate) fn add_issue(&mut self, issue: Issue) {
        if let Some(index) = self.indices.get(&issue.fingerprint_id) {
            self.issues[*index].join(issue);
            return;
        }
        self.indices
            .insert(issue.fingerprint_id.clone(), self.issues.len());
        self.issues.push(issue);
    }

    /// Adds the problem that an event reports.
    pub(crate) fn add_event(&mut self, subject: Subject<'a>, evidence: EvidenceLink) {
        let known = self.recent.iter().find(|(known, ..)| *known == subject);
        if let Some((_, details, index)) = known {
            let issue = &mut self.issues[*index];
            update(issue, &subject.severity, details);
            see(issue, evidence, &[]);
            return;
        }
        let (title, dimensions, details) = subject.described();
        let Some(index) = self.index_of(subject.kind(), &dimensions, title) else {
            return;
        };
        let issue = &mut self.issues[index];
        update(issue, &subject.severity, &details);
        see(issue, evidence, &[]);
        self.recent.truncate(RECENT - 1);
        self.recent.push_front((subject, details, index));
    }

    /// The index of the issue with the given dimensions; if there is none, a new issue with the
    /// given title is added.
    fn index_of(&mut self, kind: &str, dimensions: &Map, title: Text) -> Option<usize> {
        // Normalizing fails only for blank keys, and the keys of the dimensions are constants.
        let dimensions = normalize_dimensions(dimensions).ok()?;
        let id = fingerprint_id(kind, &dimensions, &Value::Int(1));
        let index = *self.indices.entry(id.clone()).or_insert_with(|| {
            self.issues.push(Issue {
                fingerprint_id: id,
                kind: kind.into(),
                dimensions,
                state: "open",
                severity: Text::default(),
                title,
                first_seen_ns: None,
                last_seen_ns: None,
                affected_sessions: Vec::new(),
                evidence: Vec::new(),
                details: Map::new(),
                state_info: None,
                former_ids: Vec::new(),
            });
            self.issues.len() - 1
        });
        Some(index)
    }

    /// The gathered issues, the most severe and latest first.
    pub(crate) fn finish(self) -> Vec<Issue> {
        let mut issues = self.issues;
        issues.sort_by_cached_key(|issue| {
            (
                severity_rank(&issue.severity),
                std::cmp::Reverse(issue.last_seen_ns),
                issue.fingerprint_id.clone(),
            )
        });
        issues
    }
}

/// Updates severity and details of an issue with those of a hit: the worst severity and the latest
/// details are kept.
fn update(issue: &mut Issue, severity: &Text, details: &Map) {
    let is_new = issue.evidence.is_empty();
    if is_new || severity_rank(severity) < severity_rank(&issue.severity) {
        issue.severity = severity.clone();
    }
    if issue.details != *details {
        issue.details.extend(details.clone());
    }
}

/// Adds evidence to an issue; `peers` are further sessions that the issue affects.
fn see(issue: &mut Issue, evidence: EvidenceLink, peers: &[Text]) {
    if let Some(time) = evidence.timestamp_ns {
        issue.first_seen_ns = Some(issue.first_seen_ns.map_or(time, |first| first.min(time)));
        issue.last_seen_ns = issue.last_seen_ns.max(Some(time));
    }
    let sessions = evidence.session_id.iter().chain(peers);
    for session in sessions.filter(|session| !session.as_bytes().is_empty()) {
        if let Err(index) = issue.affected_sessions.binary_search(session) {
            issue.affected_sessions.insert(index, session.clone());
        }
    }
    issue.evidence.push(evidence);
}

/// Gathers hits into issues, the most severe and latest first.
pub fn issues_of_hits(hits: impl IntoIterator<Item = Hit>) -> Vec<Issue> {
    let mut found = Gathering::default();
    for hit in hits {
        found.add(hit);
    }
    found.finish()
}

/// Converts the findings of diagnosed runs to issues, without a query store.
pub(crate) fn issues_of_findings<'a>(
    runs: impl Iterator<Item = (&'a [Member<'a>], &'a Diagnosis)>,
) -> Vec<Issue> {
    let home = |member: Member<'_>| {
        let file = member.session.sources.first();
        let file = file.map_or("", String::as_str);
        (file.into(), SourceKind::of_recording(Path::new(file)))
    };
    issues_of_hits(runs.flat_map(|(run, diagnosis)| finding::hits(run, diagnosis, &home)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_gathered_by_their_dimensions_however_many_there_are() {
        let mut found = Gathering::default();
        for round in 0..3 {
            for name in "abcdefghijklmnopqrst".chars() {
                let mut dimensions = Map::new();
                dimensions.insert("reason", format!("reason {name}").as_str());
                found.add(Hit {
                    kind: "oom",
                    dimensions: dimensions.clone(),
                    title: "t".into(),
                    severity: "warning".into(),
                    evidence: EvidenceLink {
                        timestamp_ns: Some(round),
                        ..EvidenceLink::default()
                    },
                    details: dimensions,
                    peers: Vec::new(),
                    former_ids: Vec::new(),
                });
            }
        }
        let issues = found.finish();
        assert_eq!(issues.len(), 20);
        for issue in &issues {
            let times = issue.evidence.iter().filter_map(|link| link.timestamp_ns);
            assert_eq!(times.collect::<Vec<_>>(), [0, 1, 2]);
            assert_eq!(issue.details, issue.dimensions);
        }
    }
}
