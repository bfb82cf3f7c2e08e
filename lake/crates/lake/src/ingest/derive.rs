//! Computes the rows about whole sessions and runs, with the same analysis as `stormlog analyze`
//! and `stormlog query`.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use hashbrown::{HashMap, HashSet};
use serde_json::{Value, json};
use stormlog_analysis::analyze::{AnalyzeOptions, Report, RunReport, analyze};
use stormlog_analysis::issue::IssueFilter;
use stormlog_analysis::query::{Catalog, OomBundle, OomFilter, SessionFilter, Source, Store};
use stormlog_analysis::regular_file::read_inside;
use stormlog_analysis::timeline::{id_of_run, run_id_of, run_id_of_start, runs_of_summaries};
use stormlog_analysis::{
    Damage, Gathered, LoadOptions, LoadedSession, ParsedFiles, gather, read_rollups,
};
use stormlog_compat::hidden_memory_anomalies;
use stormlog_format::json::{Layout, Writer, map_of};
use stormlog_format::{EventType, Map as Object, SessionSummary, Text};
use stormlog_lake_tables::Table;
use stormlog_report::analyze::Document;

use super::facts::MOST_DAMAGE;
use super::identity;
use super::plan::Unit;
use super::rows::day;
use super::table_rows::{Row, batch};

/// If the recordings of a run together have more bytes on disk than this, the run is not analyzed,
/// because that would take too much memory: the loaded events take about a third of the bytes on
/// disk, and the analysis takes as much again.
pub(super) const LARGEST_ANALYSIS: u64 = 512 << 20;

/// The largest `metadata.json` of an OOM bundle that is stored, in bytes.
const LARGEST_DETAILS: u64 = 4 << 20;

/// New rows for the tables about sessions and runs, which replace older rows of the same
/// recordings.
#[derive(Default)]
pub(super) struct Derived {
    rows: HashMap<Table, Vec<Row>>,
}

impl Derived {
    fn push(&mut self, table: Table, row: Value) {
        if let Value::Object(row) = row {
            self.rows.entry(table).or_default().push(row);
        }
    }

    /// The new rows of a table as an Arrow batch.
    pub(super) fn batch(&self, table: Table) -> Result<datafusion::arrow::array::RecordBatch> {
        batch(table, self.rows.get(&table).map_or(&[], Vec::as_slice))
    }
}

/// A cluster: units (recordings) that are analyzed together because they may contain sessions of one
/// run, and all data from which their rows are made.
pub(super) struct Cluster<'a> {
    pub(super) units: Vec<&'a Unit>,
    pub(super) catalog: &'a Catalog,
    /// The text of `/etc/passwd`, in which the names of file owners are looked up.
    pub(super) users: &'a str,
    pub(super) now_ns: i64,
}

impl Cluster<'_> {
    /// The ids of the cluster's streams and units, which are the `source_id` of all its rows.
    pub(super) fn source_ids(&self) -> BTreeSet<String> {
        let streams = self.units.iter().flat_map(|unit| &unit.pieces);
        let streams = streams.map(|piece| piece.source_id.clone());
        streams
            .chain(self.units.iter().map(|unit| unit.id.clone()))
            .collect()
    }

    /// The size on disk of the cluster's recordings, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let pieces = self.units.iter().flat_map(|unit| &unit.pieces);
        pieces.map(|piece| piece.bytes).sum()
    }

    /// Analyzes the units of the cluster together and adds the resulting rows to `derived`.
    /// `damage` contains the damage of each unit, by unit id; `parsed` contains the files that were
    /// parsed already and are still in memory.
    pub(super) fn derive(
        &self,
        damage: &HashMap<String, Vec<Damage>>,
        parsed: &ParsedFiles,
        derived: &mut Derived,
    ) {
        self.sources(damage, derived);
        let bytes = self.bytes();
        let gathered = if bytes <= LARGEST_ANALYSIS {
            self.gathered(parsed)
        } else {
            None
        };
        let report = gathered
            .as_ref()
            .and_then(|gathered| analyze(&gathered.loaded, &AnalyzeOptions::default()).ok());
        let loaded: Vec<&LoadedSession> = gathered
            .iter()
            .flat_map(|gathered| &gathered.loaded)
            .flat_map(|loaded| &loaded.sessions)
            .collect();
        let store = self.store(gathered.as_ref());
        let unanalyzed = match &report {
            Some(_) => Vec::new(),
            None => self.unanalyzed_runs(&store),
        };
        let runs = Runs::of(report.as_ref(), &loaded, &unanalyzed);
        let index = Index::of(&self.units, self.users);
        Self::sessions(derived, &index, &store, &runs, &loaded, bytes);
        for bundle in store.oom_bundles(&OomFilter::default()) {
            self.oom(derived, &index, &bundle);
        }
        if let Some(report) = &report {
            self.runs(derived, &index, report, &runs, &loaded);
            self.issues(derived, &index, &store, report);
        } else {
            self.unanalyzed(derived, &index, &unanalyzed, bytes);
        }
    }

    fn gathered(&self, parsed: &ParsedFiles) -> Option<Gathered> {
        let options = LoadOptions {
            most_damage: MOST_DAMAGE,
            parsed: Some(parsed),
            ..LoadOptions::skipping()
        };
        gather(&self.topmost(), &options).ok()
    }

    /// The paths to load: without those inside another one, because loading a recording also loads
    /// the recordings in its folder.
    fn topmost(&self) -> Vec<PathBuf> {
        let paths: Vec<&Path> = self.units.iter().map(|unit| unit.path.as_path()).collect();
        let known: HashSet<&Path> = paths.iter().copied().collect();
        let is_top = |path: &&&Path| !path.ancestors().skip(1).any(|above| known.contains(above));
        let top = paths.iter().filter(is_top);
        top.map(|path| path.to_path_buf()).collect()
    }

    fn store(&self, gathered: Option<&Gathered>) -> Store {
        let sources = self.units.iter().filter_map(|unit| unit.source);
        let bundles = self.units.iter().filter_map(|unit| unit.bundle);
        let store = Store::new(Catalog {
            sources: sources
                .map(|index| self.catalog.sources[index].clone())
                .collect(),
            oom_bundles: bundles
                .map(|index| self.catalog.oom_bundles[index].clone())
                .collect(),
            ..Catalog::default()
        });
        if let Some(gathered) = gathered {
            store.supply(gathered.whole_files());
        }
        store
    }

    fn sources(&self, damage: &HashMap<String, Vec<Damage>>, derived: &mut Derived) {
        for unit in &self.units {
            let bytes: u64 = unit.pieces.iter().map(|piece| piece.bytes).sum();
            let mut damage = damage.get(&unit.id).cloned().unwrap_or_default();
            damage.extend(unit.damage());
            let streams = unit.pieces.iter();
            let streams = streams.map(|piece| (piece.content_id.clone(), json!(piece.source_id)));
            let streams: Row = streams.collect();
            let row = json!({
                "date": day(self.now_ns),
                "source_id": unit.id,
                "path": stormlog_analysis::absolute(&unit.path),
                "kind": unit.kind,
                "bytes": bytes,
                "streams": Value::Object(streams).to_string(),
                "ingested_at_ns": self.now_ns,
                "damage": json!(damage).to_string(),
                "manifest_path": self.source(unit).and_then(|source| {
                    Some(source.manifest_path.as_ref()?.to_string_lossy())
                }),
                "rollups": read_rollups(&unit.path).map(|file| file.to_text()),
                "attachments": self.attachments(unit),
            });
            derived.push(Table::Sources, row);
        }
    }

    fn source(&self, unit: &Unit) -> Option<&Source> {
        self.catalog.sources.get(unit.source?)
    }

    /// The attachments in the files `stormlog_attachments.json` (sidecars) beside a unit, which
    /// link to data of other tools. A sidecar in a folder above several units belongs to the first
    /// of them.
    fn attachments(&self, unit: &Unit) -> Option<String> {
        let is_first = |sidecar: &Text| {
            let sidecar = sidecar.to_string();
            let folder = Path::new(&sidecar).parent().unwrap_or(Path::new(""));
            let mut sources = self.catalog.sources.iter();
            let first = sources.position(|source| {
                source.path.starts_with(folder) || folder.starts_with(&source.path)
            });
            first.is_some() && first == unit.source
        };
        let of_unit = self.catalog.attachments.iter();
        let of_unit = of_unit.filter(|attachment| is_first(&attachment.sidecar_path));
        let rows = of_unit.map(|attachment| plain(&map_of(attachment)));
        let rows: Vec<Value> = rows.collect();
        (!rows.is_empty()).then(|| Value::Array(rows).to_string())
    }

    fn sessions(
        derived: &mut Derived,
        index: &Index<'_>,
        store: &Store,
        runs: &Runs,
        loaded: &[&LoadedSession],
        bytes: u64,
    ) {
        // The sessions of a file without a manifest are known only when the file is loaded. If a
        // cluster with such a file is too large to be loaded, it gets no rows of sessions.
        let is_listed = bytes <= LARGEST_ANALYSIS
            || store
                .catalog()
                .sources
                .iter()
                .all(|source| source.manifest.is_some());
        if !is_listed {
            return;
        }
        let listed = in_manifests(store);
        // If several sessions have the same id, the first one is used.
        let by_id: HashMap<&Text, &LoadedSession> = loaded
            .iter()
            .rev()
            .map(|session| (&session.summary.session_id, *session))
            .collect();
        for row in store.sessions(&SessionFilter::default(), None) {
            let summary = &row.summary;
            let id = summary.session_id.to_string();
            let path = row.source_path.to_string();
            let recorded = by_id.get(&summary.session_id).copied();
            let mut all = plain(&map_of(&row));
            all["date"] = json!(day(summary.started_at_ns));
            all["source_id"] = json!(index.source_of(&id, &path));
            all["run_id"] = json!(runs.id_of(&id));
            all["thinned_until_ns"] = json!(recorded.and_then(|session| session.thinned_until_ns));
            all["start_metadata"] = json!(recorded.and_then(start_metadata));
            all["owner"] = json!(index.owner(Path::new(&path)));
            let first_file = recorded.and_then(|session| session.sources.first());
            all["first_file"] = json!(first_file.unwrap_or(&path));
            all["is_listed"] = json!(listed.contains(&summary.session_id));
            derived.push(Table::Sessions, all);
        }
    }

    fn oom(&self, derived: &mut Derived, index: &Index<'_>, bundle: &OomBundle) {
        let unit = index.by_path.get(bundle.bundle_path.as_path());
        let mut all = plain(&bundle.to_row());
        let created = bundle.created_ns();
        all["date"] = json!(day(created.unwrap_or(self.now_ns)));
        all["created_ns"] = json!(created);
        let details = bundle.bundle_path.join("metadata.json");
        let details = read_inside(&bundle.bundle_path, &details, LARGEST_DETAILS);
        all["details"] = json!(details.ok().and_then(|bytes| String::from_utf8(bytes).ok()));
        all["source_id"] = json!(unit.map_or(index.first, |unit| unit.id.as_str()));
        derived.push(Table::Ooms, all);
    }

    fn runs(
        &self,
        derived: &mut Derived,
        index: &Index<'_>,
        report: &Report,
        runs: &Runs,
        loaded: &[&LoadedSession],
    ) {
        let document = json!(Document::of(report));
        for (number, run) in report.runs.iter().enumerate() {
            let run_id = &runs.ids[number];
            let first = run
                .sessions
                .last()
                .map(|session| session.session_id.to_string());
            let source_id = index.source_of(first.as_deref().unwrap_or_default(), "");
            let findings: Vec<Value> = run
                .diagnosis
                .findings()
                .into_iter()
                .map(|one| json!(one))
                .collect();
            let versions = framework(run, loaded);
            let started = run
                .sessions
                .iter()
                .map(|session| session.started_at_ns)
                .min();
            let started = started.unwrap_or(0);
            let is_over = run
                .sessions
                .iter()
                .all(|session| session.ended_at_ns.is_some());
            let ended = run
                .sessions
                .iter()
                .filter_map(|session| session.ended_at_ns)
                .max();
            let hosts: BTreeSet<String> = run
                .sessions
                .iter()
                .map(|session| session.host.to_string())
                .collect();
            let ids: Vec<String> = run
                .sessions
                .iter()
                .map(|session| session.session_id.to_string())
                .collect();
            let peak = |of: fn(&stormlog_analysis::timeline::Peaks) -> Option<i64>| {
                run.ranks.iter().filter_map(|rank| of(&rank.peaks)).max()
            };
            let worst = run.diagnosis.findings().into_iter();
            let worst = worst.max_by_key(|one| one.severity).map(|one| json!(one));
            derived.push(
                Table::Runs,
                json!({
                    "date": day(started),
                    "source_id": source_id,
                    "run_id": run_id,
                    "job_id": run.job_id.as_ref().map(ToString::to_string),
                    "program": run.timeline.program.name,
                    "git_commit": run.timeline.program.commit,
                    "framework": versions.as_ref().map(|(name, _)| name),
                    "framework_version": versions.as_ref().map(|(_, version)| version),
                    "owner": self.units.first().and_then(|unit| index.owner(&unit.path)),
                    "world_size": run.world_size,
                    "ranks": run.ranks.len(),
                    "sessions": run.sessions.len(),
                    "session_ids": json!(ids).to_string(),
                    "hosts": json!(hosts).to_string(),
                    "started_at_ns": started,
                    "ended_at_ns": ended.filter(|_| is_over),
                    "samples": run.ranks.iter().map(|rank| rank.samples).sum::<usize>(),
                    "peak_allocated_bytes": peak(|peaks| peaks.allocated),
                    "peak_reserved_bytes": peak(|peaks| peaks.reserved),
                    "peak_used_bytes": peak(|peaks| peaks.used),
                    "verdict": run.diagnosis.outcome(),
                    "severity": worst.as_ref().map(|worst| &worst["severity"]),
                    "findings": findings.len(),
                    "document": document.get("runs").map(|runs| runs[number].to_string()),
                }),
            );
            for (finding_index, mut row) in findings.into_iter().enumerate() {
                let text = row.to_string();
                let session = row["session_id"].as_str().unwrap_or_default().to_owned();
                row["document"] = json!(text);
                row["date"] = json!(day(row["onset_ns"].as_i64().unwrap_or(started)));
                row["source_id"] = json!(index.source_of(&session, ""));
                row["run_id"] = json!(run_id);
                row["place"] = json!(finding_index);
                derived.push(Table::Findings, row);
            }
        }
    }

    fn issues(&self, derived: &mut Derived, index: &Index<'_>, store: &Store, report: &Report) {
        let (all, no_states) = (IssueFilter::default(), std::collections::HashMap::new());
        let mut issues = store.issues_of_report(report, &all, &no_states);
        // `query issues` lists the anomalies that stormlog 0.3.9 finds.
        issues.extend(hidden_memory_anomalies(store));
        for issue in issues {
            let first = issue.affected_sessions.first().map(ToString::to_string);
            let seen = issue
                .first_seen_ns
                .or(issue.last_seen_ns)
                .unwrap_or(self.now_ns);
            let source_id = index.source_of(first.as_deref().unwrap_or_default(), "");
            let issue = map_of(&issue);
            let document = Writer::new(Layout::Line).map_to_string(&issue);
            let mut row = plain(&issue);
            row["date"] = json!(day(seen));
            row["source_id"] = json!(source_id);
            row["document"] = json!(document);
            derived.push(Table::Issues, row);
        }
    }

    /// The runs of a cluster that is too large to be analyzed at once, or that cannot be loaded, as
    /// its manifests list them.
    fn unanalyzed_runs<'s>(&self, store: &'s Store) -> Vec<UnanalyzedRun<'s>> {
        let pieces = self.units.iter().flat_map(|unit| &unit.pieces);
        let starts = pieces.filter_map(|piece| piece.first.as_deref());
        let mut run_ids: HashMap<&Text, Text> = HashMap::new();
        for start in starts {
            if let Some(id) = run_id_of_start(&start.metadata) {
                run_ids.entry(&start.session_id).or_insert(id);
            }
        }
        let top = self.topmost();
        let mut sessions: Vec<(usize, &SessionSummary, Option<Text>)> = Vec::new();
        for source in &store.catalog().sources {
            let artifact = top.iter().position(|path| source.path.starts_with(path));
            let artifact = artifact.unwrap_or(top.len());
            for summary in source.manifest.iter().flat_map(|one| &one.sessions) {
                let run_id = run_ids.get(&summary.session_id).cloned();
                sessions.push((artifact, summary, run_id));
            }
        }
        let runs = runs_of_summaries(sessions.iter().cloned()).into_iter();
        let runs = runs.filter_map(|members| {
            let recorded = members.iter().find_map(|&index| sessions[index].2.clone());
            let sessions: Vec<&SessionSummary> =
                members.iter().map(|&index| sessions[index].1).collect();
            let id = id_of_run(recorded, sessions.iter().copied())?.to_string();
            Some(UnanalyzedRun { id, sessions })
        });
        runs.collect()
    }

    fn unanalyzed(
        &self,
        derived: &mut Derived,
        index: &Index<'_>,
        runs: &[UnanalyzedRun<'_>],
        bytes: u64,
    ) {
        let verdict = if bytes > LARGEST_ANALYSIS {
            "too_large"
        } else {
            "unreadable"
        };
        for run in runs {
            let sessions = || run.sessions.iter();
            let Some(first) = sessions().min_by_key(|session| session.started_at_ns) else {
                continue;
            };
            let ids: Vec<String> = sessions()
                .map(|session| session.session_id.to_string())
                .collect();
            let hosts: BTreeSet<String> =
                sessions().map(|session| session.host.to_string()).collect();
            let ranks: BTreeSet<i64> = sessions().map(|session| session.rank).collect();
            derived.push(
                Table::Runs,
                json!({
                    "date": day(first.started_at_ns),
                    "source_id": index.source_of(&first.session_id.to_string(), ""),
                    "run_id": run.id,
                    "job_id": first.job_id.as_ref().map(ToString::to_string),
                    "owner": self.units.first().and_then(|unit| index.owner(&unit.path)),
                    "world_size": sessions().map(|session| session.world_size).max(),
                    "ranks": ranks.len(),
                    "sessions": run.sessions.len(),
                    "session_ids": json!(ids).to_string(),
                    "hosts": json!(hosts).to_string(),
                    "started_at_ns": first.started_at_ns,
                    "samples": 0,
                    "verdict": verdict,
                    "findings": 0,
                }),
            );
        }
    }
}

/// A run that was not analyzed.
struct UnanalyzedRun<'s> {
    id: String,
    sessions: Vec<&'s SessionSummary>,
}

/// The ids of the sessions that the manifest of a sink or a diagnose bundle lists.
fn in_manifests(store: &Store) -> HashSet<&Text> {
    let sources = store.catalog().sources.iter();
    let listed = sources.flat_map(|source| {
        let manifest = source.manifest.iter();
        let listed = manifest.flat_map(|manifest| &manifest.sessions);
        listed.chain(&source.diagnosed)
    });
    listed.map(|session| &session.session_id).collect()
}

/// Finds the units and streams of a cluster by session or path; a run may have thousands of them. A
/// stream is the sequence of rows with one source id.
struct Index<'a> {
    /// For each session id, the source id of the first piece (a file with events) whose first event
    /// belongs to that session.
    by_session: HashMap<String, &'a str>,
    by_path: HashMap<&'a Path, &'a Unit>,
    /// The source id of the first piece (a file with events) of all units, or the id of the first
    /// unit if no unit has pieces.
    first: &'a str,
    users: &'a str,
}

impl<'a> Index<'a> {
    fn of(units: &[&'a Unit], users: &'a str) -> Self {
        let pieces = || units.iter().flat_map(|unit| &unit.pieces);
        let mut by_session = HashMap::new();
        for piece in pieces() {
            if let Some(first) = &piece.first {
                let id = first.session_id.to_string();
                by_session.entry(id).or_insert(piece.source_id.as_str());
            }
        }
        let first = pieces().next().map(|piece| &piece.source_id);
        let first = first.or_else(|| units.first().map(|unit| &unit.id));
        Self {
            by_session,
            by_path: units
                .iter()
                .map(|unit| (unit.path.as_path(), *unit))
                .collect(),
            first: first.map_or("", String::as_str),
            users,
        }
    }

    /// The id of a session's stream, or else the id of the unit that contains the session.
    fn source_of(&self, session_id: &str, path: &str) -> &str {
        let at_path = || {
            let unit = self.by_path.get(Path::new(path))?;
            let piece = unit.pieces.first();
            Some(piece.map_or(unit.id.as_str(), |piece| piece.source_id.as_str()))
        };
        let of_session = self.by_session.get(session_id).copied();
        of_session.or_else(at_path).unwrap_or(self.first)
    }

    /// The name of the user who owns a path, or the user's number where the machine does not know
    /// the name.
    fn owner(&self, path: &Path) -> Option<String> {
        let uid = path.metadata().ok()?.uid();
        let named = self.users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
        });
        Some(named.unwrap_or_else(|| uid.to_string()))
    }
}

/// The ids of the runs of a cluster, and which session belongs to which run.
struct Runs {
    /// The ids of the runs, in the order of the analysis report, or else of the unanalyzed runs.
    ids: Vec<String>,
    /// For each session id, the index of the session's run in `ids`.
    of_session: HashMap<String, usize>,
}

impl Runs {
    fn of(
        report: Option<&Report>,
        loaded: &[&LoadedSession],
        unanalyzed: &[UnanalyzedRun<'_>],
    ) -> Self {
        let mut runs = Self {
            ids: Vec::new(),
            of_session: HashMap::new(),
        };
        for run in report.into_iter().flat_map(|report| &report.runs) {
            runs.add(run_id(run, loaded), &mut run.sessions.iter());
        }
        for run in unanalyzed {
            runs.add(run.id.clone(), &mut run.sessions.iter().copied());
        }
        runs
    }

    fn add(&mut self, id: String, sessions: &mut dyn Iterator<Item = &SessionSummary>) {
        for session in sessions {
            let session = session.session_id.to_string();
            self.of_session.insert(session, self.ids.len());
        }
        self.ids.push(id);
    }

    /// The id of a session's run; a session without a run has its own id as run id.
    fn id_of<'s>(&'s self, session_id: &'s str) -> &'s str {
        let run = self.of_session.get(session_id);
        run.map_or(session_id, |run| &self.ids[*run])
    }
}

/// The id of a run. All ranks have the same run id, wherever and whenever they are ingested. Several
/// attempts of one job have the same run id and differ in their start time.
fn run_id(run: &RunReport, loaded: &[&LoadedSession]) -> String {
    let recorded = of_run(run, loaded).find_map(run_id_of);
    let id = id_of_run(recorded, &run.sessions);
    id.map_or_else(|| identity::hash(&[b"run"]), |id| id.to_string())
}

/// The loaded sessions that belong to a run.
fn of_run<'a>(
    run: &'a RunReport,
    loaded: &'a [&LoadedSession],
) -> impl Iterator<Item = &'a LoadedSession> {
    let ids: HashSet<&Text> = run.sessions.iter().map(|one| &one.session_id).collect();
    let loaded = loaded.iter().copied();
    loaded.filter(move |session| ids.contains(&session.summary.session_id))
}

/// The metadata of a session's start event as JSON text; `None` if the first events of the session
/// do not include a start event.
fn start_metadata(session: &LoadedSession) -> Option<String> {
    let mut first = session.events.iter().take(16);
    let start = first.find(|event| EventType::Start.is(event.event_type()))?;
    Some(String::from_utf8_lossy(&start.metadata_json()).into_owned())
}

/// The framework of a run and its version, from the event that begins a session.
fn framework(run: &RunReport, loaded: &[&LoadedSession]) -> Option<(String, String)> {
    for session in of_run(run, loaded) {
        let Some(text) = start_metadata(session) else {
            continue;
        };
        let Ok(metadata) = serde_json::from_str::<Value>(&text) else {
            continue;
        };
        for name in ["torch", "tensorflow", "jax"] {
            if let Some(version) = metadata["versions"][name].as_str() {
                return Some((name.to_owned(), version.to_owned()));
            }
        }
    }
    None
}

/// Converts an object of Stormlog's own JSON type to a value of `serde_json`.
fn plain(row: &Object) -> Value {
    let text = Writer::new(Layout::Line).map_to_string(row);
    serde_json::from_str(&text).unwrap_or_else(|_| json!({}))
}
