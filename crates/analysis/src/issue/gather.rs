//! Gathers sightings of the same trouble into issues.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use stormlog_format::{Map, Text, Value};

use super::fingerprint::{fingerprint_id, normalize_dimensions};
use super::from_events::{of_bundle, of_event};
use super::object::{EvidenceLink, Issue, IssueFilter, severity_rank};
use super::{finding, gap};
use crate::analyze::diagnosed;
use crate::detect::{self, Diagnosis};
use crate::load::{Loaded, LoadedSession};
use crate::query::{OomFilter, SourceKind, Store, source_path};
use crate::timeline::{self, Member};

/// One sighting of a trouble.
pub(crate) struct Hit<'a> {
    pub(crate) kind: &'a str,
    pub(crate) dimensions: Map,
    pub(crate) title: Text,
    pub(crate) severity: Text,
    pub(crate) evidence: EvidenceLink,
    pub(crate) details: Map,
    /// Sessions beside that of the evidence which share the trouble.
    pub(crate) peers: Vec<Text>,
    /// Ids that earlier versions gave the same trouble.
    pub(crate) former_ids: Vec<Text>,
}

/// Issues while they are gathered, in the order in which they were first seen.
#[derive(Default)]
pub(crate) struct Gathering {
    issues: Vec<Issue>,
    places: hashbrown::HashMap<Text, usize>,
    /// The kind and the dimensions of the hits that came last, and the issue that they are of: most
    /// hits are like one of them, and a fingerprint costs more than everything else about a hit.
    recent: VecDeque<(String, Map, usize)>,
}

/// Hits that are remembered.
const RECENT: usize = 8;

impl Gathering {
    pub(crate) fn add(&mut self, hit: Hit<'_>) {
        let Some(index) = self.index_of(&hit) else {
            return;
        };
        let issue = &mut self.issues[index];
        if severity_rank(&hit.severity) < severity_rank(&issue.severity) {
            issue.severity = hit.severity;
        }
        if issue.details != hit.details {
            for (key, value) in hit.details {
                issue.details.insert(key, value);
            }
        }
        if let Some(time) = hit.evidence.timestamp_ns {
            issue.first_seen_ns = Some(issue.first_seen_ns.map_or(time, |first| first.min(time)));
            issue.last_seen_ns = issue.last_seen_ns.max(Some(time));
        }
        let sessions = hit.evidence.session_id.iter().chain(&hit.peers);
        for session in sessions.filter(|session| !session.as_bytes().is_empty()) {
            if let Err(place) = issue.affected_sessions.binary_search(session) {
                issue.affected_sessions.insert(place, session.clone());
            }
        }
        issue.evidence.push(hit.evidence);
    }

    /// Adds an issue that was gathered elsewhere, after everything that was added before.
    fn add_issue(&mut self, issue: Issue) {
        match self.places.get(&issue.fingerprint_id) {
            Some(place) => self.issues[*place].join(issue),
            None => {
                self.places
                    .insert(issue.fingerprint_id.clone(), self.issues.len());
                self.issues.push(issue);
            }
        }
    }

    /// The issue that a hit is of.
    fn index_of(&mut self, hit: &Hit<'_>) -> Option<usize> {
        let is_same = |(kind, dimensions, _): &(String, Map, usize)| {
            kind == hit.kind && *dimensions == hit.dimensions
        };
        if let Some((_, _, index)) = self.recent.iter().find(|known| is_same(known)) {
            return Some(*index);
        }
        // Keys are ours, so they are never blank.
        let dimensions = normalize_dimensions(&hit.dimensions).ok()?;
        let id = fingerprint_id(hit.kind, &dimensions, &Value::Int(1));
        let index = *self.places.entry(id.clone()).or_insert_with(|| {
            self.issues.push(Issue {
                fingerprint_id: id,
                kind: hit.kind.into(),
                dimensions,
                state: "open",
                severity: hit.severity.clone(),
                title: hit.title.clone(),
                first_seen_ns: None,
                last_seen_ns: None,
                affected_sessions: Vec::new(),
                evidence: Vec::new(),
                details: Map::new(),
                state_info: None,
                former_ids: hit.former_ids.clone(),
            });
            self.issues.len() - 1
        });
        self.recent.truncate(RECENT - 1);
        let remembered = (hit.kind.to_owned(), hit.dimensions.clone(), index);
        self.recent.push_front(remembered);
        Some(index)
    }

    /// The issues, the worst and latest first.
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

impl Store {
    /// The issues that the reference finds, the worst and latest first, with the states that
    /// are given for them.
    pub fn issues(&self, filter: &IssueFilter, states: &HashMap<Text, &'static str>) -> Vec<Issue> {
        let mut found = Gathering::default();
        self.gather(&mut found);
        wanted(found.finish(), filter, states)
    }

    /// The same, and what our own detectors find.
    pub fn issues_with_findings(
        &self,
        filter: &IssueFilter,
        states: &HashMap<Text, &'static str>,
    ) -> Vec<Issue> {
        let mut found = Gathering::default();
        self.gather(&mut found);
        self.gather_findings(&mut found);
        wanted(found.finish(), filter, states)
    }

    fn gather(&self, found: &mut Gathering) {
        for row in self.oom_bundles(&OomFilter::default()) {
            found.add(of_bundle(&row));
        }
        for row in self.events_that_may_be_trouble().iter() {
            if let Some(hit) = of_event(row) {
                found.add(hit);
            }
        }
        if let Some(anomalies) = self.given_anomalies() {
            for issue in anomalies {
                found.add_issue(issue.clone());
            }
            return;
        }
        for (place, source) in self.catalog().sources.iter().enumerate() {
            let sessions = &self.loaded(place).sessions;
            let hits: Vec<Vec<Hit<'_>>> = sessions
                .par_iter()
                .map(|session| gap::hits(session, source))
                .collect();
            for hit in hits.into_iter().flatten() {
                found.add(hit);
            }
        }
    }

    fn gather_findings(&self, found: &mut Gathering) {
        let sources = &self.catalog().sources;
        let loaded: Vec<Arc<Loaded>> = (0..sources.len()).map(|place| self.loaded(place)).collect();
        let members = loaded.iter().enumerate().flat_map(|(artifact, loaded)| {
            let sessions = loaded.sessions.iter();
            sessions.map(move |session| Member { artifact, session })
        });
        let home = |member: Member<'_>| {
            let source = &sources[member.artifact];
            (source_path(member.session, source), source.kind)
        };
        let members: Vec<Member<'_>> = members.collect();
        let options = detect::Options::default();
        let hits: Vec<Vec<Hit<'static>>> = timeline::runs(members.iter().copied())
            .par_iter()
            .map(|run| {
                let run: Vec<Member<'_>> = run.iter().map(|&index| members[index]).collect();
                let sessions: Vec<&LoadedSession> = run.iter().map(|one| one.session).collect();
                let (_, diagnosis) = diagnosed(&sessions, &options);
                finding::hits(&run, &diagnosis, &home)
            })
            .collect();
        for hit in hits.into_iter().flatten() {
            found.add(hit);
        }
    }
}

/// Findings of diagnosed runs as issues, outside of any store.
pub(crate) fn issues_of_findings<'a>(
    runs: impl Iterator<Item = (&'a [Member<'a>], &'a Diagnosis)>,
) -> Vec<Issue> {
    let home = |member: Member<'_>| {
        let file = member.session.sources.first();
        let file = file.map_or("", String::as_str);
        (file.into(), SourceKind::of_recording(Path::new(file)))
    };
    let mut found = Gathering::default();
    for (run, diagnosis) in runs {
        for hit in finding::hits(run, diagnosis, &home) {
            found.add(hit);
        }
    }
    found.finish()
}

/// The issues that are asked for, with their states.
fn wanted(
    mut issues: Vec<Issue>,
    filter: &IssueFilter,
    states: &HashMap<Text, &'static str>,
) -> Vec<Issue> {
    for issue in &mut issues {
        let mut ids = std::iter::once(&issue.fingerprint_id).chain(&issue.former_ids);
        let known = ids.find_map(|id| states.get(id).copied());
        issue.state = known.unwrap_or("open");
    }
    issues.retain(|issue| filter.accepts(issue));
    issues
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
