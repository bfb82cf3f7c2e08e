//! Determines the type of an artifact: sink, `.jsonl` file, JSON document, CSV table or bundle.

use std::path::{Path, PathBuf};

use stormlog_format::json::parse;
use stormlog_format::{Manifest, Segment, SinkNames, file_names};

use crate::bytes::{read_document, read_error};
use crate::catalog::{
    FileKind, Shape, directory_of, manifest_document, manifest_path, plain_name,
    plain_or_compressed, read_manifest, resolved_manifest, segments_in, settled, sink_manifest,
    tidy,
};
use crate::damage::Damage;
use crate::load_error::LoadError;
use crate::pack;
use crate::regular_file::{Refused, folder_of, refusal};

/// The type of an artifact, with its files.
#[derive(Debug)]
#[non_exhaustive]
pub enum Artifact {
    /// A directory of segments, with or without a manifest.
    Sink {
        /// The manifest of the sink, if there is a readable one.
        manifest: Option<Manifest>,
        /// The segment files, sorted by name.
        segments: Vec<PathBuf>,
        /// Segments that are missing, invalid entries of the manifest, and files that are not read
        /// for safety (links out of the sink, FIFOs, devices).
        damage: Vec<Damage>,
    },
    /// A file with one record per line. If the folder of the `.jsonl` file has a manifest, the
    /// manifest supplies the session summaries.
    Lines {
        /// The manifest in the folder of the `.jsonl` file, if any.
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
    /// A bundle written by `diagnose`.
    DiagnoseBundle {
        /// The folder of the bundle.
        directory: PathBuf,
    },
    /// The timeline of a diagnose bundle.
    Timeline {
        /// The file.
        file: PathBuf,
    },
    /// A bundle written by the OOM flight recorder.
    OomBundle {
        /// The folder of the bundle.
        directory: PathBuf,
    },
}

impl Artifact {
    /// Determines the type of the artifact at a path without reading events.
    pub fn at(path: &Path) -> Result<Self, LoadError> {
        let path = &resolved_manifest(tidy(&pack::unpacked(path)?));
        let directory = directory_of(path);
        if let Some(directory) = directory {
            return Self::in_directory(directory, path);
        }
        let file = path.clone();
        Ok(match FileKind::of(path) {
            Some(FileKind::Lines) => {
                let parent = folder_of(path);
                let is_host_segment = SinkNames::Host.segment_stem(&plain_name(path)).is_some();
                let manifest = sink_manifest(parent, SinkNames::Host)
                    .filter(|_| is_host_segment)
                    .or_else(|| read_manifest(&parent.join(SinkNames::Ordinary.manifest())));
                Self::Lines { manifest, file }
            }
            Some(FileKind::Table) => Self::Csv { file },
            _ if plain_name(path) == file_names::TIMELINE => Self::Timeline { file },
            _ => Self::Document { file },
        })
    }

    /// A sink of which only the given segments are read.
    pub(crate) fn of_segments(manifest: Option<&Manifest>, segments: Vec<PathBuf>) -> Self {
        Self::Sink {
            manifest: manifest.cloned(),
            segments,
            damage: Vec::new(),
        }
    }

    /// The size on disk of the files that contain the artifact's events, in bytes.
    pub fn size_bytes(&self) -> u64 {
        let size = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
        match self {
            Self::Sink { segments, .. } => segments.iter().map(|path| size(path)).sum(),
            Self::Lines { file, .. }
            | Self::Document { file }
            | Self::Csv { file }
            | Self::Timeline { file } => size(file),
            Self::DiagnoseBundle { directory } => size(&directory.join(file_names::TIMELINE)),
            Self::OomBundle { directory } => size(&directory.join("events.json")),
        }
    }

    /// Whether segments of the sink were rewritten since `self` was created. If so, lines read in
    /// between may have been read twice or missed, so the sink must be read again.
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
        let document = manifest_document(&directory.join(SinkNames::Ordinary.manifest()));
        let shape = document.as_ref().map_or(Shape::Plain, Shape::of);
        if shape == Shape::OomBundle {
            return Ok(Self::OomBundle {
                directory: directory.into(),
            });
        }
        if shape == Shape::DiagnoseBundle {
            let recorded = directory.join(file_names::BUNDLE_SINK);
            // Unlike those of stormlog 0.3.9, bundles of Stormlog contain a sink with the events,
            // which is read instead of the timeline because it is more detailed.
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
        let host_manifest = if shape == Shape::Sink {
            None
        } else {
            sink_manifest(directory, SinkNames::Host)
        };
        let names = if shape == Shape::Sink {
            Some(SinkNames::Ordinary)
        } else {
            host_manifest.as_ref().map(|_| SinkNames::Host)
        };
        let is_sink = names.is_some();
        let manifest = host_manifest.or_else(|| {
            let manifest = Manifest::from_map(&document?);
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
        let timeline = plain_or_compressed(directory, file_names::TIMELINE);
        if segments.is_empty() && !is_sink && timeline.is_some() {
            return Ok(Self::DiagnoseBundle {
                directory: directory.into(),
            });
        }
        if segments.is_empty() && !is_sink {
            // When a folder contains only segments that are not read for safety (see `Refused`),
            // the error names the first of them.
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

/// The error for a manifest that the user gave as the artifact but that cannot be read.
fn unreadable_manifest(path: &Path) -> LoadError {
    match read_document(path) {
        Err(error) => error,
        Ok(bytes) => match parse(&bytes) {
            Err(source) => LoadError::json(path, source),
            Ok(_) => LoadError::NoEvents { file: path.into() },
        },
    }
}

/// Whether a folder is inside another folder after resolving links.
fn is_inside(directory: &Path, below: &Path) -> bool {
    match (directory.canonicalize(), below.canonicalize()) {
        (Ok(directory), Ok(below)) => below.starts_with(directory),
        _ => false,
    }
}
