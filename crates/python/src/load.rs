//! Loads sessions with their events in columns, and raises the exceptions that users of stormlog
//! 0.3.9 catch.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use stormlog::Progress;
use stormlog_analysis::{Damage, LoadError, LoadOptions, OnError, pack};

use crate::convert::dict_of;
use crate::errors::{invalid_artifact, invalid_record, raise_with};
use crate::rows::EventRows;

/// The fields of one damaged part of an artifact for Python: file, line, first and last byte,
/// reason, field.
pub(crate) type DamageFields = (
    PathBuf,
    Option<u64>,
    Option<(u64, u64)>,
    String,
    Option<String>,
);

/// The fields of a session for Python: summary, events, the files it was read from, and the damaged
/// parts of these files.
pub(crate) type SessionFields<'py> = (
    Bound<'py, PyDict>,
    EventRows,
    Vec<String>,
    Vec<DamageFields>,
);

/// Loads every session of an artifact or of the folder of a run, with a list of everything that could not be read.
#[pyfunction]
pub(crate) fn load_sessions(
    py: Python<'_>,
    path: PathBuf,
    permissive_legacy: bool,
    events_key: Option<String>,
    skip_damaged: bool,
) -> PyResult<(Vec<SessionFields<'_>>, Vec<DamageFields>)> {
    let loaded = load(
        py,
        &path,
        permissive_legacy,
        events_key,
        skip_damaged,
        |options| stormlog_analysis::load_all_sessions(&path, options),
    )?;
    let sessions = loaded.sessions.into_iter();
    let sessions = sessions.map(|session| session_fields(py, session));
    Ok((sessions.collect::<PyResult<_>>()?, fields(&loaded.damage)))
}

/// Converts a loaded session to the fields that Python gets.
pub(crate) fn session_fields(
    py: Python<'_>,
    session: stormlog_analysis::LoadedSession,
) -> PyResult<SessionFields<'_>> {
    Ok((
        dict_of(py, &session.summary)?,
        EventRows(session.events),
        session.sources,
        fields(&session.damage),
    ))
}

/// Loads the events of one session of an artifact: the given session, or else the default session.
#[pyfunction]
#[pyo3(signature = (path, permissive_legacy, events_key, session_id, skip_damaged))]
pub(crate) fn load_events(
    py: Python<'_>,
    path: PathBuf,
    permissive_legacy: bool,
    events_key: Option<String>,
    session_id: Option<&str>,
    skip_damaged: bool,
) -> PyResult<(EventRows, Vec<DamageFields>)> {
    let (events, damage) = load(
        py,
        &path,
        permissive_legacy,
        events_key,
        skip_damaged,
        |options| stormlog_analysis::load_all_events(&path, session_id, options),
    )?;
    Ok((EventRows(events), fields(&damage)))
}

/// Reads the manifest of a sink; `None` when there is no manifest that can be read.
#[pyfunction]
pub(crate) fn read_manifest(py: Python<'_>, path: PathBuf) -> PyResult<Option<Bound<'_, PyDict>>> {
    let mut manifest = stormlog_analysis::manifest_path(&path)
        .and_then(|path| stormlog_analysis::read_manifest(&path));
    // Session summaries in Python have only the fields of stormlog 0.3.9, so all other fields are
    // removed.
    for session in manifest
        .iter_mut()
        .flat_map(|manifest| &mut manifest.sessions)
    {
        session.recorder = None;
    }
    manifest.map(|manifest| dict_of(py, &manifest)).transpose()
}

/// The path of a sink's manifest; `path` is the sink's folder or a file in it.
#[pyfunction]
pub(crate) fn manifest_path(path: PathBuf) -> Option<PathBuf> {
    stormlog_analysis::manifest_path(&path)
}

/// The segment files of a sink; `path` is the sink's folder or a file in it.
#[pyfunction]
pub(crate) fn segment_paths(path: PathBuf) -> Vec<PathBuf> {
    stormlog_analysis::segment_paths(&path)
}

/// Loads artifacts without the interpreter lock, and shows a progress bar on a terminal when
/// loading takes long.
fn load<T: Send>(
    py: Python<'_>,
    path: &Path,
    permissive_legacy: bool,
    events_key: Option<String>,
    skip_damaged: bool,
    work: impl FnOnce(&LoadOptions<'_>) -> Result<T, LoadError> + Send,
) -> PyResult<T> {
    let loaded = py.detach(|| {
        let progress = Progress::through([path], std::io::stderr().is_terminal());
        let advance = |bytes| progress.advance(bytes);
        work(&LoadOptions {
            permissive_legacy,
            events_key,
            on_error: OnError::skip_if(skip_damaged),
            progress: &advance,
            ..LoadOptions::default()
        })
    });
    loaded.map_err(|error| load_error(py, &error))
}

fn fields(damage: &[Damage]) -> Vec<DamageFields> {
    let damage_fields = |damage: &Damage| {
        let bytes = damage.bytes.as_ref().map(|bytes| (bytes.start, bytes.end));
        (
            pack::shown(&damage.file).into_owned(),
            damage.line,
            bytes,
            damage.reason.clone(),
            damage.field.clone(),
        )
    };
    damage.iter().map(damage_fields).collect()
}

pub(crate) fn load_error(py: Python<'_>, error: &LoadError) -> PyErr {
    let message = error.to_string();
    match error {
        LoadError::NotFound(file) => raise_with(
            py,
            "ArtifactNotFoundError",
            (2, "No such file or directory", file.as_os_str()),
        ),
        LoadError::NotAnArtifact(file) => {
            raise_with(py, "NotAnArtifactError", (21, message, file.as_os_str()))
        }
        LoadError::Io { file, source } => {
            let number = source.raw_os_error().unwrap_or(5);
            raise_with(
                py,
                "ArtifactReadError",
                (number, source.to_string(), file.as_os_str()),
            )
        }
        LoadError::NotUtf8 { offset, byte, .. } => {
            let byte = PyBytes::new(py, &[*byte]);
            let reason = format!("invalid byte at offset {offset}");
            raise_with(py, "ArtifactEncodingError", ("utf-8", byte, 0, 1, reason))
        }
        LoadError::Json { source, .. } => {
            raise_with(py, "MalformedJSONError", (message, "", source.offset))
        }
        LoadError::BadRecord { source, .. } => invalid_record(py, source),
        _ => invalid_artifact(py, message),
    }
}

/// Deletes the temporary folders into which this process has unpacked packs (runs in one compressed
/// file).
#[pyfunction]
pub(crate) fn close_packs(py: Python<'_>) {
    py.detach(stormlog_analysis::pack::close_all);
}
