//! Gathers sightings of the same trouble into issues.

use std::collections::HashMap;
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
}

impl Gathering {
    pub(crate) fn add(&mut self, hit: Hit<'_>) {
        // Keys are ours, so they are never blank.
        let Ok(dimensions) = normalize_dimensions(&hit.dimensions) else {
            return;
        };
        let id = fingerprint_id(hit.kind, &dimensions, &Value::Int(1));
        let place = *self.places.entry(id.clone()).or_insert_with(|| {
            self.issues.push(Issue {
                fingerprint_id: id,
                kind: hit.kind.into(),
                dimensions,
                state: "open",
                severity: hit.severity.clone(),
                title: hit.title,
                first_seen_ns: None,
                last_seen_ns: None,
                affected_sessions: Vec::new(),
                evidence: Vec::new(),
                details: Map::new(),
                state_info: None,
                former_ids: hit.former_ids,
            });
            self.issues.len() - 1
        });
        let issue = &mut self.issues[place];
        if severity_rank(&hit.severity) < severity_rank(&issue.severity) {
            issue.severity = hit.severity;
        }
        for (key, value) in hit.details {
            issue.details.insert(key, value);
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
