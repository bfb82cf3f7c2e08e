//! Lists runs: those that a run envelope (`stormlog_run.json`) describes, those whose sessions have
//! a run id, and, as in stormlog 0.3.9, those whose sessions have a job id.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};
use serde::Serialize;
use stormlog_format::json::{map_of, value_of};
use stormlog_format::{Map, Text, Value};

use super::catalog::CatalogWarning;
use super::envelope::RunEnvelope;
use super::filter::fits;
use super::payload::path_text;
use super::recorded_runs::recorded_runs;
use super::sessions::SessionRow;
use crate::in_order::InOrder;
use crate::timeline::{Program, Start};

/// The `source_kind` of a run whose sessions have a run id.
const RECORDED_RUN: &str = "recorded_run";

/// A run: the sessions that belong together, and what is known about them as a whole.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "each field is a key of the printed row, described in docs/schemas"
)]
pub struct RunContext {
    pub run_id: Text,
    pub explicit: bool,
    pub title: Option<Text>,
    pub description: Option<Text>,
    pub job_id: Option<Text>,
    pub started_at_ns: Option<i64>,
    pub ended_at_ns: Option<i64>,
    pub source_path: Text,
    pub source_kind: &'static str,
    pub source_namespace: Option<Text>,
    pub source_ref: Option<Text>,
    #[serde(skip)]
    pub sessions: Vec<SessionRow>,
    #[serde(skip)]
    pub program: Program,
    #[serde(skip)]
    pub tags: Vec<Text>,
    #[serde(skip)]
    pub metadata: Map,
}

/// A run as a row of a query result.
#[derive(Clone, Debug)]
pub struct RunRow {
    /// The run.
    pub run: RunContext,
    /// Number of attachments of the run: files of its recordings, and links to data of other tools.
    pub attachment_count: i64,
}

impl RunRow {
    fn session_ids(&self) -> Vec<Text> {
        let sessions = self.run.sessions.iter();
        sessions.map(|row| row.summary.session_id.clone()).collect()
    }

    fn ranks(&self) -> Vec<i64> {
        let mut ranks: Vec<i64> = self
            .run
            .sessions
            .iter()
            .map(|row| row.summary.rank)
            .collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// The row as the JSON object of a query result, with its keys in a fixed order.
    pub fn to_map(&self) -> Map {
        let run = &self.run;
        let mut map = map_of(run);
        let count = i64::try_from(run.sessions.len()).unwrap_or(i64::MAX);
        map.insert("session_count", count);
        map.insert("attachment_count", self.attachment_count);
        map.insert("sessions", value_of(&self.session_ids()));
        map.insert("ranks", value_of(&self.ranks()));
        map.insert("tags", value_of(&run.tags));
        map.insert("metadata", Value::Map(run.metadata.clone()));
        map
    }
}

/// Which runs to list. A field that is `None` accepts every run.
#[derive(Clone, Debug, Default)]
#[expect(
    missing_docs,
    reason = "each field is a flag of `stormlog query`, described in its help"
)]
pub struct RunFilter {
    pub run_id: Option<Text>,
    pub session_id: Option<Text>,
    pub job_id: Option<Text>,
    pub rank: Option<i64>,
    pub source_namespace: Option<Text>,
    pub source_ref: Option<Text>,
}

impl RunFilter {
    fn accepts(&self, row: &RunRow) -> bool {
        let run = &row.run;
        let session = self.session_id.as_ref();
        fits(self.run_id.as_ref(), Some(&run.run_id))
            && session.is_none_or(|id| row.session_ids().contains(id))
            && fits(self.job_id.as_ref(), run.job_id.as_ref())
            && self.rank.is_none_or(|rank| row.ranks().contains(&rank))
            && fits(
                self.source_namespace.as_ref(),
                run.source_namespace.as_ref(),
            )
            && fits(self.source_ref.as_ref(), run.source_ref.as_ref())
    }
}

impl super::Store {
    /// The runs that the filter accepts, the newest first.
    pub fn runs(&self, filter: &RunFilter) -> Vec<RunRow> {
        let contexts = self.run_contexts();
        let mut counts: HashMap<Text, i64> = HashMap::new();
        for row in self.run_attachments_of(&contexts) {
            *counts.entry(row.run_id).or_default() += 1;
        }
        let mut rows: Vec<RunRow> = contexts
            .into_iter()
            .map(|run| RunRow {
                attachment_count: counts.get(&run.run_id).copied().unwrap_or(0),
                run,
            })
            .filter(|row| filter.accepts(row))
            .collect();
        rows.sort_by(|a, b| {
            let key = |row: &RunRow| (row.run.started_at_ns, row.run.run_id.clone());
            key(b).cmp(&key(a))
        });
        rows
    }

    pub(crate) fn run_contexts(&self) -> Vec<RunContext> {
        let sessions = self.all_sessions(None);
        run_contexts(&sessions, &self.starts(), &self.catalog().run_envelopes)
    }
}

/// The runs that run envelopes (`stormlog_run.json`) describe, then the runs that the remaining
/// sessions form: one per run id, and, as in stormlog 0.3.9, of the sessions without a run id one
/// per job id and one for each session without a job id.
fn run_contexts(
    sessions: &[SessionRow],
    starts: &HashMap<Text, Start>,
    envelopes: &[RunEnvelope],
) -> Vec<RunContext> {
    let mut first: HashMap<&Text, &SessionRow> = HashMap::new();
    for row in sessions {
        first.entry(&row.summary.session_id).or_insert(row);
    }
    let listed = envelopes
        .iter()
        .map(|envelope| listed_sessions(envelope, sessions, &first));
    let mut listed: Vec<Vec<&SessionRow>> = listed.collect();
    let mut taken: HashSet<&Text> = session_ids(listed.iter().flatten());
    let mut recorded = recorded_runs(sessions, starts);
    for run in &mut recorded {
        let ids = session_ids(&run.sessions);
        let mut holders = (0..envelopes.len()).filter(|&index| {
            let mut listed = listed[index].iter();
            envelopes[index].run_id == run.id
                || listed.any(|row| ids.contains(&row.summary.session_id))
        });
        let holder = holders.next().filter(|_| holders.next().is_none());
        run.sessions
            .retain(|row| !taken.contains(&row.summary.session_id));
        taken.extend(session_ids(&run.sessions));
        if let Some(holder) = holder {
            listed[holder].append(&mut run.sessions);
        }
    }
    recorded.retain(|run| !run.sessions.is_empty());
    let explicit = envelopes.iter().zip(listed);
    let mut runs: Vec<RunContext> = explicit
        .map(|(envelope, members)| explicit_run(envelope, members))
        .collect();
    let mut groups: InOrder<Text, Vec<&SessionRow>> = InOrder::default();
    for row in sessions {
        let session_id = &row.summary.session_id;
        if taken.contains(session_id) {
            continue;
        }
        let id = match job_of(row) {
            Some(job) => format!("job:{job}"),
            None => format!("session:{session_id}"),
        };
        groups.entry(id.into()).push(row);
    }
    let mut ids: HashSet<Text> = runs.iter().map(|run| run.run_id.clone()).collect();
    let mut free_id = |id: Text| {
        let id = free_id(id, &ids);
        ids.insert(id.clone());
        id
    };
    for run in recorded {
        let job = run.sessions.iter().find_map(|row| job_of(row).cloned());
        let implicit = implicit_run(free_id(run.id), run.title, job, run.sessions);
        runs.push(RunContext {
            source_kind: RECORDED_RUN,
            program: run.program,
            ..implicit
        });
    }
    for (id, members) in groups.into_entries() {
        let job = job_of(members[0]);
        let title = match job {
            Some(job) => format!("Distributed job {job}"),
            None => format!("Session {}", members[0].summary.session_id),
        };
        runs.push(implicit_run(
            free_id(id),
            title.into(),
            job.cloned(),
            members,
        ));
    }
    runs
}

fn session_ids<'r, 's: 'r>(
    rows: impl IntoIterator<Item = &'r &'s SessionRow>,
) -> HashSet<&'s Text> {
    let rows = rows.into_iter();
    rows.map(|row| &row.summary.session_id).collect()
}

/// The job of a session; an empty job id does not identify a job.
fn job_of(row: &SessionRow) -> Option<&Text> {
    let job = row.summary.job_id.as_ref();
    job.filter(|job| !job.as_bytes().is_empty())
}

/// An id for a run: `id`, or a variant of it (`implicit:id`, `implicit:id:2`) if it is taken.
fn free_id(id: Text, taken: &HashSet<Text>) -> Text {
    if !taken.contains(&id) {
        return id;
    }
    let base = format!("implicit:{id}");
    let numbered = (2..).map(|number| format!("{base}:{number}"));
    std::iter::once(base.clone())
        .chain(numbered)
        .map(Text::from)
        .find(|candidate| !taken.contains(candidate))
        .unwrap_or(id)
}

/// The sessions that an envelope lists; if it lists none that exist, the sessions of its job.
fn listed_sessions<'s>(
    envelope: &RunEnvelope,
    sessions: &'s [SessionRow],
    first: &HashMap<&Text, &'s SessionRow>,
) -> Vec<&'s SessionRow> {
    let mut seen: HashSet<&Text> = HashSet::new();
    let listed = envelope.sessions.iter();
    let members: Vec<&SessionRow> = listed
        .filter(|entry| seen.insert(&entry.session_id))
        .filter_map(|entry| first.get(&entry.session_id).copied())
        .collect();
    if !members.is_empty() || envelope.job_id.is_none() {
        return members;
    }
    let of_job = |row: &&SessionRow| row.summary.job_id == envelope.job_id;
    sessions.iter().filter(of_job).collect()
}

fn explicit_run(envelope: &RunEnvelope, mut members: Vec<&SessionRow>) -> RunContext {
    in_order(&mut members);
    let (start, end) = span_of(&members);
    RunContext {
        run_id: envelope.run_id.clone(),
        explicit: true,
        title: envelope.title.clone(),
        description: envelope.description.clone(),
        job_id: envelope.job_id.clone().or_else(|| common_job(&members)),
        started_at_ns: envelope.started_at_ns.or(start),
        ended_at_ns: envelope.ended_at_ns.or(end),
        source_path: path_text(&envelope.path),
        source_kind: "run_envelope",
        source_namespace: envelope.source_namespace.clone(),
        source_ref: envelope.source_ref.clone(),
        sessions: members.into_iter().cloned().collect(),
        // The title of an envelope is the name that the user gave the run.
        program: Program {
            run_name: envelope.title.as_ref().map(Text::to_string),
            ..Program::default()
        },
        tags: envelope.tags.clone(),
        metadata: envelope.metadata.clone(),
    }
}

fn implicit_run(
    run_id: Text,
    title: Text,
    job_id: Option<Text>,
    mut members: Vec<&SessionRow>,
) -> RunContext {
    in_order(&mut members);
    let (started_at_ns, ended_at_ns) = span_of(&members);
    RunContext {
        run_id,
        explicit: false,
        title: Some(title),
        description: None,
        job_id,
        started_at_ns,
        ended_at_ns,
        source_path: members[0].source_path.clone(),
        source_kind: "implicit_run",
        source_namespace: None,
        source_ref: None,
        sessions: members.into_iter().cloned().collect(),
        program: Program::default(),
        tags: Vec::new(),
        metadata: Map::new(),
    }
}

/// Sorts sessions by start time and id.
fn in_order(members: &mut [&SessionRow]) {
    members.sort_by(|a, b| {
        let key = |row: &SessionRow| (row.summary.started_at_ns, row.summary.session_id.clone());
        key(a).cmp(&key(b))
    });
}

fn common_job(members: &[&SessionRow]) -> Option<Text> {
    let mut jobs = members.iter().filter_map(|row| row.summary.job_id.as_ref());
    let job = jobs.next()?;
    jobs.all(|other| other == job).then(|| job.clone())
}

/// The first start and the last end of the sessions of a run. The end of the run is unknown while any
/// of its sessions has no end.
fn span_of(members: &[&SessionRow]) -> (Option<i64>, Option<i64>) {
    let ends: Option<Vec<i64>> = members.iter().map(|row| row.summary.ended_at_ns).collect();
    let starts = members.iter().map(|row| row.summary.started_at_ns);
    (starts.min(), ends.and_then(|ends| ends.into_iter().max()))
}

/// Maps session ids, job ids and source references (`source_namespace` and `source_ref`) to the run
/// that they belong to. Those that belong to several runs are left out.
#[derive(Debug, Default)]
pub(crate) struct IdentityIndex {
    sessions: HashMap<Text, Text>,
    jobs: HashMap<Text, Text>,
    references: HashMap<(Text, Text), Text>,
    pub(crate) conflicts: Vec<String>,
}

impl IdentityIndex {
    /// Creates the index of the given runs. A job that was restarted has several runs with run ids;
    /// this is reported as a conflict only if the job is one of `named_jobs`, those by which
    /// attachments name their run.
    pub(crate) fn of(contexts: &[RunContext], named_jobs: &HashSet<&Text>) -> Self {
        let (mut sessions, mut jobs, mut references) =
            (Claims::default(), Claims::default(), Claims::default());
        for run in contexts {
            if let Some(job) = &run.job_id {
                jobs.entry(job.clone()).insert(&run.run_id);
            }
            for member in &run.sessions {
                let session = member.summary.session_id.clone();
                sessions.entry(session).insert(&run.run_id);
                if let Some(job) = &member.summary.job_id {
                    jobs.entry(job.clone()).insert(&run.run_id);
                }
            }
            if let (Some(namespace), Some(reference)) = (&run.source_namespace, &run.source_ref) {
                let reference = (namespace.clone(), reference.clone());
                references.entry(reference).insert(&run.run_id);
            }
        }
        let recorded: BTreeSet<&Text> = contexts
            .iter()
            .filter(|run| run.source_kind == RECORDED_RUN)
            .map(|run| &run.run_id)
            .collect();
        let matters = |job: &Text, runs: &BTreeSet<&Text>| {
            named_jobs.contains(job) || !runs.is_subset(&recorded)
        };
        let (sessions, of_sessions) = settle(sessions, "session_id", Text::to_string, |_, _| true);
        let (jobs, of_jobs) = settle(jobs, "job_id", Text::to_string, matters);
        let spelled = |(namespace, reference): &(Text, Text)| format!("{namespace}:{reference}");
        let (references, of_references) = settle(references, "source_ref", spelled, |_, _| true);
        Self {
            sessions,
            jobs,
            references,
            conflicts: [of_sessions, of_jobs, of_references].concat(),
        }
    }

    /// The run that an item belongs to: the item's run id if it has one, otherwise the run of its
    /// source reference, of its session or of its job, in this order.
    pub(crate) fn owner(
        &self,
        run_id: Option<&Text>,
        session_id: Option<&Text>,
        job_id: Option<&Text>,
        reference: Option<(&Text, &Text)>,
    ) -> Option<Text> {
        let by_reference = || {
            let (namespace, reference) = reference?;
            self.references.get(&(namespace.clone(), reference.clone()))
        };
        run_id
            .or_else(by_reference)
            .or_else(|| self.sessions.get(session_id?))
            .or_else(|| self.jobs.get(job_id?))
            .cloned()
    }

    pub(crate) fn warnings(&self) -> impl Iterator<Item = CatalogWarning> + '_ {
        self.conflicts.iter().map(|message| CatalogWarning {
            path: "<run-catalog>".into(),
            message: message.clone(),
        })
    }
}

/// For each key, such as a session id, the ids of the runs that the key may belong to (the runs that
/// claim it).
type Claims<'a, K> = InOrder<K, BTreeSet<&'a Text>>;

/// The keys that only one run claims, and a message about each key that several runs claim, if that
/// matters.
fn settle<K: Clone + Eq + std::hash::Hash>(
    claims: Claims<'_, K>,
    kind: &str,
    spell: impl Fn(&K) -> String,
    matters: impl Fn(&K, &BTreeSet<&Text>) -> bool,
) -> (HashMap<K, Text>, Vec<String>) {
    let mut settled = HashMap::new();
    let mut conflicts = Vec::new();
    for (key, runs) in claims.into_entries() {
        if let (1, Some(run)) = (runs.len(), runs.first()) {
            settled.insert(key, Text::clone(run));
        } else if matters(&key, &runs) {
            let runs: Vec<String> = runs.into_iter().map(Text::to_string).collect();
            let value = spell(&key);
            conflicts.push(format!(
                "ambiguous run {kind} '{value}': {}",
                runs.join(", ")
            ));
        }
    }
    (settled, conflicts)
}
