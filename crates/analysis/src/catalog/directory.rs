//! One directory as the catalog sees it, without what lies below it.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use stormlog_format::json::parse;
use stormlog_format::{Map, SinkNames, Value};

use super::names::{FileKind, is_hidden, plain_name};
use super::shape::Shape;
use crate::load::{RECORD_KEYS, TIMELINE_FILE, open, read_described};
use crate::pack::has_ending;
use crate::query::{ATTACHMENTS_FILE, RUN_FILE};
use crate::regular_file::{Refused, special_kind};

/// So much of a file is read to find its first line.
const LONGEST_FIRST_LINE: u64 = 1 << 16;

/// What a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryKind {
    /// A directory of segments, with or without a manifest.
    Sink,
    /// What `diagnose` leaves.
    DiagnoseBundle,
    /// What the OOM flight recorder leaves.
    OomBundle,
    /// A directory of other things.
    Plain,
}

/// What is directly in a directory. Files that are refused are in no other list.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    pub(crate) kind: DirectoryKind,
    /// Its manifests, and their content where that is an object.
    pub(crate) manifests: Vec<(PathBuf, Option<Map>)>,
    /// The file that describes a run.
    pub(crate) run_file: Option<PathBuf>,
    /// The file that lists attachments.
    pub(crate) attachments: Option<PathBuf>,
    /// Files that may hold events, by their names; segments too.
    pub(crate) files: Vec<PathBuf>,
    /// Packs, which hold recordings of their own.
    pub(crate) packs: Vec<PathBuf>,
    /// Directories in it that are looked at.
    pub(crate) folders: Vec<PathBuf>,
    /// Links that leave the given paths, FIFOs, devices.
    pub(crate) refused: Vec<(PathBuf, Refused)>,
    /// Why it could not be listed.
    pub(crate) closed: Option<String>,
}

impl Directory {
    /// Looks at a directory. Links to files count where they stay in one of the roots.
    pub(crate) fn read(path: &Path, roots: &[PathBuf]) -> Self {
        let mut found = Self {
            path: path.to_path_buf(),
            kind: DirectoryKind::Plain,
            manifests: Vec::new(),
            run_file: None,
            attachments: None,
            files: Vec::new(),
            packs: Vec::new(),
            folders: Vec::new(),
            refused: Vec::new(),
            closed: None,
        };
        match fs::read_dir(path) {
            Ok(entries) => {
                for entry in entries.flatten() {
                    if let Ok(kind) = entry.file_type() {
                        found.add(entry.path(), kind, roots);
                    }
                }
            }
            Err(error) => found.closed = Some(error.to_string()),
        }
        found.manifests.sort_by(|a, b| a.0.cmp(&b.0));
        found.files.sort();
        found.packs.sort();
        found.folders.sort();
        found.refused.sort_by(|a, b| a.0.cmp(&b.0));
        found.kind = found.find_kind();
        found
    }

    fn add(&mut self, path: PathBuf, kind: fs::FileType, roots: &[PathBuf]) {
        if is_hidden(&path) {
            return;
        }
        if kind.is_dir() {
            self.folders.push(path);
            return;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_manifest = SinkNames::of_manifest(&name).is_some();
        let is_known = is_manifest || name == RUN_FILE || name == ATTACHMENTS_FILE;
        let is_pack = has_ending(&path);
        if !is_known && !is_pack && FileKind::of_found(&path).is_none() {
            return;
        }
        match Reach::of(&path, kind, roots) {
            Reach::Inside => {}
            Reach::Outside => {
                self.refused.push((path, Refused::Outside));
                return;
            }
            Reach::NoFile => {
                let kind = path.metadata().ok().map(|facts| facts.file_type());
                let kind = kind.filter(|kind| !kind.is_dir()).and_then(special_kind);
                self.refused
                    .extend(kind.map(|kind| (path, Refused::NotRegular(kind))));
                return;
            }
        }
        if is_manifest {
            let document = object(&path);
            self.manifests.push((path, document));
        } else if name == RUN_FILE {
            self.run_file = Some(path);
        } else if name == ATTACHMENTS_FILE {
            self.attachments = Some(path);
        } else if is_pack {
            self.packs.push(path);
        } else {
            self.files.push(path);
        }
    }

    /// The manifest with those names, when it is an object.
    pub(crate) fn manifest(&self, names: SinkNames) -> Option<&Map> {
        let mut manifests = self.manifests.iter();
        let found = manifests.find(|(path, _)| path.ends_with(names.manifest()))?;
        found.1.as_ref()
    }

    fn find_kind(&self) -> DirectoryKind {
        match self.manifest(SinkNames::Ordinary).map(Shape::of) {
            Some(Shape::OomBundle) => return DirectoryKind::OomBundle,
            Some(Shape::DiagnoseBundle) => return DirectoryKind::DiagnoseBundle,
            Some(Shape::Sink) => return DirectoryKind::Sink,
            Some(Shape::Unknown) | None => {}
        }
        let host = self.manifest(SinkNames::Host).map(Shape::of);
        if host == Some(Shape::Sink) || self.files.iter().any(|file| is_segment(file)) {
            return DirectoryKind::Sink;
        }
        let is_timeline = |file: &PathBuf| plain_name(file) == TIMELINE_FILE;
        if self.files.iter().any(is_timeline) {
            return DirectoryKind::DiagnoseBundle;
        }
        DirectoryKind::Plain
    }

    /// The files that hold events of their own: no segments of a sink, no lines of another kind.
    pub(crate) fn loose_files(&self) -> impl Iterator<Item = &PathBuf> {
        let is_sink = self.kind == DirectoryKind::Sink;
        self.files.iter().filter(move |file| {
            let is_of_sink = is_sink && is_segment(file);
            !is_of_sink && (is_segment(file) || !holds_other_records(file))
        })
    }
}

/// The document as an object, when it is one.
fn object(file: &Path) -> Option<Map> {
    match parse(&read_described(file).ok()?).ok()? {
        Value::Map(map) => Some(map),
        _ => None,
    }
}

pub(super) fn is_segment(file: &Path) -> bool {
    SinkNames::of_segment(&plain_name(file)).is_some()
}

/// Whether the first line of a file of lines is an object without any key that a record has, as in
/// a data set. A line that cannot be read may be a damaged record.
pub(crate) fn holds_other_records(file: &Path) -> bool {
    if FileKind::of(file) != Some(FileKind::Lines) {
        return false;
    }
    let Ok(source) = open(file) else {
        return false;
    };
    let mut head = Vec::new();
    // What was read before a failure is enough, or the loader reports the failure.
    let _ = source
        .reader
        .take(LONGEST_FIRST_LINE)
        .read_to_end(&mut head);
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.find(|line| !line.trim_ascii().is_empty());
    let Some(Ok(Value::Map(record))) = first.map(parse) else {
        return false;
    };
    !record
        .iter()
        .any(|(key, _)| RECORD_KEYS.contains(&key.as_bytes()))
}

/// Where a path leads.
enum Reach {
    /// To a file in one of the roots.
    Inside,
    /// To a file elsewhere.
    Outside,
    /// To no file: nothing, a directory, a FIFO.
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
}
