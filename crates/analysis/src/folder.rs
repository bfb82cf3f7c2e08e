//! The artifacts under a folder: a run whose ranks wrote one file or sink each.

use std::path::{Path, PathBuf};

use crate::load::{Artifact, LoadError};

/// Folders deeper than this are not looked into.
const DEEPEST: usize = 6;

/// What telemetry files end with, before any compression.
const ENDINGS: [&str; 3] = ["json", "jsonl", "csv"];

/// What lies beside telemetry and is none: states of issues, descriptions of runs.
const BESIDE: [&str; 3] = [
    crate::issue::SIDECAR_NAME,
    crate::query::RUN_FILE,
    crate::query::ATTACHMENTS_FILE,
];

/// The artifact that a path is, or the artifacts under it, in the order of their names.
pub fn artifacts_at(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    match Artifact::at(path) {
        Ok(_) => Ok(vec![path.to_path_buf()]),
        Err(LoadError::NotAnArtifact(folder)) => {
            let mut found = Vec::new();
            collect(path, 0, &mut found);
            if found.is_empty() {
                return Err(LoadError::NotAnArtifact(folder));
            }
            Ok(found)
        }
        Err(error) => Err(error),
    }
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with('.') {
            continue;
        }
        // A link may lead back up.
        if path.is_symlink() && path.is_dir() {
            continue;
        }
        if path.is_dir() {
            if Artifact::at(&path).is_ok() {
                found.push(path);
            } else if depth < DEEPEST {
                collect(&path, depth + 1, found);
            }
        } else if is_telemetry(&name) {
            found.push(path);
        }
    }
}

fn is_telemetry(name: &str) -> bool {
    if BESIDE.contains(&name) {
        return false;
    }
    let name = name.to_ascii_lowercase();
    let name = name
        .strip_suffix(".gz")
        .or_else(|| name.strip_suffix(".zst"))
        .unwrap_or(&name);
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::is_telemetry;

    #[test]
    fn endings_before_compression_count() {
        assert!(is_telemetry("rank0.jsonl.gz") && is_telemetry("EVENTS.JSON"));
        assert!(!is_telemetry("notes.txt") && !is_telemetry("json"));
        assert!(!is_telemetry("issues.json") && !is_telemetry("stormlog_run.json"));
    }
}
