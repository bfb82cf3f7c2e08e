//! Reads the numbers of a failed allocation (the bytes requested, in use and free) from the bundles
//! that the OOM flight recorder writes next to a sink. Version 0.4.0 wrote these numbers only into
//! bundles, not into events.

use std::path::{Path, PathBuf};

use stormlog_format::json::parse;
use stormlog_format::{Map, Value, metadata_keys};

use super::run::Run;
use super::track::OomMark;
use crate::load::LoadedSession;
use crate::pack;
use crate::regular_file;
use crate::untrusted::bytes;

/// The name of the folder next to a sink that contains its bundles, and the name of the file that
/// contains the numbers of the failed request, in each bundle.
const FOLDER: &str = "oom_dumps";
const FILE: &str = stormlog_format::file_names::METADATA;
/// Maximum number of bundles that are read, and maximum size in bytes of the file that is read from
/// a bundle.
const MOST_BUNDLES: usize = 256;
const LARGEST_BYTES: u64 = 4 << 20;

/// Adds the numbers in OOM bundles to out-of-memory errors whose requested bytes are unknown. OOM
/// bundles that cannot be read are ignored.
pub fn read_oom_bundles(run: &mut Run, sessions: &[&LoadedSession]) {
    let lacks = |mark: &OomMark| mark.requested.is_none();
    if !run.tracks.iter().any(|track| track.ooms.iter().any(lacks)) {
        return;
    }
    let mut folders: Vec<PathBuf> = sessions
        .iter()
        .flat_map(|session| &session.sources)
        .filter_map(|file| pack::unpacked(Path::new(file)).ok())
        .filter_map(|file| Some(file.parent()?.join(FOLDER)))
        .collect();
    folders.sort();
    folders.dedup();
    let bundles = folders.iter().flat_map(|folder| bundles_in(folder));
    fill_oom_marks(run, bundles.collect());
}

/// Adds the numbers of the given bundles, which are sorted by name, to out-of-memory errors whose
/// requested bytes are unknown.
pub fn fill_oom_marks(run: &mut Run, mut bundles: Vec<BundleNumbers>) {
    let lacks = |mark: &OomMark| mark.requested.is_none();
    for track in &mut run.tracks {
        for mark in track.ooms.iter_mut().filter(|mark| lacks(mark)) {
            // Bundles are named by time, so the first bundle of a session belongs to its first
            // error.
            let own = |bundle: &BundleNumbers| bundle.session_id == track.session_id;
            if let Some(index) = bundles.iter().position(own) {
                bundles.remove(index).fill(mark);
            }
        }
    }
}

/// The numbers that an OOM bundle (a folder written after an out-of-memory error) records about the
/// failed request for memory, such as the requested and the free bytes.
#[derive(Clone, Debug, Default)]
pub struct BundleNumbers {
    session_id: String,
    mark: OomMark,
}

impl BundleNumbers {
    /// Parses the numbers from the content of a bundle's `metadata.json`, which describes the
    /// exception.
    #[must_use]
    pub fn of(document: &Map) -> Option<Self> {
        let session_id = document.get("session_id")?.as_text()?;
        let numbers = document.get("custom_metadata")?.as_map()?;
        Some(Self {
            session_id: session_id.to_str_lossy().into_owned(),
            mark: OomMark {
                requested: bytes(numbers, metadata_keys::REQUESTED_BYTES),
                limit: bytes(numbers, "limit_bytes"),
                free: bytes(numbers, "free_bytes"),
                allocated: bytes(numbers, "sample_allocated_bytes"),
                reserved: bytes(numbers, "sample_reserved_bytes"),
                used: bytes(numbers, "sample_used_bytes"),
                ..OomMark::default()
            },
        })
    }

    fn fill(self, mark: &mut OomMark) {
        let known = self.mark;
        mark.requested = mark.requested.or(known.requested);
        mark.limit = mark.limit.or(known.limit);
        mark.free = mark.free.or(known.free);
        mark.allocated = mark.allocated.or(known.allocated);
        mark.reserved = mark.reserved.or(known.reserved);
        mark.used = mark.used.or(known.used);
    }
}

fn bundles_in(folder: &Path) -> Vec<BundleNumbers> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .iter()
        .take(MOST_BUNDLES)
        .filter_map(|path| read(folder, &path.join(FILE)))
        .collect()
}

fn read(folder: &Path, file: &Path) -> Option<BundleNumbers> {
    let bytes = regular_file::read_inside(folder, file, LARGEST_BYTES).ok()?;
    let Ok(Value::Map(document)) = parse(&bytes) else {
        return None;
    };
    BundleNumbers::of(&document)
}
