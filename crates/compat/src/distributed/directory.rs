//! Finds the event files at a path: a single file, or all files below a directory that may contain
//! events.

use std::path::{Path, PathBuf};

use stormlog_analysis::catalog::DEEPEST;
use stormlog_analysis::{Artifact, LoadError, LoadOptions, Loaded, LoadedSession};
use stormlog_analysis::{load_document, load_sessions, sink_names};
use stormlog_format::file_names::TIMELINE;
use stormlog_format::{EventType, SessionStatus, SinkNames, Text, stable_legacy_session_id};

use super::gather::{Sessions, shown};
use super::group;
use super::rank_choice::RankChoice;
use super::{table, timeline};

/// The sessions that were loaded from a path, each with its warnings, and warnings about the path
/// itself.
#[derive(Default)]
pub(super) struct Found {
    pub(super) sessions: Vec<(LoadedSession, Vec<String>)>,
    pub(super) warnings: Vec<String>,
    /// Whether the path is a single file whose records have no session id.
    pub(super) nameless_file: bool,
}

/// Loads all sessions from a file, or from all files with events below a directory.
pub(super) fn load_path(path: &Path, ranks: &mut RankChoice) -> Found {
    let found = if path.is_dir() {
        load_directory(path, ranks)
    } else if path.exists() {
        load_file(path, ranks)
    } else {
        Found::warning(format!("Path does not exist: {}", shown(path)))
    };
    ranks.observe(&found.sessions);
    found
}

fn load_directory(directory: &Path, ranks: &mut RankChoice) -> Found {
    let mut sessions = Sessions::default();
    let mut nameless = Vec::new();
    let mut warnings = Vec::new();
    let sink = sink_in(directory);
    ranks.observe(&sink.sessions);
    warnings.extend(sink.warnings);
    sessions.add(sink.sessions);
    let mut below = Below::default();
    below.collect(directory, 0);
    below.files.sort();
    below.timelines.sort();
    for file in below.files {
        let mut found = load_file(&file, ranks);
        ranks.observe(&found.sessions);
        warnings.append(&mut found.warnings);
        if found.nameless_file {
            nameless.append(&mut found.sessions);
        } else {
            sessions.add(found.sessions);
        }
    }
    sessions.add(group::without_names(&nameless).into_iter().collect());
    for file in below.timelines {
        let found = timeline::load(&file, ranks);
        warnings.extend(found.warnings);
        sessions.add(found.sessions);
    }
    let sessions = sessions.finish();
    if sessions.is_empty() {
        let directory = shown(directory);
        warnings.push(format!(
            "No telemetry event payloads found in directory: {directory}"
        ));
    }
    Found {
        sessions,
        warnings,
        nameless_file: false,
    }
}

/// Loads the sessions of a directory that Stormlog recorded into; returns nothing when the
/// directory has no segments of events.
fn sink_in(directory: &Path) -> Found {
    if sink_names(directory) == Some(SinkNames::Host) {
        // Host sinks are skipped, because stormlog 0.3.9 does not read them and host memory is not
        // device memory.
        return Found::default();
    }
    // Only a sink whose segments are directly in this directory is loaded here. The sink inside a
    // diagnose bundle is not: a bundle is loaded from its timeline file.
    let is_sink = matches!(
        Artifact::at(directory),
        Ok(Artifact::Sink { segments, .. })
            if segments.iter().any(|segment| segment.parent() == Some(&stormlog_analysis::tidy(directory)))
    );
    if !is_sink {
        return Found::default();
    }
    match load_sessions(directory, &LoadOptions::default()) {
        Ok(loaded) => Found::of(loaded),
        Err(error) => {
            let directory = shown(directory);
            Found::warning(format!(
                "Failed to parse telemetry sink directory {directory}: {error}"
            ))
        }
    }
}

fn load_file(file: &Path, ranks: &mut RankChoice) -> Found {
    if file.file_name().is_some_and(|name| name == TIMELINE) {
        return timeline::load(file, ranks);
    }
    let ending = file.extension().map(|ending| ending.to_string_lossy());
    let ending = ending.map(|ending| ending.to_lowercase());
    let options = LoadOptions::default();
    match ending.as_deref() {
        Some("json") => of_records(file, load_document(file, &options), Some("json")),
        Some("jsonl") => of_records(file, load_sessions(file, &options), None),
        Some("csv") => {
            let (loaded, warnings) = table::load(file);
            let mut found = of_records(file, Ok(loaded), Some("csv"));
            for (session, session_warnings) in &mut found.sessions {
                completed_only_at_the_end(session);
                session_warnings.clone_from(&warnings);
            }
            found.warnings = warnings;
            found
        }
        _ => Found::warning(format!("Unsupported artifact file type: {}", shown(file))),
    }
}

/// The session of a CSV table counts as completed only if its last event is a stop event.
fn completed_only_at_the_end(session: &mut LoadedSession) {
    let last = session.events.len().checked_sub(1);
    let last = last.and_then(|last| session.events.get(last));
    if last.is_none_or(|event| !EventType::Stop.is(event.event_type())) {
        session.summary.status = SessionStatus::Incomplete;
        session.summary.ended_at_ns = None;
    }
}

/// Converts the records of a file to sessions. The argument `kind` becomes part of the session id
/// of records without a session id.
fn of_records(file: &Path, loaded: Result<Loaded, LoadError>, kind: Option<&str>) -> Found {
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            let file = shown(file);
            return Found::warning(format!(
                "Failed to parse JSON telemetry file {file}: {error}"
            ));
        }
    };
    let nameless_file = match (loaded.sessions.as_slice(), kind) {
        ([only], Some(kind)) => {
            let parts = [Text::from(stormlog_analysis::absolute(file)), kind.into()];
            only.summary.session_id == stable_legacy_session_id(&parts)
        }
        _ => false,
    };
    Found {
        nameless_file,
        ..Found::of(loaded)
    }
}

impl Found {
    fn of(loaded: Loaded) -> Self {
        let sessions = loaded.sessions.into_iter();
        Self {
            sessions: sessions.map(|session| (session, Vec::new())).collect(),
            ..Self::default()
        }
    }

    pub(super) fn warning(warning: String) -> Self {
        Self {
            warnings: vec![warning],
            ..Self::default()
        }
    }
}

/// The files below a directory whose names suggest that they contain events, such as `events.json`.
#[derive(Default)]
struct Below {
    files: Vec<PathBuf>,
    timelines: Vec<PathBuf>,
}

impl Below {
    fn collect(&mut self, directory: &Path, depth: usize) {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Links to directories are not followed, because they may lead back to a parent
            // directory.
            if path.is_dir() {
                if depth < DEEPEST && !path.is_symlink() {
                    self.collect(&path, depth + 1);
                }
            } else if name == TIMELINE {
                self.timelines.push(path);
            } else if is_named(&name, ".json") || is_named(&name, ".csv") {
                self.files.push(path);
            }
        }
    }
}

fn is_named(name: &str, ending: &str) -> bool {
    let stem = name.strip_suffix(ending);
    stem.is_some_and(|stem| stem.contains("events") || stem.contains("track"))
}
