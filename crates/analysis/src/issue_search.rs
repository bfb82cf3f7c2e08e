//! Finds the issues in the recordings and bundles of a query store.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;
use stormlog_format::Text;

use crate::analyze::{Report, ReportsBySessions, RunReport, diagnosed};
use crate::detect;
use crate::issue::{Gathering, Hit, Issue, IssueFilter, finding, of_bundle, of_event};
use crate::load::{Loaded, LoadedSession};
use crate::query::{OomFilter, Store, source_path};
use crate::timeline::{self, Member};

impl Store {
    /// The issues that events and bundles report, and the `further` ones, the most severe and latest
    /// first, with their states from `states`. `further` is called after the events were read.
    pub fn issues_with(
        &self,
        further: impl FnOnce() -> Vec<Issue>,
        filter: &IssueFilter,
        states: &HashMap<Text, &'static str>,
    ) -> Vec<Issue> {
        let add =
            |found: &mut Gathering<'_>| further().into_iter().for_each(|one| found.add_issue(one));
        wanted(self.gather(add), filter, states)
    }

    /// The issues that events and bundles report, and those that Stormlog's detectors find in the
    /// memory of the sessions.
    pub fn issues_with_findings(
        &self,
        filter: &IssueFilter,
        states: &HashMap<Text, &'static str>,
    ) -> Vec<Issue> {
        wanted(
            self.gather(|found| self.gather_findings(&[], found)),
            filter,
            states,
        )
    }

    /// Like [`issues_with_findings`](Self::issues_with_findings), but runs in `report` are not
    /// analyzed again. The report must have been made with default options.
    pub fn issues_of_report(
        &self,
        report: &Report,
        filter: &IssueFilter,
        states: &HashMap<Text, &'static str>,
    ) -> Vec<Issue> {
        wanted(
            self.gather(|found| self.gather_findings(&report.runs, found)),
            filter,
            states,
        )
    }

    /// Gathers the issues that events and bundles report, and those that `judge` adds.
    fn gather(&self, judge: impl FnOnce(&mut Gathering<'_>)) -> Vec<Issue> {
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
        judge(&mut found);
        found.finish()
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
