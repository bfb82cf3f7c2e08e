//! One directory of the catalog: its files and folders, without the content of those folders.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use stormlog_format::json::parse_object;
use stormlog_format::{Map, RECORD_KEYS, SinkNames, file_names};

use super::names::{FileKind, is_hidden, plain_name};
use super::shape::Shape;
use crate::bytes::{open, read_object};
use crate::pack::has_ending;
use crate::regular_file::{Refused, special_kind};

/// At most this many bytes of a file are read to find its first line.
const LONGEST_FIRST_LINE: u64 = 1 << 16;

/// The entries directly in a directory. Entries that are not read are listed only in `refused`.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    pub(crate) shape: Shape,
    /// The directory's manifests, each with its content if the content is a JSON object.
    pub(crate) manifests: Vec<(PathBuf, Option<Map>)>,
    /// The path of `stormlog_run.json`, in which a user or a tool describes the run.
    pub(crate) run_file: Option<PathBuf>,
    /// The path of `stormlog_attachments.json`, which links to data of other tools about the run.
    pub(crate) attachments: Option<PathBuf>,
    /// Files that may hold events according to their names, including segments.
    pub(crate) files: Vec<PathBuf>,
    /// Packs: archive files, each of which holds one or more recordings.
    pub(crate) packs: Vec<PathBuf>,
    /// Subdirectories, except hidden ones and links.
    pub(crate) folders: Vec<PathBuf>,
    /// Entries that are not read: links that leave the given paths, FIFOs, devices.
    pub(crate) refused: Vec<(PathBuf, Refused)>,
    /// The error message if the directory could not be listed; `None` if it was.
    pub(crate) closed: Option<String>,
}

impl Directory {
    /// Lists the entries of a directory. A link to a file is followed only when its target lies
    /// below one of the `roots`, which are the paths that the user gave.
    pub(crate) fn read(path: &Path, roots: &[PathBuf]) -> Self {
        let mut found = Self {
            path: path.to_path_buf(),
            shape: Shape::Plain,
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
        found.shape = found.find_shape();
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
        let is_known =
            is_manifest || name == file_names::RUN_ENVELOPE || name == file_names::ATTACHMENTS;
        let is_pack = has_ending(&path);
        if !is_known && !is_pack && FileKind::of_found(&path).is_none() {
            return;
        }
        if let Err(refused) = check(&path, kind, roots) {
            self.refused.extend(refused.map(|refused| (path, refused)));
            return;
        }
        if is_manifest {
            let document = read_object(&path);
            self.manifests.push((path, document));
        } else if name == file_names::RUN_ENVELOPE {
            self.run_file = Some(path);
        } else if name == file_names::ATTACHMENTS {
            self.attachments = Some(path);
        } else if is_pack {
            self.packs.push(path);
        } else {
            self.files.push(path);
        }
    }

    /// The directory's manifest with the given kind of file name (`manifest.json` or `host.json`),
    /// if its content is a JSON object.
    pub(crate) fn manifest(&self, names: SinkNames) -> Option<&Map> {
        let mut manifests = self.manifests.iter();
        let found = manifests.find(|(path, _)| path.ends_with(names.manifest()))?;
        found.1.as_ref()
    }

    fn find_shape(&self) -> Shape {
        match self.manifest(SinkNames::Ordinary).map(Shape::of) {
            None | Some(Shape::Plain) => {}
            Some(shape) => return shape,
        }
        let host = self.manifest(SinkNames::Host).map(Shape::of);
        if host == Some(Shape::Sink) || self.files.iter().any(|file| is_segment(file)) {
            return Shape::Sink;
        }
        let is_timeline = |file: &PathBuf| plain_name(file) == file_names::TIMELINE;
        if self.files.iter().any(is_timeline) {
            return Shape::DiagnoseBundle;
        }
        Shape::Plain
    }

    /// The files that are artifacts of their own. Segments of a sink are left out, and so are
    /// `.jsonl` files whose records are not events.
    pub(crate) fn loose_files(&self) -> impl Iterator<Item = &PathBuf> {
        let is_sink = self.shape == Shape::Sink;
        self.files.iter().filter(move |file| {
            let is_of_sink = is_sink && is_segment(file);
            !is_of_sink && (is_segment(file) || !holds_other_records(file))
        })
    }
}

impl Directory {
    /// The `.jsonl` files of a directory that is no sink whose records are not events.
    pub(super) fn other_files(&self) -> impl Iterator<Item = &PathBuf> {
        let files = self.files.iter();
        files.filter(|file| !is_segment(file) && holds_other_records(file))
    }
}

pub(super) fn is_segment(file: &Path) -> bool {
    SinkNames::of_segment(&plain_name(file)).is_some()
}

/// Whether the first line of a `.jsonl` file is an object with none of the keys of an event, as in
/// a data set. If the first line cannot be parsed, the result is false, because it may be a damaged
/// event.
pub(crate) fn holds_other_records(file: &Path) -> bool {
    if FileKind::of(file) != Some(FileKind::Lines) {
        return false;
    }
    let Ok(source) = open(file) else {
        return false;
    };
    let lines = BufReader::new(source.reader.take(LONGEST_FIRST_LINE)).split(b'\n');
    // A read error ends the search: the loader reports it.
    let mut lines = lines.map_while(Result::ok);
    let first = lines.find(|line| !line.trim_ascii().is_empty());
    let Some(record) = first.as_deref().and_then(parse_object) else {
        return false;
    };
    !record
        .iter()
        .any(|(key, _)| RECORD_KEYS.contains(&key.as_bytes()))
}

/// Checks that the target of a path is a file, and that it lies below one of the roots (the paths
/// that the user gave). The error is the reason why the path is refused; it is `None` when the path
/// is ignored, because its target is missing or a directory.
fn check(path: &Path, kind: fs::FileType, roots: &[PathBuf]) -> Result<(), Option<Refused>> {
    if kind.is_file() {
        return Ok(());
    }
    if !kind.is_symlink() || !path.is_file() {
        let kind = path.metadata().ok().map(|facts| facts.file_type());
        let kind = kind.filter(|kind| !kind.is_dir()).and_then(special_kind);
        return Err(kind.map(Refused::NotRegular));
    }
    match path.canonicalize() {
        Ok(path) if roots.iter().any(|root| path.starts_with(root)) => Ok(()),
        _ => Err(Some(Refused::Outside)),
    }
}
