//! Reads the sources, sessions and OOM bundles from the tables of a lake, and converts them to the
//! types of `stormlog query`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use datafusion::arrow::array::{AsArray, RecordBatch};
use stormlog_analysis::query::{
    ExternalAttachment, OomBundle, SessionRow, Source, SourceKind, Store, StoreParts,
};
use stormlog_analysis::{Events, EventsBuilder, Loaded, LoadedSession};
use stormlog_format::json::parse;
use stormlog_format::rollup::RollupFile;
use stormlog_format::{
    Manifest, Map, ProcessIdentity, SEGMENT_PREFIX, SessionStatus, SessionSummary, Text, Value,
    file_names,
};

use crate::asker::Asker;
use crate::columns::{Ints, Texts};
use crate::error::AskError;
use crate::event_rows::EventRows;

/// The source id and the session id of a session. A source id names a stream: the rows of all
/// segments of a session that one process wrote, or the rows of one file that is not a segment.
type SessionKey = (String, String);

/// A row of the table `sessions`: a session and the file or sink in which it was recorded.
#[derive(Clone, Debug)]
struct RecordedSession {
    source_id: String,
    row: SessionRow,
    first_file: String,
    is_listed: bool,
    thinned_until_ns: Option<i64>,
}

/// A row of the table `sources`: an ingested path with its manifest, rollups and attachments.
#[derive(Clone, Debug)]
struct Described {
    path: String,
    manifest_path: Option<PathBuf>,
    rollups: Option<RollupFile>,
    attachments: Vec<ExternalAttachment>,
}

/// The contents of the tables `sources`, `sessions` and `ooms` of a lake.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    described: Vec<Described>,
    /// The sessions, grouped by source; sources with a manifest come first, then files, each by
    /// path.
    sessions: Vec<RecordedSession>,
    ooms: Vec<OomBundle>,
}

impl RecordedSession {
    fn key(&self) -> SessionKey {
        let session = self.row.summary.session_id.to_str_lossy();
        (self.source_id.clone(), session.into_owned())
    }

    /// Whether two sessions were found at the same path.
    fn shares_source(&self, other: &Self) -> bool {
        self.row.source_path == other.row.source_path
            && self.row.source_kind == other.row.source_kind
    }

    /// Whether the session's events are in segments of a sink.
    fn is_of_sink(&self) -> bool {
        let name = Path::new(&self.first_file).file_name().unwrap_or_default();
        name.to_string_lossy().starts_with(SEGMENT_PREFIX)
    }

    /// The folder that contains the session's files.
    fn folder(&self) -> PathBuf {
        let file = Path::new(&self.first_file);
        file.parent().unwrap_or(file).to_path_buf()
    }

    /// The session as it would be loaded from its files, with the given events.
    fn with_events(&self, events: Events) -> LoadedSession {
        LoadedSession {
            summary: self.row.summary.clone(),
            events,
            sources: vec![self.first_file.clone()],
            damage: Vec::new(),
            thinned_until_ns: self.thinned_until_ns,
        }
    }
}

impl Recorded {
    /// Reads the tables `sources`, `sessions` and `ooms` of the lake.
    pub(crate) async fn read(asker: &Asker) -> Result<Self, AskError> {
        let mut recorded = Self::default();
        for batch in asker.batches("SELECT * FROM sources").await? {
            recorded.described.extend(descriptions_of(&batch)?);
        }
        for batch in asker.batches("SELECT * FROM sessions").await? {
            recorded.sessions.extend(sessions_of(&batch)?);
        }
        // Sessions are sorted as `stormlog query` sorts the sources of files: sources with a
        // manifest first, then files, each by path.
        recorded.sessions.sort_by(|a, b| {
            let source = |one: &RecordedSession| {
                let kind = one.row.source_kind;
                let has_manifest = matches!(kind, SourceKind::Sink | SourceKind::DiagnoseBundle);
                (!has_manifest, one.row.source_path.clone())
            };
            let (first, second) = (&a.row.summary, &b.row.summary);
            source(a)
                .cmp(&source(b))
                .then_with(|| first.selection_key().cmp(&second.selection_key()))
        });
        for batch in asker.batches("SELECT * FROM ooms").await? {
            recorded.ooms.extend(ooms_of(&batch)?);
        }
        recorded
            .ooms
            .sort_by(|a, b| a.bundle_path.cmp(&b.bundle_path));
        // The same bundle may have been ingested through two paths: a folder and a folder above it.
        recorded
            .ooms
            .dedup_by(|a, b| a.bundle_path == b.bundle_path);
        Ok(recorded)
    }

    /// The index of the first session with this source id in `sessions`; `usize::MAX` if there is
    /// none.
    pub(crate) fn index_of(&self, source_id: &str) -> usize {
        let mut sessions = self.sessions.iter();
        let index = sessions.position(|one| one.source_id == source_id);
        index.unwrap_or(usize::MAX)
    }

    /// The parts from which a [`Store`](stormlog_analysis::query::Store) is made: the sources,
    /// sessions and bundles that were recorded, with the given events of the sessions.
    pub(crate) fn into_parts(self, mut events: Gathered) -> StoreParts {
        events.settle(&self.sessions);
        let mut parts = StoreParts::default();
        let of_path = |path: &str| {
            let mut described = self.described.iter();
            described.find(|one| Path::new(&one.path).ends_with(path))
        };
        for same_source in self.sessions.chunk_by(RecordedSession::shares_source) {
            let row = &same_source[0].row;
            let path = row.source_path.to_str_lossy();
            let described = of_path(&path);
            let listed = same_source.iter().filter(|session| session.is_listed);
            let mut listed = listed.map(|session| session.row.summary.clone());
            let mut source = Source {
                path: PathBuf::from(&*path),
                kind: row.source_kind,
                event_paths: Vec::new(),
                manifest_path: described.and_then(|one| one.manifest_path.clone()),
                manifest: None,
                diagnosed: None,
            };
            let rollups = described.and_then(|one| one.rollups.clone());
            let loaded = Loaded {
                sessions: same_source
                    .iter()
                    .map(|session| session.with_events(events.take(&session.key())))
                    .collect(),
                ..Loaded::default()
            };
            if row.source_kind == SourceKind::DiagnoseBundle {
                // A diagnose bundle becomes a source without events; the sink inside it, if there
                // is one, becomes a source of its own with the events.
                let sink = Source {
                    path: same_source[0].folder(),
                    kind: SourceKind::Sink,
                    ..source.clone()
                };
                source.diagnosed = listed.next_back();
                push(&mut parts, source, Loaded::default(), None);
                if same_source[0].is_of_sink() {
                    push(&mut parts, sink, loaded, rollups);
                }
            } else {
                source.manifest = manifest_of(listed.collect());
                push(&mut parts, source, loaded, rollups);
            }
        }
        let attachments = self.described.iter().flat_map(|one| &one.attachments);
        parts.catalog.attachments = attachments.cloned().collect();
        parts.catalog.oom_bundles = self.ooms;
        parts.sessions = self.sessions.into_iter().map(|one| one.row).collect();
        parts
    }
}

/// Makes a [`Store`], which answers queries, from the sessions and OOM bundles of the lake, without
/// events.
pub(crate) async fn store_of_sessions(asker: &Asker) -> Result<Store, AskError> {
    let recorded = Recorded::read(asker).await?;
    Ok(Store::of_parts(recorded.into_parts(Gathered::default())))
}

/// Adds one source with its sessions, events and rollups to the parts from which a store is made.
fn push(parts: &mut StoreParts, source: Source, loaded: Loaded, rollups: Option<RollupFile>) {
    parts.catalog.sources.push(source);
    parts.loaded.push(loaded);
    parts.rollups.push(rollups);
}

/// The events of each session, while they are collected from query results.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    builders: HashMap<SessionKey, EventsBuilder>,
    settled: HashMap<SessionKey, Events>,
}

impl Gathered {
    /// Adds rows of events that are ordered by session and time.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<(), AskError> {
        let rows = EventRows::of(batch)?;
        for row in 0..rows.len() {
            let key = (
                rows.source_id.text(row).to_owned(),
                rows.session_id.text(row).to_owned(),
            );
            rows.push_row(row, self.builders.entry(key).or_default());
        }
        Ok(())
    }

    /// Assigns every stream of events to a session: to the session with the same source id and
    /// session id, or else to the first session with the same session id. Several processes may
    /// record one session, so a stream need not have a row in `sessions`.
    fn settle(&mut self, sessions: &[RecordedSession]) {
        let keys: Vec<SessionKey> = sessions.iter().map(RecordedSession::key).collect();
        let mut streams: Vec<(SessionKey, EventsBuilder)> = self.builders.drain().collect();
        streams.sort_by(|a, b| a.0.cmp(&b.0));
        for (key, builder) in streams {
            let same = keys.iter().find(|one| **one == key);
            let of_id = || keys.iter().find(|one| one.1 == key.1);
            let Some(session) = same.or_else(of_id) else {
                continue;
            };
            let events = builder.finish();
            let joined = match self.settled.remove(session) {
                Some(others) => Events::merged(&[&others, &events]),
                None => events,
            };
            self.settled.insert(session.clone(), joined);
        }
    }

    fn take(&mut self, key: &SessionKey) -> Events {
        self.settled.remove(key).unwrap_or_default()
    }
}

fn manifest_of(sessions: Vec<SessionSummary>) -> Option<Manifest> {
    if sessions.is_empty() {
        return None;
    }
    let mut manifest = Manifest::from_value(&Value::Map(Map::new()))?;
    manifest.sessions = sessions;
    Some(manifest)
}

fn descriptions_of(batch: &RecordBatch) -> Result<Vec<Described>, AskError> {
    let text = |name| Texts::of(batch, name);
    let (path, manifest) = (text("path")?, text("manifest_path")?);
    let (rollups, attachments) = (text("rollups")?, text("attachments")?);
    let rows = (0..batch.num_rows()).map(|row| Described {
        path: path.text(row).to_owned(),
        manifest_path: manifest.get(row).map(PathBuf::from),
        rollups: rollups.get(row).and_then(|text| {
            let document = parse(text.as_bytes()).ok()?;
            RollupFile::from_value(&document).ok()
        }),
        attachments: attachments.get(row).map_or_else(Vec::new, attachments_of),
    });
    Ok(rows.collect())
}

fn attachments_of(text: &str) -> Vec<ExternalAttachment> {
    let Ok(Value::List(items)) = parse(text.as_bytes()) else {
        return Vec::new();
    };
    let items = items.iter().filter_map(Value::as_map);
    items.filter_map(ExternalAttachment::from_map).collect()
}

fn sessions_of(batch: &RecordBatch) -> Result<Vec<RecordedSession>, AskError> {
    let text = |name| Texts::of(batch, name);
    let int = |name| Ints::of(batch, name);
    let source_id = text("source_id")?;
    let (session_id, status) = (text("session_id")?, text("status")?);
    let effective_status = text("effective_status")?;
    let (started_at_ns, ended_at_ns) = (int("started_at_ns")?, int("ended_at_ns")?);
    let (host, pid, job_id) = (text("host")?, int("pid")?, text("job_id")?);
    let (rank, local_rank) = (int("rank")?, int("local_rank")?);
    let (world_size, source) = (int("world_size")?, text("source")?);
    let recorder = text("recorder")?;
    let (source_path, source_kind) = (text("source_path")?, text("source_kind")?);
    let (source_count, warning_count) = (int("source_count")?, int("warning_count")?);
    let (event_count, first_file) = (int("event_count")?, text("first_file")?);
    let thinned_until_ns = int("thinned_until_ns")?;
    let is_listed = batch.column_by_name("is_listed");
    let is_listed = is_listed.and_then(|column| column.as_boolean_opt());
    let word = |column: &'static str, text: &str| {
        SessionStatus::from_word(&Text::from(text)).ok_or_else(|| AskError::Cell {
            table: "sessions",
            column,
            reason: format!("'{text}' is not a status"),
        })
    };
    let rows = (0..batch.num_rows()).map(|row| {
        let kind = source_kind.text(row);
        let kind = SourceKind::parse(kind).ok_or_else(|| AskError::Cell {
            table: "sessions",
            column: "source_kind",
            reason: format!("'{kind}' is not a kind of source"),
        })?;
        let identity = recorder.get(row).and_then(|text| {
            let document = parse(text.as_bytes()).ok()?;
            ProcessIdentity::from_map(document.as_map()?)
        });
        Ok(RecordedSession {
            source_id: source_id.text(row).to_owned(),
            row: SessionRow {
                summary: SessionSummary {
                    session_id: session_id.text(row).into(),
                    status: word("status", status.text(row))?,
                    started_at_ns: started_at_ns.number(row),
                    ended_at_ns: ended_at_ns.get(row),
                    host: host.text(row).into(),
                    pid: pid.number(row),
                    job_id: job_id.get(row).map(Text::from),
                    rank: rank.number(row),
                    local_rank: local_rank.number(row),
                    world_size: world_size.number(row),
                    source: source.text(row).into(),
                    recorder: identity,
                },
                effective_status: word("effective_status", effective_status.text(row))?,
                source_path: source_path.text(row).into(),
                source_kind: kind,
                source_count: source_count.number(row),
                warning_count: warning_count.number(row),
                event_count: event_count.get(row),
                oom_bundle_count: 0,
            },
            first_file: first_file.text(row).to_owned(),
            is_listed: is_listed.is_some_and(|column| column.value(row)),
            thinned_until_ns: thinned_until_ns.get(row),
        })
    });
    rows.collect()
}

fn ooms_of(batch: &RecordBatch) -> Result<Vec<OomBundle>, AskError> {
    let text = |name| Texts::of(batch, name);
    let (path, created_at_utc) = (text("bundle_path")?, text("created_at_utc")?);
    let (backend, reason) = (text("backend")?, text("reason")?);
    let event_count = Ints::of(batch, "event_count")?;
    let (session_id, session_status) = (text("session_id")?, text("session_status")?);
    let (exception_type, exception_module) = (text("exception_type")?, text("exception_module")?);
    let rows = (0..batch.num_rows()).map(|row| {
        let known = |column: &Texts| column.get(row).map(Text::from);
        let bundle_path = PathBuf::from(path.text(row));
        OomBundle {
            manifest_path: bundle_path.join(file_names::MANIFEST),
            bundle_path,
            created_at_utc: known(&created_at_utc),
            backend: known(&backend),
            reason: known(&reason),
            event_count: event_count.get(row),
            session_id: known(&session_id),
            session_status: known(&session_status),
            exception_type: known(&exception_type),
            exception_module: known(&exception_module),
        }
    });
    Ok(rows.collect())
}
