//! Decides by the name of a path what it may hold: events, a manifest, a compressed or hidden file.

use std::path::{Component, Path, PathBuf};

use stormlog_format::SinkNames;

use super::sink::sink_manifest;
use crate::compression::{with_suffixes, without_suffix};
use crate::rank_name::rank_in_name;

/// `.json` and `.csv` files hold events only if their name contains one of these words, as in
/// stormlog 0.3.9.
const WORDS: [&str; 3] = ["event", "track", "telemetry"];

/// The format in which a file stores events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// One event per line, as a JSON object (`.jsonl`, and `.ndjson` for the segments of a sink).
    Lines,
    /// All events in one JSON document (`.json`).
    Document,
    /// One event per row of a CSV table (`.csv`).
    Table,
}

impl FileKind {
    /// The format of a file, decided by the suffix of its name; `None` for other suffixes.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let name = plain_name(path);
        match name.rsplit_once('.')?.1 {
            "json" => Some(Self::Document),
            "jsonl" => Some(Self::Lines),
            "ndjson" if SinkNames::of_segment(&name).is_some() => Some(Self::Lines),
            "csv" => Some(Self::Table),
            _ => None,
        }
    }

    /// The kind of a file that was found in a directory and not given by the user: `None` if its
    /// name does not suggest events, so that it is not read.
    pub(crate) fn of_found(path: &Path) -> Option<Self> {
        let kind = Self::of(path)?;
        let name = plain_name(path);
        let suggests_events = || {
            let mut words = WORDS.iter();
            words.any(|word| name.contains(word)) || rank_in_name(&name).is_some()
        };
        (kind == Self::Lines || suggests_events()).then_some(kind)
    }
}

/// The file name in lower case, without `.gz` or `.zst`.
pub(crate) fn plain_name(path: &Path) -> String {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    without_suffix(&name).unwrap_or(&name).to_owned()
}

/// The path of the file with a given name in a directory, or of its compressed copy; `None` if
/// neither exists.
pub(crate) fn plain_or_compressed(directory: &Path, name: &str) -> Option<PathBuf> {
    let mut files = with_suffixes(name).map(|name| directory.join(name));
    // Entries other than regular files are found too, so that the attempt to read one reports what
    // it is.
    files.find(|file| file.symlink_metadata().is_ok_and(|facts| !facts.is_dir()))
}

/// Whether the name of a file or directory starts with a dot.
pub(super) fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b".")
}

/// The path without `.` and doubled slashes, in the form that Python's `pathlib` produces.
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

/// The kind of sink that the file name of a manifest belongs to; `None` if the path does not have the
/// name of a manifest.
pub(crate) fn names_of_manifest(path: &Path) -> Option<SinkNames> {
    SinkNames::of_manifest(path.file_name()?.to_str()?)
}

/// The path with its links resolved, so that paths can be compared.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    path.canonicalize()
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_path_buf())
}

/// The directory that a path refers to: the path itself or, for a manifest (`manifest.json` or
/// `host.json`), the directory that contains it.
pub(crate) fn directory_of(path: &Path) -> Option<&Path> {
    if path.is_dir() {
        return Some(path);
    }
    let parent = crate::regular_file::folder_of(path);
    match names_of_manifest(path)? {
        SinkNames::Ordinary => Some(parent),
        // Other programs use the name of a host sink's manifest for their own documents, so the
        // content is checked.
        names @ SinkNames::Host => sink_manifest(parent, names).map(|_| parent),
    }
}

/// The path itself if it is a directory, otherwise the directory that contains it; links are
/// resolved.
pub(crate) fn holding_folder(path: &Path) -> Option<PathBuf> {
    let path = resolved_manifest(path.to_path_buf());
    let directory = if path.is_dir() {
        &path
    } else {
        crate::regular_file::folder_of(&path)
    };
    directory.canonicalize().ok()
}

/// Resolves a manifest that the user gave as a link, so that the path refers to the sink of the
/// link's target.
pub(crate) fn resolved_manifest(path: PathBuf) -> PathBuf {
    let is_manifest = names_of_manifest(&path).is_some();
    match path.canonicalize() {
        Ok(resolved) if is_manifest && path.is_symlink() && resolved.is_file() => resolved,
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_by_their_names_before_compression() {
        let kind = |name: &str| FileKind::of_found(Path::new(name));
        assert_eq!(kind("rank0.jsonl.gz"), Some(FileKind::Lines));
        assert_eq!(kind("EVENTS.JSON"), Some(FileKind::Document));
        assert_eq!(kind("run.rank_3.csv.zst"), Some(FileKind::Table));
        assert_eq!(kind("segment-000001.ndjson"), Some(FileKind::Lines));
        for other in [
            "notes.txt",
            "json",
            "other.ndjson",
            "config.json",
            "issues.json",
            "stormlog_run.json",
            "stormlog_attachments.json",
            "manifest.json",
            "rollups.json",
        ] {
            assert_eq!(kind(other), None, "{other}");
        }
        assert_eq!(
            FileKind::of(Path::new("config.json")),
            Some(FileKind::Document)
        );
    }
}
