//! Writes an out-of-memory bundle: a directory that describes the state of memory when it ran out.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use stormlog_format::json::{Layout, Writer, parse};
use stormlog_format::{Map, SessionSummary, Text, Value, file_names, signed};

use crate::files::{Durability, create_new, read_regular, replace_file};
use stormlog_redact::{redacted, redacted_map, redacted_text};

const SCHEMA_VERSION: i64 = 2;

/// The largest JSON file of a bundle that is read, in bytes; Stormlog never writes a longer one.
const MOST_BYTES: u64 = 256 << 20;

const FILES: [&str; 4] = [
    file_names::MANIFEST,
    file_names::EVENTS,
    file_names::METADATA,
    file_names::ENVIRONMENT,
];

/// What is written into an out-of-memory bundle, the directory that describes one failed
/// allocation.
#[derive(Clone, Debug)]
pub struct Dump {
    /// Why the exception counts as out of memory, such as `torch.cuda.OutOfMemoryError` or
    /// `message_pattern:out of memory`.
    pub reason: Text,
    /// Class name, module and text of the exception.
    pub exception: [Text; 3],
    /// What the program was doing when memory ran out.
    pub context: Option<Text>,
    /// The runtime whose memory ran out, such as `cuda`.
    pub backend: Text,
    /// The last events before the error, oldest first, with the field names of stormlog 0.3.9.
    pub events: Vec<Map>,
    /// Further details from the caller, for the key `custom_metadata` in the bundle's metadata.
    pub custom_metadata: Map,
    /// The id, status and times of the recorder's session; `None` when no session was recorded.
    pub session: Option<SessionSummary>,
    /// Facts about the machine and its runtime, for the key `system` in `environment.json`.
    pub system: Map,
    /// The pid of the process whose memory ran out.
    pub pid: u32,
    /// The working directory of the process whose memory ran out.
    pub cwd: PathBuf,
}

/// The error for an out-of-memory bundle that could not be written or changed.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the bundle '{}': {source}", path.display())]
pub struct BundleError {
    /// The directory of the bundle.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

impl BundleError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        |source| Self { path, source }
    }
}

/// Writes an out-of-memory bundle as a new directory below `root`. The arguments `stamp` and
/// `created` are the same time, as `20260101T000000Z` and as `2026-01-01T00:00:00Z`. All files of
/// the bundle are on disk when this function returns, because the process may die right afterwards.
pub fn write(
    root: &Path,
    dump: Dump,
    stamp: &str,
    created: &str,
    mut sequence: u64,
) -> Result<PathBuf, BundleError> {
    let backend = safe_name(&dump.backend);
    // Two recorders of one process may write their first bundle in the same second, so the name of
    // a bundle gets a number. A file or directory that already has the name of the bundle is not
    // overwritten.
    let (name, path) = loop {
        let name = format!("oom_dump_{stamp}_{}_{backend}_{sequence}", dump.pid);
        let path = root.join(&name);
        let made = fs::create_dir_all(root).and_then(|()| fs::create_dir(&path));
        match made {
            Ok(()) => break (name, path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && root.is_dir() => {
                sequence += 1;
            }
            Err(source) => return Err(BundleError { path, source }),
        }
    };
    fill(&path, dump, &name, created).map_err(BundleError::at(&path))?;
    Ok(path)
}

/// Writes the files of a bundle; the manifest comes last, so that a bundle with a manifest is
/// complete.
fn fill(path: &Path, dump: Dump, name: &str, created: &str) -> io::Result<()> {
    let session = dump.session.as_ref();
    let session_keys = |map: &mut Map| {
        map.insert(
            "session_id",
            session.map(|session| session.session_id.clone()),
        );
        let status = session.map(|session| session.status.as_str());
        map.insert("session_status", status.map(Text::from));
        let summary = session.map(SessionSummary::to_map);
        map.insert("session", summary.map_or(Value::Null, Value::Map));
    };
    let event_count = signed(dump.events.len());
    let events = dump
        .events
        .into_iter()
        .map(|event| redacted(Value::Map(event)));
    write_json(path, file_names::EVENTS, &Value::List(events.collect()))?;

    let mut metadata = Map::new();
    metadata.insert("reason", dump.reason.clone());
    insert_exception(&mut metadata, dump.exception);
    metadata.insert("context", dump.context.map(redacted_text));
    metadata.insert("backend", dump.backend.clone());
    metadata.insert("captured_event_count", event_count);
    session_keys(&mut metadata);
    let custom = redacted_map(dump.custom_metadata);
    metadata.insert("custom_metadata", Value::Map(custom));
    write_json(path, file_names::METADATA, &Value::Map(metadata))?;

    let mut environment = Map::new();
    environment.insert("pid", i64::from(dump.pid));
    environment.insert("cwd", &*dump.cwd.to_string_lossy());
    environment.insert("system", Value::Map(redacted_map(dump.system)));
    write_json(path, file_names::ENVIRONMENT, &Value::Map(environment))?;

    let mut manifest = Map::new();
    manifest.insert("schema_version", SCHEMA_VERSION);
    manifest.insert("bundle_name", name);
    manifest.insert("created_at_utc", created);
    manifest.insert("reason", dump.reason);
    manifest.insert("backend", dump.backend);
    manifest.insert("event_count", event_count);
    session_keys(&mut manifest);
    manifest.insert("files", Value::List(FILES.map(Value::from).to_vec()));
    write_json(path, file_names::MANIFEST, &Value::Map(manifest))?;
    File::open(path)?.sync_all()
}

/// Adds to a bundle that is already written: the exception, what the program was doing, and
/// metadata.
pub fn amend(
    path: &Path,
    exception: [Text; 3],
    context: Option<Text>,
    facts: Map,
) -> Result<(), BundleError> {
    let amended = change_metadata(path, |metadata, custom| {
        insert_exception(metadata, exception);
        if context.is_some() {
            metadata.insert("context", context.map(redacted_text));
        }
        custom.extend(redacted_map(facts));
    });
    amended.map_err(BundleError::at(path))
}

fn insert_exception(metadata: &mut Map, [class, module, message]: [Text; 3]) {
    metadata.insert("exception_type", class);
    metadata.insert("exception_module", module);
    metadata.insert("exception_message", redacted_text(message));
}

/// Lists the files of a native history (what PyTorch's allocator recorded) in the manifest and the
/// metadata of a bundle. The files were put into the bundle after it was written.
pub fn attach_history(path: &Path, names: &[Text]) -> Result<(), BundleError> {
    let attach = || {
        let listed: Vec<Value> = names.iter().cloned().map(Value::Text).collect();
        let mut manifest = object(path, file_names::MANIFEST)?;
        let mut files = match manifest.remove("files") {
            Some(Value::List(files)) => files,
            _ => Vec::new(),
        };
        files.extend(listed.iter().cloned());
        manifest.insert("files", Value::List(files));
        let describe = |map: &mut Map| {
            map.insert("native_history_enabled", Value::Bool(true));
            map.insert("native_history_files", Value::List(listed.clone()));
        };
        describe(&mut manifest);
        change_metadata(path, |_, custom| describe(custom))?;
        replace_json(path, file_names::MANIFEST, manifest)
    };
    attach().map_err(BundleError::at(path))
}

/// Changes the metadata of a bundle and the object `custom_metadata` in them.
fn change_metadata(path: &Path, change: impl FnOnce(&mut Map, &mut Map)) -> io::Result<()> {
    let mut metadata = object(path, file_names::METADATA)?;
    let mut custom = match metadata.get("custom_metadata") {
        Some(Value::Map(custom)) => custom.clone(),
        _ => Map::new(),
    };
    change(&mut metadata, &mut custom);
    metadata.insert("custom_metadata", Value::Map(custom));
    replace_json(path, file_names::METADATA, metadata)
}

/// Reads a JSON file of a bundle, such as its manifest, and returns the JSON object in it.
fn object(path: &Path, name: &str) -> io::Result<Map> {
    match parse(&read_regular(&path.join(name), MOST_BYTES)?) {
        Ok(Value::Map(map)) => Ok(map),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{name} does not contain a JSON object"),
        )),
    }
}

/// Writes a JSON file of a bundle under a temporary name and renames it, so that the bundle is
/// complete at every moment.
fn replace_json(path: &Path, name: &str, map: Map) -> io::Result<()> {
    let text = Writer::new(Layout::Indented).to_string(&Value::Map(map));
    replace_file(path, name, text.as_bytes(), Durability::Disk)
}

fn write_json(directory: &Path, name: &str, value: &Value) -> io::Result<()> {
    let mut file = create_new(&directory.join(name))?;
    let text = Writer::new(Layout::Indented).to_string(value);
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The backend as part of a file name: each sequence of characters other than letters, digits, `_`
/// and `-` becomes one underscore.
fn safe_name(backend: &Text) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut name = String::new();
    let mut after_safe = true;
    for character in backend.to_str_lossy().chars() {
        if is_safe(character) {
            name.push(character);
        } else if after_safe {
            name.push('_');
        }
        after_safe = is_safe(character);
    }
    if name.is_empty() {
        name.push_str("unknown");
    }
    name
}
