//! The catalog of the paths given to a query: sources of events, bundles, runs and attachments.
//!
//! Only manifests, run envelopes (`stormlog_run.json`) and attachment sidecars
//! (`stormlog_attachments.json`) are read, so the cost does not depend on the number of events.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use stormlog_format::{Manifest, Map, SessionSummary, SinkNames, Text, Value, file_names};

use super::envelope::RunEnvelope;
use super::ooms::OomBundle;
use super::payload;
use super::sidecar::{self, ExternalAttachment};
use crate::bytes::read_object;
use crate::catalog::{
    Directory, FileKind, Scope, Shape, holding_folder, holds_other_records, names_of_manifest,
    plain_name, resolve, resolved_manifest, segments_in, settled, sink_names, tidy, walk,
};
use crate::pack::unpacked;
use crate::regular_file::{Refused, folder_of, refusal};

/// The type of a source of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// A directory of segments with a manifest.
    Sink,
    /// A JSON document.
    TelemetryJson,
    /// A file with one record per line.
    TelemetryJsonl,
    /// A CSV table.
    TelemetryCsv,
    /// A bundle written by `diagnose`.
    DiagnoseBundle,
}

stormlog_format::names!(SourceKind {
    Sink => "sink",
    TelemetryJson => "telemetry_json",
    TelemetryJsonl => "telemetry_jsonl",
    TelemetryCsv => "telemetry_csv",
    DiagnoseBundle => "diagnose_bundle",
});

impl SourceKind {
    /// The type of a session's recording, from the name of its first file. If the file is a
    /// segment, the recording is a sink.
    pub(crate) fn of_recording(file: &Path) -> Self {
        if plain_name(file).starts_with("segment-") {
            return Self::Sink;
        }
        Self::of_file(file).unwrap_or(Self::TelemetryJson)
    }

    /// The type of a source file, determined from its name.
    fn of_file(path: &Path) -> Option<Self> {
        Some(match FileKind::of(path)? {
            FileKind::Document => Self::TelemetryJson,
            FileKind::Lines => Self::TelemetryJsonl,
            FileKind::Table => Self::TelemetryCsv,
        })
    }
}

/// An artifact that contains sessions.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path of the source.
    pub path: PathBuf,
    /// Type of the source.
    pub kind: SourceKind,
    /// The files with the source's events.
    pub event_paths: Vec<PathBuf>,
    /// The path of the source's manifest, if any.
    pub manifest_path: Option<PathBuf>,
    /// The contents of a sink's manifest.
    pub manifest: Option<Manifest>,
    /// The session of a diagnose bundle.
    pub diagnosed: Option<SessionSummary>,
}

impl Source {
    fn flat(path: PathBuf, kind: SourceKind) -> Self {
        Self {
            event_paths: vec![path.clone()],
            path,
            kind,
            manifest_path: None,
            manifest: None,
            diagnosed: None,
        }
    }

    /// The source as a map, in the form shown in rows.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("path", payload::path_text(&self.path));
        map.insert("source_kind", self.kind.as_str());
        let paths = self.event_paths.iter();
        let paths = paths.map(|path| Value::Text(payload::path_text(path)));
        map.insert("event_paths", Value::List(paths.collect()));
        let manifest = self.manifest_path.as_deref().map(payload::path_text);
        map.insert("manifest_path", manifest);
        map
    }
}

/// A problem with a path that may affect the results.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CatalogWarning {
    /// The path that has the problem.
    pub path: Text,
    /// Description of the problem.
    pub message: String,
}

/// The contents of the given paths.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The given paths.
    pub paths: Vec<PathBuf>,
    /// Sources of events, such as sinks and exports.
    pub sources: Vec<Source>,
    /// OOM bundles found at the paths.
    pub oom_bundles: Vec<OomBundle>,
    /// Attachments listed in sidecars.
    pub attachments: Vec<ExternalAttachment>,
    /// Envelopes that describe runs.
    pub run_envelopes: Vec<RunEnvelope>,
    /// Warnings about problems with the paths.
    pub warnings: Vec<CatalogWarning>,
    /// The warnings that concern files or folders that could not be read.
    pub unread: Vec<CatalogWarning>,
}

impl Catalog {
    /// Builds the catalog of the given paths, in their order.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Self {
        let opened = paths.iter().map(|path| unpacked(path.as_ref()));
        let opened: Vec<_> = opened.collect();
        let roots = opened.iter().flatten();
        let roots = roots.filter_map(|path| holding_folder(path));
        let mut discovery = Discovery {
            roots: roots.collect(),
            ..Discovery::default()
        };
        for (path, opened) in paths.iter().zip(&opened) {
            discovery.catalog.paths.push(tidy(path.as_ref()));
            match opened {
                Ok(path) => discovery.path(&resolved_manifest(tidy(path))),
                Err(error) => discovery.unread(path.as_ref(), error.source.to_string()),
            }
        }
        discovery.catalog
    }

    /// Whether the paths contain nothing that can be queried.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
            && self.oom_bundles.is_empty()
            && self.attachments.is_empty()
            && self.run_envelopes.is_empty()
    }
}

/// A catalog under construction.
#[derive(Default)]
struct Discovery {
    catalog: Catalog,
    /// The folders of the given paths. Links and the relative paths of attachments must not lead
    /// out of these folders.
    roots: Vec<PathBuf>,
    seen_sources: HashSet<(PathBuf, SourceKind)>,
    seen_files: HashSet<PathBuf>,
    /// Segments that belong to a sink that is already in the catalog.
    covered: HashSet<PathBuf>,
    /// The paths of the OOM bundles, with links resolved.
    bundles: Vec<PathBuf>,
    /// Run ids for which more than one envelope was found.
    repeated_runs: HashSet<Text>,
}

impl Discovery {
    fn warn(&mut self, path: &Path, message: impl Into<String>) {
        self.catalog.warnings.push(CatalogWarning {
            path: payload::path_text(path),
            message: message.into(),
        });
    }

    /// Adds a warning about a file or folder that could not be read.
    fn unread(&mut self, path: &Path, message: impl Into<String>) {
        self.warn(path, message);
        self.catalog
            .unread
            .extend(self.catalog.warnings.last().cloned());
    }

    fn path(&mut self, path: &Path) {
        if path.is_dir() {
            self.directory(path);
        } else if path.exists() {
            self.file(path);
        } else {
            self.warn(path, "path does not exist");
        }
    }

    fn directory(&mut self, directory: &Path) {
        let mut found = walk(directory, &self.roots, Scope::Everything);
        let found: Vec<Directory> = found.drain(..).map(|(directory, _)| directory).collect();
        let Some((root, below)) = found.split_first() else {
            return;
        };
        if let Some(file) = &root.run_file {
            self.envelope(file);
        }
        if let Some(file) = &root.attachments {
            self.sidecar(file);
        }
        let own = directory.join(SinkNames::Ordinary.manifest());
        if let Some(document) = root.manifest(SinkNames::Ordinary)
            && self.manifest(&own, document) == Shape::OomBundle
        {
            return;
        }
        let mut manifests: Vec<_> = found.iter().flat_map(|one| &one.manifests).collect();
        manifests.retain(|(file, _)| *file != own);
        manifests.sort_by(|a, b| a.0.cmp(&b.0));
        for (file, document) in manifests {
            if let Some(document) = document {
                self.manifest(file, document);
            }
        }
        for file in below.iter().filter_map(|one| one.attachments.as_ref()) {
            self.sidecar(file);
        }
        for file in below.iter().filter_map(|one| one.run_file.as_ref()) {
            self.envelope(file);
        }
        let mut files: Vec<&PathBuf> = found.iter().flat_map(|one| &one.files).collect();
        files.sort();
        for file in files {
            let resolved = resolve(file);
            let mut bundles = self.bundles.iter();
            let is_accounted_for = self.covered.contains(&resolved)
                || bundles.any(|bundle| resolved.starts_with(bundle));
            if !is_accounted_for
                && !holds_other_records(file)
                && let Some(kind) = SourceKind::of_file(file)
            {
                self.source(Source::flat(file.clone(), kind));
            }
        }
        self.note_refused(&found);
    }

    fn note_refused(&mut self, found: &[Directory]) {
        let closed = found.iter().filter_map(|one| {
            let reason = one.closed.as_ref()?;
            Some((&one.path, format!("cannot be read: {reason}")))
        });
        let refused = || found.iter().flat_map(|one| &one.refused);
        let special = refused()
            .filter(|(_, reason)| *reason != Refused::Outside)
            .map(|(file, reason)| (file, format!("refused: {reason}")));
        for (path, message) in closed.chain(special) {
            self.unread(path, message);
        }
        for (link, _) in refused().filter(|(_, reason)| *reason == Refused::Outside) {
            self.warn(link, "refused: a link that leads outside the given paths");
        }
    }

    fn file(&mut self, file: &Path) {
        let name = file.file_name().unwrap_or_default();
        if names_of_manifest(file).is_some() {
            match read_object(file) {
                None => self.warn(file, "manifest is not a JSON object"),
                Some(document) => {
                    if self.manifest(file, &document) == Shape::Plain {
                        self.warn(file, "unrecognized manifest shape");
                    }
                }
            }
        } else if name == file_names::RUN_ENVELOPE {
            self.envelope(file);
        } else if name == file_names::ATTACHMENTS {
            self.sidecar(file);
        } else if let Some(kind) = SourceKind::of_file(file) {
            self.source(Source::flat(file.to_path_buf(), kind));
        }
    }

    /// Adds an artifact according to the contents of its manifest.
    fn manifest(&mut self, file: &Path, document: &Map) -> Shape {
        let directory = folder_of(file);
        let shape = Shape::of(document);
        let is_host = names_of_manifest(file) == Some(SinkNames::Host);
        // A file named `host.json` counts as a manifest only if it describes a sink, and only as
        // long as the directory has no `manifest.json` that describes a sink.
        if is_host && (shape != Shape::Sink || sink_names(directory) == Some(SinkNames::Ordinary)) {
            return Shape::Plain;
        }
        match shape {
            Shape::OomBundle => {
                let resolved = resolve(directory);
                if !self.bundles.contains(&resolved) {
                    self.bundles.push(resolved);
                    let details = directory.join(super::ooms::DETAILS);
                    if let Some(reason) = refusal(directory, &details) {
                        self.warn(&details, format!("refused: {reason}"));
                    }
                    let bundle = OomBundle::read(directory, file, document);
                    self.catalog.oom_bundles.push(bundle);
                }
            }
            Shape::DiagnoseBundle => self.source(Source {
                path: directory.to_path_buf(),
                kind: SourceKind::DiagnoseBundle,
                event_paths: Vec::new(),
                manifest_path: Some(file.to_path_buf()),
                manifest: None,
                diagnosed: super::sessions::diagnosed(document),
            }),
            Shape::Sink => self.sink(directory, file, document),
            Shape::Plain => {}
        }
        shape
    }

    fn sink(&mut self, directory: &Path, file: &Path, document: &Map) {
        let names = names_of_manifest(file).unwrap_or_default();
        let manifest = settled(directory, names, Manifest::from_map(document));
        let (segments, damage) =
            segments_in(directory, Some(&manifest), Some(names)).unwrap_or_default();
        let key = (resolve(directory), SourceKind::Sink);
        self.covered
            .extend(segments.iter().map(|segment| resolve(segment)));
        if self.seen_sources.contains(&key) {
            return;
        }
        for damage in damage {
            self.warn(&damage.file, damage.reason);
        }
        self.source(Source {
            path: directory.to_path_buf(),
            kind: SourceKind::Sink,
            event_paths: segments,
            manifest_path: Some(file.to_path_buf()),
            manifest: Some(manifest),
            diagnosed: None,
        });
    }

    fn source(&mut self, source: Source) {
        if self
            .seen_sources
            .insert((resolve(&source.path), source.kind))
        {
            self.catalog.sources.push(source);
        }
    }

    fn envelope(&mut self, file: &Path) {
        if !self.seen_files.insert(resolve(file)) {
            return;
        }
        let Some(document) = read_object(file) else {
            self.warn(file, "run envelope is not a JSON object");
            return;
        };
        let Some(mut envelope) = RunEnvelope::read(&document, file) else {
            self.warn(file, "unrecognized run envelope shape");
            return;
        };
        self.refuse_attachments(&mut envelope, &document, file);
        let id = envelope.run_id.clone();
        let repeated = format!("duplicate run envelope run_id '{id}'");
        if self.repeated_runs.contains(&id) {
            self.warn(file, repeated);
            return;
        }
        let known = &mut self.catalog.run_envelopes;
        if let Some(index) = known.iter().position(|known| known.run_id == id) {
            let first = known.remove(index);
            self.repeated_runs.insert(id);
            self.warn(&first.path, repeated.clone());
            self.warn(file, repeated);
            return;
        }
        known.push(envelope);
    }

    /// Removes from an envelope the attachments whose files are outside the given paths.
    fn refuse_attachments(&mut self, envelope: &mut RunEnvelope, document: &Map, file: &Path) {
        let Some(Value::List(entries)) = document.get("attachments") else {
            return;
        };
        let mut place = 0;
        let mut refused = Vec::new();
        // An envelope is parsed completely or not at all, so its attachments correspond one to one
        // to the entries in the file.
        envelope.attachments.retain(|_| {
            let entry = entries.get(place).and_then(Value::as_map);
            let leaves = entry.is_some_and(|entry| sidecar::leaves(entry, file, &self.roots));
            if leaves {
                refused.push(place);
            }
            place += 1;
            !leaves
        });
        for place in refused {
            self.warn(file, sidecar::refusal(place));
        }
    }

    fn sidecar(&mut self, file: &Path) {
        if !self.seen_files.insert(resolve(file)) {
            return;
        }
        let Some(document) = read_object(file) else {
            self.warn(file, "attachment sidecar is not a JSON object");
            return;
        };
        let (attachments, warnings) = sidecar::read(&document, file, &self.roots);
        for message in warnings {
            self.warn(file, message);
        }
        self.catalog.attachments.extend(attachments);
    }
}
