//! Finds the issues in the recordings and bundles of a query store.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;
use stormlog_format::Text;

use crate::analyze::{Report, ReportsBySessions, RunReport, diagnosed};
use crate::detect;
use crate::issue::{Gathering, Hit, Issue, IssueFilter, finding, gap, of_bundle, of_event};
use crate::load::{Loaded, LoadedSession};
use crate::query::{OomFilter, Store, source_path};
use crate::timeline::{self, Member};

/// What judges the memory of the sessions.
enum Judge<'a> {
    /// Stormlog's own detectors. A run that has one of these reports is not analyzed again.
    Detectors(&'a [RunReport]),
    /// The rules of stormlog 0.3.9 for hidden memory.
    OldRules,
    /// The anomalies that those rules found earlier.
    Earlier(&'a [Issue]),
}

impl Store {
    /// The issues that stormlog 0.3.9 finds, the most severe and latest first, with their states
    /// from `states`.
    pub fn issues(&self, filter: &IssueFilter, states: &HashMap<Text, &'static str>) -> Vec<Issue> {
        wanted(self.gather(&Judge::OldRules), filter, states)
    }

    /// Like [`issues`](Self::issues), with hidden-memory anomalies that were found earlier. The store
    /// need not contain the samples of which they were computed. The anomalies are in the order of
    /// the sources.
    pub fn issues_with_anomalies(
        &self,
        anomalies: &[Issue],
        filter: &IssueFilter,
        states: &HashMap<Text, &'static str>,
    ) -> Vec<Issue> {
        wanted(self.gather(&Judge::Earlier(anomalies)), filter, states)
    }

    /// Like [`issues`](Self::issues), but the memory of the sessions is judged by Stormlog's own
    /// detectors alone. The rules of stormlog 0.3.9 for hidden memory are left out, because they
    /// report anomalies of most runs that have no problem.
    pub fn issues_with_findings(
        &self,
        filter: &IssueFilter,
        states: &HashMap<Text, &'static str>,
    ) -> Vec<Issue> {
        wanted(self.gather(&Judge::Detectors(&[])), filter, states)
    }

    /// Like [`issues_with_findings`](Self::issues_with_findings), but runs in `report` are not
    /// analyzed again. The report must have been made with default options.
    pub fn issues_of_report(
        &self,
        report: &Report,
        filter: &IssueFilter,
        states: &HashMap<Text, &'static str>,
    ) -> Vec<Issue> {
        wanted(self.gather(&Judge::Detectors(&report.runs)), filter, states)
    }

    /// The anomalies of hidden memory that the rules of stormlog 0.3.9 find, as issues.
    pub fn hidden_memory_anomalies(&self) -> Vec<Issue> {
        let mut found = Gathering::default();
        self.gather_anomalies(&mut found);
        found.finish()
    }

    /// Gathers the issues that events and bundles report, and those that judge the memory of the
    /// sessions.
    fn gather(&self, judge: &Judge<'_>) -> Vec<Issue> {
        let events = self.events_that_may_be_trouble();
        let mut found = Gathering::default();
        for bundle in self.oom_bundles(&OomFilter::default()) {
            found.add(of_bundle(&bundle));
        }
        let reported: Vec<_> = (0..events.len())
            .into_par_iter()
            .filter_map(|index| of_event(events.get(index)?))
            .collect();
        for (subject, evidence) in reported {
            found.add_event(subject, evidence);
        }
        match judge {
            Judge::Detectors(reports) => self.gather_findings(reports, &mut found),
            Judge::OldRules => self.gather_anomalies(&mut found),
            Judge::Earlier(anomalies) => {
                for issue in *anomalies {
                    found.add_issue(issue.clone());
                }
            }
        }
        found.finish()
    }

    fn gather_anomalies(&self, found: &mut Gathering<'_>) {
        for (index, source) in self.catalog().sources.iter().enumerate() {
            let sessions = &self.loaded(index).sessions;
            let hits: Vec<Vec<Hit>> = sessions
                .par_iter()
                .map(|session| gap::hits(session, source))
                .collect();
            for hit in hits.into_iter().flatten() {
                found.add(hit);
            }
        }
    }

    fn gather_findings(&self, reports: &[RunReport], found: &mut Gathering<'_>) {
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
        let reports = ReportsBySessions::of(reports);
        let options = detect::Options::default();
        let hits: Vec<Vec<Hit>> = timeline::runs(members.iter().copied())
            .par_iter()
            .map(|run| {
                let run: Vec<Member<'_>> = run.iter().map(|&index| members[index]).collect();
                let sessions: Vec<&LoadedSession> = run.iter().map(|one| one.session).collect();
                if let Some(report) = reports.get(&sessions) {
                    return finding::hits(&run, &report.diagnosis, &home);
                }
                let (_, diagnosis) = diagnosed(&sessions, &options);
                finding::hits(&run, &diagnosis, &home)
            })
            .collect();
        for hit in hits.into_iter().flatten() {
            found.add(hit);
        }
    }
}

/// The issues that the filter accepts, with their states.
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
