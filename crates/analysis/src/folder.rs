//! The artifacts under a folder: a run whose ranks wrote one file or sink each.

use std::path::{Path, PathBuf};

use stormlog_format::SinkNames;

use crate::load::{Artifact, Damage, LoadError, sink_names};
use crate::pack::unpacked;
use crate::regular_file::refusal;

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

/// What was found at a path.
#[derive(Debug, Default)]
pub struct Artifacts {
    /// The artifacts, in the order of their names.
    pub paths: Vec<PathBuf>,
    /// Files in a folder that are not read: links that leave it, FIFOs, devices.
    pub refused: Vec<Damage>,
}

/// The artifact that a path is, or the artifacts under it, in the order of their names.
///
/// A run's folder may be a sink itself and hold further sinks of the run (`host/`, `gpu-1/`,
/// `rank-0001/`, `pid-1234/`): these follow it.
pub fn artifacts_at(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    find_artifacts(path).map(|found| found.paths)
}

/// The same, with what of a folder is not read.
pub fn find_artifacts(path: &Path) -> Result<Artifacts, LoadError> {
    let path = &*unpacked(path)?;
    match Artifact::at(path) {
        Ok(_) => {
            let mut paths = vec![path.to_path_buf()];
            collect_nested_sinks(path, 0, &mut paths);
            Ok(Artifacts {
                paths,
                refused: Vec::new(),
            })
        }
        Err(LoadError::NotAnArtifact(folder)) => {
            let mut found = Artifacts::default();
            collect(path, path, 0, &mut found);
            if found.paths.is_empty() {
                return Err(match found.refused.into_iter().next() {
                    None => LoadError::NotAnArtifact(folder),
                    Some(Damage { file, reason, .. }) => LoadError::Io {
                        file,
                        source: std::io::Error::other(reason),
                    },
                });
            }
            Ok(found)
        }
        Err(error) => Err(error),
    }
}

/// The artifacts that stormlog 0.3.9 finds at a path: nothing below a sink, and no host sinks,
/// whose numbers are not those of a device.
pub fn device_artifacts_at(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let path = &*unpacked(path)?;
    if Artifact::at(path).is_ok() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = artifacts_at(path)?;
    let is_below_another = |artifact: &Path| {
        let mut parents = artifact.ancestors().skip(1);
        parents.any(|parent| parent.starts_with(path) && sink_names(parent).is_some())
    };
    found.retain(|artifact| {
        sink_names(artifact) != Some(SinkNames::Host) && !is_below_another(artifact)
    });
    if found.is_empty() {
        return Err(LoadError::NotAnArtifact(path.into()));
    }
    Ok(found)
}

/// Adds the sinks directly below a sink, and those below them. Other folders are not looked
/// into: a sink may lie in any folder of the user's.
fn collect_nested_sinks(sink: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if depth >= DEEPEST || !sink.is_dir() || sink_names(sink).is_none() {
        return;
    }
    let entries = std::fs::read_dir(sink).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && !path.is_symlink() && !is_hidden(path))
        .collect();
    folders.sort();
    for folder in folders {
        if sink_names(&folder).is_some() {
            found.push(folder.clone());
            collect_nested_sinks(&folder, depth + 1, found);
        }
    }
}

fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b".")
}

fn collect(root: &Path, folder: &Path, depth: usize, found: &mut Artifacts) {
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
        if is_hidden(&path) {
            continue;
        }
        // A link may lead back up.
        if path.is_symlink() && path.is_dir() {
            continue;
        }
        if path.is_dir() {
            if Artifact::at(&path).is_ok() {
                found.paths.push(path.clone());
                collect_nested_sinks(&path, depth + 1, &mut found.paths);
            } else if depth < DEEPEST {
                collect(root, &path, depth + 1, found);
            }
        } else if is_telemetry(&name) {
            match refusal(root, &path) {
                None => found.paths.push(path),
                Some(reason) => {
                    let reason = reason.to_string();
                    found.refused.push(Damage::of_file(path, reason));
                }
            }
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
