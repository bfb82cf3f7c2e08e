//! What a path is: a sink, a segment, a document, a bundle.

use std::fs;
use std::path::{Component, Path, PathBuf};

use stormlog_format::json::parse;
use stormlog_format::{Manifest, Map, SINK_FORMAT, Segment, SinkNames, Text, Value};

use super::bytes::{read_beside, read_document, read_error};
use super::damage::Damage;
use super::error::LoadError;
use crate::regular_file::{self, Refused, folder_of, refusal};

/// Suffixes of compressed files.
const COMPRESSED: [&str; 2] = [".gz", ".zst"];

/// The sink inside a diagnose bundle that its window was recorded into.
const BUNDLE_SINK: &str = "telemetry";

/// What a path turned out to be.
#[derive(Debug)]
#[non_exhaustive]
pub enum Artifact {
    /// A directory of segments, with or without a manifest.
    Sink {
        /// The manifest, when there is a readable one.
        manifest: Option<Manifest>,
        /// The segment files, by name.
        segments: Vec<PathBuf>,
        /// Segments that are missing or refused.
        damage: Vec<Damage>,
    },
    /// A file of one record per line; a manifest beside it supplies session summaries.
    Lines {
        /// The manifest beside it.
        manifest: Option<Manifest>,
        /// The file.
        file: PathBuf,
    },
    /// A JSON document.
    Document {
        /// The file.
        file: PathBuf,
    },
    /// A table with one event per row.
    Csv {
        /// The file.
        file: PathBuf,
    },
    /// What `diagnose` leaves.
    DiagnoseBundle {
        /// The bundle.
        directory: PathBuf,
    },
    /// The timeline of a diagnose bundle.
    Timeline {
        /// The file.
        file: PathBuf,
    },
    /// What the OOM flight recorder leaves.
    OomBundle {
        /// The bundle.
        directory: PathBuf,
    },
}

impl Artifact {
    /// Looks at a path without reading events.
    pub fn at(path: &Path) -> Result<Self, LoadError> {
        let path = &resolved_manifest(tidy(path));
        let directory = directory_of(path);
        if let Some(directory) = directory {
            return Self::in_directory(directory, path);
        }
        let file = path.clone();
        let name = plain_name(path);
        let is_host_segment = SinkNames::Host.segment_stem(&name).is_some();
        Ok(match name.rsplit_once('.') {
            Some((_, ending)) if ending == "jsonl" || is_host_segment => {
                let manifest = path.parent().and_then(|parent| {
                    let parent = if parent.as_os_str().is_empty() {
                        Path::new(".")
                    } else {
                        parent
                    };
                    sink_manifest(parent, SinkNames::Host)
                        .filter(|_| is_host_segment)
                        .or_else(|| read_manifest(&parent.join("manifest.json")))
                });
                Self::Lines { manifest, file }
            }
            Some((_, "csv")) => Self::Csv { file },
            _ if name == "telemetry_timeline.json" => Self::Timeline { file },
            _ => Self::Document { file },
        })
    }

    /// The size of the files that hold its events, as they are on disk.
    pub fn size_bytes(&self) -> u64 {
        let size = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
        match self {
            Self::Sink { segments, .. } => segments.iter().map(|path| size(path)).sum(),
            Self::Lines { file, .. }
            | Self::Document { file }
            | Self::Csv { file }
            | Self::Timeline { file } => size(file),
            Self::DiagnoseBundle { directory } => size(&directory.join("telemetry_timeline.json")),
            Self::OomBundle { directory } => size(&directory.join("events.json")),
        }
    }

    /// Whether segments of a sink were rewritten since this was found out: lines may then have
    /// been read twice, or not at all.
    pub(crate) fn was_rewritten(&self, path: &Path) -> bool {
        let Self::Sink {
            manifest: Some(before),
            segments,
            ..
        } = self
        else {
            return false;
        };
        let directory = segments.first().and_then(|segment| segment.parent());
        let Some(after) = manifest_path(directory.unwrap_or(path)) else {
            return false;
        };
        let Some(after) = read_manifest(&after) else {
            return false;
        };
        let is_rewritten = |before: &Segment| {
            let mut same = after.segments.iter();
            let same = same.find(|after| after.filename == before.filename);
            same.is_none_or(|after| after.thinned_interval_ns != before.thinned_interval_ns)
        };
        let mut segments = after.segments.iter();
        let is_thinned = segments.any(|segment| segment.thinned_interval_ns > 0);
        is_thinned && before.segments.iter().any(is_rewritten)
    }

    fn in_directory(directory: &Path, path: &Path) -> Result<Self, LoadError> {
        let document = manifest_document(&directory.join("manifest.json"));
        let has = |keys: &[&str]| {
            document
                .as_ref()
                .is_some_and(|map| keys.iter().all(|key| map.contains(key)))
        };
        if has(&["bundle_name", "reason", "backend", "event_count"]) {
            return Ok(Self::OomBundle {
                directory: directory.into(),
            });
        }
        let is_sink = document.as_ref().is_some_and(is_manifest_of_a_sink);
        if has(&["command_line", "files", "risk_detected", "session_id"]) {
            let recorded = directory.join(BUNDLE_SINK);
            // Ours holds the events themselves, which say more than the timeline made of them.
            return match Self::in_directory(&recorded, &recorded) {
                Ok(Self::Sink { .. }) if !is_inside(directory, &recorded) => {
                    Err(read_error(&recorded, Refused::Outside.into()))
                }
                Ok(sink @ Self::Sink { .. }) => Ok(sink),
                _ => Ok(Self::DiagnoseBundle {
                    directory: directory.into(),
                }),
            };
        }
        let host_manifest = if is_sink {
            None
        } else {
            sink_manifest(directory, SinkNames::Host)
        };
        let names = if is_sink {
            Some(SinkNames::Ordinary)
        } else {
            host_manifest.as_ref().map(|_| SinkNames::Host)
        };
        let is_sink = names.is_some();
        let manifest = host_manifest.or_else(|| {
            let manifest = Manifest::from_value(&Value::Map(document?))?;
            Some(settled(directory, SinkNames::Ordinary, manifest))
        });
        let located = segments_in(directory, manifest.as_ref(), names);
        let (segments, mut damage) = located.map_err(|error| match error {
            LoadError::NotFound(_) => LoadError::NotFound(path.into()),
            error => error,
        })?;
        let refused = SinkNames::ALL.into_iter().filter_map(|names| {
            let file = directory.join(names.manifest());
            let reason = refusal(directory, &file)?.to_string();
            Some(Damage::of_file(file, reason))
        });
        damage.extend(refused);
        let timeline = plain_or_compressed(directory, "telemetry_timeline.json");
        if segments.is_empty() && !is_sink && timeline.is_some() {
            return Ok(Self::DiagnoseBundle {
                directory: directory.into(),
            });
        }
        if segments.is_empty() && !is_sink {
            // A folder of nothing but files that are not read is named by the first of them.
            if let Some(Damage { file, reason, .. }) = damage.into_iter().next() {
                return Err(read_error(&file, std::io::Error::other(reason)));
            }
            return Err(if path == directory {
                LoadError::NotAnArtifact(path.into())
            } else {
                unreadable_manifest(path)
            });
        }
        Ok(Self::Sink {
            manifest,
            segments,
            damage,
        })
    }
}

/// Whether a `manifest.json` is that of a sink, also of one without segments; other programs
/// use the name too.
fn is_manifest_of_a_sink(document: &Map) -> bool {
    let lists = ["segments", "sessions"].into_iter();
    let has_list = lists
        .map(|key| document.get(key))
        .any(|value| matches!(value, Some(Value::List(_))));
    has_list
        || document
            .get("format")
            .and_then(Value::as_text)
            .is_some_and(|format| *format == SINK_FORMAT)
}

/// The names that the sink in a directory has; nothing when the directory is no sink. The
/// sink inside a bundle is not that of the bundle's directory.
pub fn sink_names(directory: &Path) -> Option<SinkNames> {
    let mut kinds = SinkNames::ALL.into_iter();
    let by_manifest = kinds.find(|names| {
        let document = manifest_document(&directory.join(names.manifest()));
        document.as_ref().is_some_and(is_manifest_of_a_sink)
    });
    by_manifest.or_else(|| {
        let entries = fs::read_dir(directory).ok()?.flatten();
        let files = entries.filter(|entry| entry.path().is_file());
        let kinds = files.filter_map(|entry| SinkNames::of_segment(&plain_name(&entry.path())));
        // A host sink may be about to get ordinary names, an ordinary sink has only those.
        kinds.max_by_key(|names| *names == SinkNames::Host)
    })
}

/// The manifest of a sink with those names. A host sink whose segments are being given
/// ordinary names is described with the names that they have by now.
fn sink_manifest(directory: &Path, names: SinkNames) -> Option<Manifest> {
    let document = manifest_document(&directory.join(names.manifest()))?;
    if !is_manifest_of_a_sink(&document) {
        return None;
    }
    Manifest::from_value(&Value::Map(document)).map(|manifest| settled(directory, names, manifest))
}

/// The manifest as it describes the files that are there: segments that are being renamed or
/// rewritten have changed a moment before it does.
pub(crate) fn settled(directory: &Path, names: SinkNames, mut manifest: Manifest) -> Manifest {
    if names == SinkNames::Host {
        follow_renamed_segments(directory, &mut manifest);
    }
    let replaced = manifest.settle_rewrite(|name| {
        let path = match locate(directory, name) {
            Located::Here(name) => directory.join(name),
            Located::Missing | Located::Refused(_) => return None,
        };
        path.metadata().ok().map(|facts| facts.len())
    });
    manifest.replaced.extend(replaced);
    manifest
}

fn follow_renamed_segments(directory: &Path, manifest: &mut Manifest) {
    let (host, ordinary) = (SinkNames::Host, SinkNames::Ordinary);
    for segment in &mut manifest.segments {
        let name = segment.filename.as_str();
        let renamed = name.and_then(|name| host.renamed_segment(name, ordinary));
        if let (Some(name), Some(renamed)) = (name, renamed)
            && plain_or_compressed(directory, name).is_none()
            && plain_or_compressed(directory, &renamed).is_some()
        {
            segment.filename = Text::from(&*renamed);
        }
    }
}

/// A manifest file that is the artifact itself but cannot be read: says why.
fn unreadable_manifest(path: &Path) -> LoadError {
    match read_document(path) {
        Err(error) => error,
        Ok(bytes) => match parse(&bytes) {
            Err(source) => LoadError::Json {
                file: path.into(),
                source,
            },
            Ok(_) => LoadError::NoEvents { file: path.into() },
        },
    }
}

/// The directory that a path stands for: itself, or the one that its `manifest.json` is in.
fn directory_of(path: &Path) -> Option<&Path> {
    if path.is_dir() {
        return Some(path);
    }
    let parent = path.parent()?;
    let parent = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    match SinkNames::of_manifest(path.file_name()?.to_str()?)? {
        SinkNames::Ordinary => Some(parent),
        // Other programs use the name too, for documents of their own.
        names @ SinkNames::Host => sink_manifest(parent, names).map(|_| parent),
    }
}

/// The path without `.` and doubled slashes, as Python's `pathlib` writes it.
pub fn tidy(path: &Path) -> PathBuf {
    let tidied: PathBuf = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    if tidied.as_os_str().is_empty() {
        ".".into()
    } else {
        tidied
    }
}

/// The file name in lower case without the suffix of a compression.
pub(crate) fn plain_name(path: &Path) -> String {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    let plain = COMPRESSED
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix));
    plain.unwrap_or(&name).to_owned()
}

/// The file of that name in a folder, or its compressed copy.
pub(crate) fn plain_or_compressed(directory: &Path, name: &str) -> Option<PathBuf> {
    let suffixes = std::iter::once("").chain(COMPRESSED);
    let mut files = suffixes.map(|suffix| directory.join(format!("{name}{suffix}")));
    // Anything else with the name is found too, so that reading it reports what it is.
    files.find(|file| file.symlink_metadata().is_ok_and(|facts| !facts.is_dir()))
}

/// Whether a folder is inside another, links resolved.
fn is_inside(directory: &Path, below: &Path) -> bool {
    match (directory.canonicalize(), below.canonicalize()) {
        (Ok(directory), Ok(below)) => below.starts_with(directory),
        _ => false,
    }
}

/// A manifest that the user names by a link stands for the sink that the link leads to.
pub(crate) fn resolved_manifest(path: PathBuf) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str());
    let is_manifest = name.and_then(SinkNames::of_manifest).is_some();
    match path.canonicalize() {
        Ok(resolved) if is_manifest && path.is_symlink() && resolved.is_file() => resolved,
        _ => path,
    }
}

fn manifest_document(path: &Path) -> Option<Map> {
    let bytes = read_beside(folder_of(path), path).ok()?;
    match parse(&bytes).ok()? {
        Value::Map(map) => Some(map),
        _ => None,
    }
}

/// Reads a sink's manifest; one that cannot be read counts as absent.
pub fn read_manifest(path: &Path) -> Option<Manifest> {
    let manifest = Manifest::from_value(&Value::Map(manifest_document(path)?))?;
    let names = path.file_name().and_then(|name| name.to_str());
    let names = names.and_then(SinkNames::of_manifest).unwrap_or_default();
    Some(settled(folder_of(path), names, manifest))
}

/// Where the manifest of a sink is, for any path into the sink.
pub fn manifest_path(path: &Path) -> Option<PathBuf> {
    let path = &tidy(path);
    let directory = directory_of(path).or_else(|| path.parent())?;
    let ordinary = directory.join(SinkNames::Ordinary.manifest());
    if ordinary.is_file() {
        return Some(ordinary);
    }
    sink_manifest(directory, SinkNames::Host)?;
    Some(directory.join(SinkNames::Host.manifest()))
}

/// The segment files of a sink, for any path into it.
pub fn segment_paths(path: &Path) -> Vec<PathBuf> {
    match Artifact::at(path) {
        Ok(Artifact::Sink { segments, .. }) => segments,
        Ok(Artifact::Lines { file, .. }) if file.is_file() => vec![file],
        _ => Vec::new(),
    }
}

/// The segments that a manifest names and those that lie in the directory, by name. Which
/// names the sink has follows from its manifest; without one it may have either.
pub(crate) fn segments_in(
    directory: &Path,
    manifest: Option<&Manifest>,
    names: Option<SinkNames>,
) -> Result<(Vec<PathBuf>, Vec<Damage>), LoadError> {
    let mut found: Vec<String> = Vec::new();
    let mut damage = Vec::new();
    let mut note = |name: &str, reason: String| {
        damage.push(Damage::of_file(directory.join(name), reason));
    };
    let manifest_name = names.unwrap_or_default().manifest();
    for ignored in manifest.iter().flat_map(|manifest| &manifest.ignored) {
        note(manifest_name, format!("ignored: {ignored}"));
    }
    for segment in manifest.iter().flat_map(|manifest| &manifest.segments) {
        let name = segment.filename.to_str_lossy();
        match locate(directory, &segment.filename) {
            Located::Here(name) => found.push(name),
            Located::Missing => note(
                &name,
                format!(
                    "segment is missing; {} events of it are lost",
                    segment.event_count
                ),
            ),
            Located::Refused(Refused::Outside) => {
                note(
                    manifest_name,
                    format!("refused segment '{name}': it is outside the sink"),
                );
            }
            Located::Refused(reason) => note(&name, reason.to_string()),
        }
    }
    let is_listed = |name: &str| {
        let mut listed = manifest.iter().flat_map(|manifest| &manifest.segments);
        listed.any(|segment| segment.filename.to_str_lossy() == name)
    };
    let entries = fs::read_dir(directory).map_err(|source| read_error(directory, source))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let plain = COMPRESSED
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix));
        let stands_for = plain.unwrap_or(&name);
        // A host sink may be about to get ordinary names, so it has segments of either kind.
        let is_segment = match SinkNames::of_segment(stands_for) {
            Some(SinkNames::Ordinary) => true,
            Some(SinkNames::Host) => names != Some(SinkNames::Ordinary),
            None => false,
        };
        let is_second_copy = plain.is_some_and(|plain| directory.join(plain).exists());
        let is_replaced = manifest.is_some_and(|manifest| {
            let replaced = &manifest.replaced;
            replaced.iter().any(|replaced| *replaced == stands_for)
        });
        if !is_segment || is_second_copy || is_replaced {
            continue;
        }
        match locate(directory, &Text::from(&*name)) {
            Located::Here(name) => found.push(name),
            Located::Refused(Refused::Outside) => {
                note(
                    &name,
                    "refused: a link that leads outside the sink".to_owned(),
                );
            }
            Located::Refused(reason) if !is_listed(&name) => note(&name, reason.to_string()),
            Located::Missing | Located::Refused(_) => {}
        }
    }
    found.sort();
    found.dedup();
    Ok((
        found.into_iter().map(|name| directory.join(name)).collect(),
        damage,
    ))
}

/// Where a segment that a manifest names is.
enum Located {
    /// In the sink, under this name.
    Here(String),
    /// Nowhere.
    Missing,
    /// There is something that is not read.
    Refused(Refused),
}

fn locate(directory: &Path, filename: &Text) -> Located {
    let Some(name) = filename.as_str().filter(|name| !name.contains('\0')) else {
        return Located::Missing;
    };
    let stays_inside = Path::new(name)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !stays_inside {
        return Located::Refused(Refused::Outside);
    }
    let candidates = std::iter::once(name.to_owned())
        .chain(COMPRESSED.iter().map(|suffix| format!("{name}{suffix}")));
    for candidate in candidates {
        match regular_file::check_inside(directory, &directory.join(&candidate)) {
            Ok(()) => return Located::Here(candidate),
            Err(error) => {
                if let Some(refused) = Refused::of(&error) {
                    return Located::Refused(refused);
                }
            }
        }
    }
    Located::Missing
}
