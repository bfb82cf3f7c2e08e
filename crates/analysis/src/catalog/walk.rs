//! Walks the directories below a path and finds what can be loaded: sinks, bundles and files of
//! events.

use std::fs;
use std::path::{Path, PathBuf};

use stormlog_format::{SinkNames, file_names};

use super::directory::Directory;
use super::foreign::is_foreign;
use super::names::{holding_folder, is_hidden};
use super::shape::Shape;
use super::sink::sink_names;
use crate::catalog::Artifact;
use crate::damage::Damage;
use crate::load_error::LoadError;
use crate::pack::{DEEPEST, unpacked};

/// How a directory found by a walk relates to the sinks and bundles above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The directory was given by the user, or lies below a given directory and all directories
    /// between the two are plain (neither sinks nor bundles).
    Own,
    /// The directory is a sink directly in another sink; both belong to one recording.
    Nested,
    /// The directory is the sink that a diagnose bundle was made from, or a sink directly in that
    /// one.
    Part,
    /// The directory lies below a sink or in a bundle, but is neither `Nested` nor `Part`.
    Beside,
}

impl Place {
    fn below(self, parent: &Directory, child: &Directory) -> Self {
        use Shape::{DiagnoseBundle, Plain, Sink};
        match (self, parent.shape, child.shape) {
            (Self::Own, Plain, _) => Self::Own,
            (Self::Own | Self::Nested, Sink, Sink) => Self::Nested,
            (Self::Own, DiagnoseBundle, Sink) if child.path.ends_with(file_names::BUNDLE_SINK) => {
                Self::Part
            }
            (Self::Part, Sink, Sink) => Self::Part,
            _ => Self::Beside,
        }
    }
}

/// Which directories a walk visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Only directories of recordings: no other directories below a sink or in a bundle.
    Recordings,
    /// All directories below the root that are not hidden.
    Everything,
}

/// The directories at and below a root, in the order of their paths. When the root is an OOM
/// bundle, the directories below it are not visited.
pub(crate) fn walk(root: &Path, roots: &[PathBuf], scope: Scope) -> Vec<(Directory, Place)> {
    walk_with(root, scope, &mut |path| Directory::read(path, roots))
}

/// Like [`walk`], but calls `read` to list each directory, so that the caller can use a cache.
pub(crate) fn walk_with(
    root: &Path,
    scope: Scope,
    read: &mut dyn FnMut(&Path) -> Directory,
) -> Vec<(Directory, Place)> {
    let mut found = vec![(read(root), Place::Own)];
    if found[0].0.shape == Shape::OomBundle {
        return found;
    }
    // Indices in `found` of directories whose subdirectories are still to be visited, with their
    // depth.
    let mut pending = vec![(0, 0)];
    while let Some((index, depth)) = pending.pop() {
        if depth >= DEEPEST {
            continue;
        }
        for folder in found[index].0.folders.clone() {
            let child = read(&folder);
            let (parent, place) = &found[index];
            let place = place.below(parent, &child);
            if place == Place::Beside && scope == Scope::Recordings {
                continue;
            }
            found.push((child, place));
            pending.push((found.len() - 1, depth + 1));
        }
    }
    found.sort_by(|a, b| a.0.path.cmp(&b.0.path));
    found
}

/// What can be loaded at and below a path.
#[derive(Debug, Default)]
pub struct Artifacts {
    /// The paths of sinks, bundles and files of events, sorted.
    pub paths: Vec<PathBuf>,
    /// Entries of a directory that are not read: links that leave it, FIFOs, devices, directories
    /// without permission.
    pub refused: Vec<Damage>,
    /// Files that clearly are no recordings, although their names suggest events.
    pub foreign: Vec<PathBuf>,
}

/// The artifact at a path, or the artifacts below it, sorted by name.
///
/// The folder of a run may be a sink itself and hold further sinks of the run (`host/`, `gpu-1/`,
/// `rank-0001/`, `pid-1234/`), which are listed after it.
///
/// Packs below the path are left out, because no recorder writes to them and listing their content
/// requires unpacking.
pub fn artifacts_at(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    find(path, Packs::LeftOut).map(|found| found.paths)
}

/// Like [`artifacts_at`], but also returns the artifacts in packs and the entries that are not
/// read, and lists the files of other programs apart.
pub fn find_artifacts(path: &Path) -> Result<Artifacts, LoadError> {
    find(path, Packs::Opened)
}

/// Whether a search for artifacts opens packs (archive files with recordings) below the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packs {
    Opened,
    LeftOut,
}

fn find(path: &Path, packs: Packs) -> Result<Artifacts, LoadError> {
    let path = &*unpacked(path)?;
    let missing = match Artifact::at(path) {
        Ok(_) => None,
        Err(error @ LoadError::NotAnArtifact(_)) => Some(error),
        Err(error) => return Err(error),
    };
    let mut found = Artifacts::default();
    if !path.is_dir() {
        found.paths.push(path.to_path_buf());
        return Ok(found);
    }
    let roots = Vec::from_iter(holding_folder(path));
    for (directory, place) in walk(path, &roots, Scope::Recordings) {
        if packs == Packs::Opened && directory.shape == Shape::Plain {
            found.open(&directory.packs);
            found.foreign.extend(directory.other_files().cloned());
        }
        found.add(directory, place);
    }
    if packs == Packs::Opened {
        let loose = found.paths.extract_if(.., |path| is_foreign(path));
        found.foreign.extend(loose);
    }
    found.paths.sort();
    found.foreign.sort();
    match (found.paths.is_empty(), missing) {
        (true, Some(missing)) => Err(match found.refused.into_iter().next() {
            None => missing,
            Some(Damage { file, reason, .. }) => LoadError::Io {
                file,
                source: std::io::Error::other(reason),
            },
        }),
        _ => Ok(found),
    }
}

impl Artifacts {
    /// Adds the artifacts in the given packs. A pack in a pack is not opened.
    fn open(&mut self, packs: &[PathBuf]) {
        for pack in packs {
            match find(pack, Packs::LeftOut) {
                Ok(found) => {
                    self.paths.extend(found.paths);
                    self.refused.extend(found.refused);
                }
                Err(error) => {
                    // Of a pack's error, only the underlying error is reported, because the damage
                    // entry already names the file.
                    let reason = match error {
                        LoadError::Pack(error) => error.source.to_string(),
                        error => error.to_string(),
                    };
                    self.refused.push(Damage::of_file(pack, reason));
                }
            }
        }
    }

    fn add(&mut self, directory: Directory, place: Place) {
        if place == Place::Part {
            // The sink in a diagnose bundle is skipped, because loading the bundle reads the sink.
            return;
        }
        if directory.shape != Shape::Plain {
            self.paths.push(directory.path);
            return;
        }
        self.paths.extend(directory.loose_files().cloned());
        let refused = directory.refused.into_iter();
        self.refused
            .extend(refused.map(|(file, reason)| Damage::of_file(file, reason.to_string())));
        let closed = directory.closed.map(|reason| {
            let reason = format!("the directory cannot be read: {reason}");
            Damage::of_file(directory.path, reason)
        });
        self.refused.extend(closed);
    }
}

/// The artifacts that stormlog 0.3.9 finds at a path: nothing below a sink, and no host sinks,
/// which do not measure a device.
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

/// The sinks that one `stormlog run` writes, with the kind of their file names: the root, the sinks
/// directly in it, and the sinks directly in those. Other directories are not visited, because the
/// root may be any directory of the user.
pub fn sinks_of_run(root: &Path) -> Vec<(PathBuf, SinkNames)> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(directory) = pending.pop() {
        let names = sink_names(&directory);
        if names.is_none() && directory != root {
            continue;
        }
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        pending.extend(entries.filter_map(|entry| {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            Some(entry.path()).filter(|path| is_folder && !is_hidden(path))
        }));
        found.extend(names.map(|names| (directory, names)));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}
