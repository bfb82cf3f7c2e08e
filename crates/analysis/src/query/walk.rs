//! Finds the files below a directory that may say something, without leaving it.

use std::fs;
use std::path::{Path, PathBuf};

use stormlog_format::SinkNames;

use crate::regular_file::special_kind;

/// Deeper folders are no artifacts; they would only tie up whoever looks.
const DEEPEST: usize = 64;

/// What lies below a directory, each list in the order of paths.
#[derive(Debug, Default)]
pub(crate) struct Below {
    pub(crate) manifests: Vec<PathBuf>,
    pub(crate) envelopes: Vec<PathBuf>,
    pub(crate) sidecars: Vec<PathBuf>,
    /// Files that may hold events, by their names.
    pub(crate) candidates: Vec<PathBuf>,
    /// Links that lead out of the given paths.
    pub(crate) refused: Vec<PathBuf>,
    /// FIFOs, devices and the like with the name of such a file, and what each is.
    pub(crate) special: Vec<(PathBuf, &'static str)>,
    /// Directories that could not be looked into, and why.
    pub(crate) closed: Vec<(PathBuf, String)>,
}

/// Looks at everything below a directory; links to directories are not followed, and links
/// to files only where they stay in one of the roots.
pub(crate) fn below(root: &Path, roots: &[PathBuf]) -> Below {
    let mut found = Below::default();
    let mut pending = vec![(root.to_path_buf(), 0)];
    while let Some((directory, depth)) = pending.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) => {
                found.closed.push((directory, error.to_string()));
                continue;
            }
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                if depth < DEEPEST {
                    pending.push((entry.path(), depth + 1));
                }
                continue;
            }
            let name = entry.file_name();
            let Some(list) = list_for(&name.to_string_lossy()) else {
                continue;
            };
            let path = entry.path();
            match Reach::of(&path, kind, roots) {
                Reach::Inside => {}
                Reach::NoFile => {
                    let kind = path.metadata().ok().map(|facts| facts.file_type());
                    let kind = kind.filter(|kind| !kind.is_dir()).and_then(special_kind);
                    found.special.extend(kind.map(|kind| (path, kind)));
                    continue;
                }
                Reach::Outside => {
                    found.refused.push(path);
                    continue;
                }
            }
            match list {
                List::Manifests => found.manifests.push(path),
                List::Envelopes => found.envelopes.push(path),
                List::Sidecars => found.sidecars.push(path),
                List::Candidates => found.candidates.push(path),
            }
        }
    }
    for list in [
        &mut found.manifests,
        &mut found.envelopes,
        &mut found.sidecars,
        &mut found.candidates,
        &mut found.refused,
    ] {
        list.sort();
    }
    found.special.sort();
    found
}

/// Where a path leads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// To a file in one of the roots.
    Inside,
    /// To a file elsewhere.
    Outside,
    /// To no file: nothing, a directory, a pipe.
    NoFile,
}

impl Reach {
    fn of(path: &Path, kind: fs::FileType, roots: &[PathBuf]) -> Self {
        if kind.is_file() {
            return Self::Inside;
        }
        if !kind.is_symlink() || !path.is_file() {
            return Self::NoFile;
        }
        match path.canonicalize() {
            Ok(path) if roots.iter().any(|root| path.starts_with(root)) => Self::Inside,
            _ => Self::Outside,
        }
    }

    /// Where the last part of a path leads, be it a link or not.
    pub(crate) fn at(path: &Path, roots: &[PathBuf]) -> Self {
        match path.symlink_metadata() {
            Ok(metadata) => Self::of(path, metadata.file_type(), roots),
            Err(_) => Self::NoFile,
        }
    }
}

enum List {
    Manifests,
    Envelopes,
    Sidecars,
    Candidates,
}

fn list_for(name: &str) -> Option<List> {
    match name {
        _ if SinkNames::of_manifest(name).is_some() => Some(List::Manifests),
        super::envelope::FILE_NAME => Some(List::Envelopes),
        super::sidecar::FILE_NAME => Some(List::Sidecars),
        _ => is_candidate(name).then_some(List::Candidates),
    }
}

/// Whether a file may hold events, by its name.
fn is_candidate(name: &str) -> bool {
    let plain = [".gz", ".zst"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name);
    let Some((_, suffix)) = plain.rsplit_once('.') else {
        return false;
    };
    match suffix {
        "jsonl" => true,
        "ndjson" => SinkNames::of_segment(plain).is_some(),
        "json" | "csv" => {
            let lower = name.to_lowercase();
            ["event", "track", "telemetry"]
                .iter()
                .any(|word| lower.contains(word))
        }
        _ => false,
    }
}
