//! Follows sinks that are being written: what is new since the last look.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use hashbrown::{HashMap, HashSet};
use stormlog_format::json::parse;
use stormlog_format::{Event, Map, RecordDefaults, Text, Value, classify, event_from_record};

use super::catalog::{Catalog, CatalogWarning, Source, SourceKind};
use super::payload::path_text;

/// Most bytes of a file that are read at once; the rest is read at the next look.
const MOST_AT_ONCE: u64 = 8 << 20;

/// Most damaged lines reported per look at a file; more would drown the rest.
const MOST_REPORTED: usize = 5;

/// An event or bundle that is reported to a user who follows a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    /// `alert`, `collector`, `oom`, `oom_bundle`, or the kind of a finding.
    pub kind: &'static str,
    /// How bad it is.
    pub severity: Text,
    /// When it happened.
    pub timestamp_ns: Option<i64>,
    /// The session.
    pub session_id: Option<Text>,
    /// The rank.
    pub rank: Option<i64>,
    /// What it says.
    pub message: Text,
    /// The file or bundle.
    pub source_path: Text,
}

impl Sighting {
    /// The sighting, keys in order.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("kind", self.kind);
        map.insert("severity", self.severity.clone());
        map.insert("timestamp_ns", self.timestamp_ns);
        map.insert("session_id", self.session_id.clone());
        map.insert("rank", self.rank);
        map.insert("message", self.message.clone());
        map.insert("source_path", self.source_path.clone());
        map
    }
}

/// Remembers how far each file was read.
pub struct Follower {
    paths: Vec<PathBuf>,
    offsets: HashMap<PathBuf, u64>,
    bundles: HashSet<PathBuf>,
    /// Lines that could not be read and were not reported yet.
    damaged: Vec<CatalogWarning>,
    /// Files that were there at the first look are new from their end on.
    skips_what_is_there: bool,
}

impl Follower {
    /// Follows what the paths hold, from the beginning or from now on.
    pub fn new(paths: Vec<PathBuf>, from_start: bool) -> Self {
        Self {
            paths,
            offsets: HashMap::new(),
            bundles: HashSet::new(),
            damaged: Vec::new(),
            skips_what_is_there: !from_start,
        }
    }

    /// What is new since the last look, in the order of the files.
    pub fn look(&mut self) -> Vec<Sighting> {
        let catalog = Catalog::open(&self.paths);
        let mut found = Vec::new();
        let lines = [SourceKind::Sink, SourceKind::TelemetryJsonl];
        for source in catalog
            .sources
            .iter()
            .filter(|one| lines.contains(&one.kind))
        {
            for file in &source.event_paths {
                if is_rewritten(source, file) && self.offsets.contains_key(file) {
                    // Its events are old, and were seen before they were thinned.
                    continue;
                }
                // A file that cannot be read now may be readable at the next look.
                let _ = self.read(file, &mut found);
            }
        }
        for bundle in &catalog.oom_bundles {
            if !self.bundles.insert(bundle.bundle_path.clone()) || self.skips_what_is_there {
                continue;
            }
            let reason = bundle.reason.clone().unwrap_or_else(|| "unknown".into());
            found.push(Sighting {
                kind: "oom_bundle",
                severity: "critical".into(),
                timestamp_ns: bundle.created_ns(),
                session_id: bundle.session_id.clone(),
                rank: None,
                message: format!("OOM bundle: {reason}").into(),
                source_path: path_text(&bundle.bundle_path),
            });
        }
        self.skips_what_is_there = false;
        found
    }

    /// What could not be read since the last call, at most five damaged lines per look
    /// at a file.
    pub fn take_warnings(&mut self) -> Vec<CatalogWarning> {
        std::mem::take(&mut self.damaged)
    }

    fn read(&mut self, path: &Path, found: &mut Vec<Sighting>) -> std::io::Result<()> {
        let mut file = crate::regular_file::open(path)?;
        let size = file.metadata()?.len();
        let start = match self.offsets.get(path) {
            // A file that shrank was written anew.
            Some(offset) if *offset <= size => *offset,
            None if self.skips_what_is_there => size,
            _ => 0,
        };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.take(MOST_AT_ONCE).read_to_end(&mut bytes)?;
        let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |place| place + 1);
        let is_endless = whole == 0 && bytes.len() as u64 == MOST_AT_ONCE;
        let end = if is_endless { bytes.len() } else { whole };
        self.offsets.insert(path.to_path_buf(), start + end as u64);
        let mut reported = 0;
        for line in bytes[..whole].split(|byte| *byte == b'\n') {
            match event_of(line) {
                Ok(event) => found.extend(event.and_then(|event| sighting(event, path))),
                Err(message) if reported < MOST_REPORTED => {
                    reported += 1;
                    let path = path_text(path);
                    self.damaged.push(CatalogWarning { path, message });
                }
                Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Whether a segment was written anew to thin it.
fn is_rewritten(source: &Source, file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default();
    let manifest = source.manifest.as_ref();
    let mut segments = manifest.iter().flat_map(|manifest| &manifest.segments);
    segments
        .any(|segment| segment.thinned_interval_ns > 0 && *name == *segment.filename.to_str_lossy())
}

/// The event of a line, nothing when the line is blank, or what is wrong with it.
fn event_of(line: &[u8]) -> Result<Option<Event>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let Value::Map(record) = parse(line).map_err(|error| format!("damaged line: {error}"))? else {
        return Err("damaged line: not an object".into());
    };
    event_from_record(&record, &RecordDefaults::default())
        .map(Some)
        .map_err(|error| format!("damaged line: {error}"))
}

fn sighting(event: Event, path: &Path) -> Option<Sighting> {
    let (kind, metadata) = (&event.event_type, &event.metadata);
    let what = if classify::is_oom(kind, metadata) {
        "oom"
    } else if *kind == "collector_degraded" || *kind == "collector_recovered" {
        "collector"
    } else if classify::is_alert(kind, metadata) {
        "alert"
    } else {
        return None;
    };
    let said = event.context.filter(|context| !context.is_blank());
    let severity = match what {
        "collector" if event.event_type == "collector_degraded" => "warning".into(),
        _ => classify::severity(&event.event_type, &event.metadata),
    };
    Some(Sighting {
        kind: what,
        severity,
        timestamp_ns: Some(event.timestamp_ns),
        session_id: Some(event.session_id),
        rank: Some(event.rank),
        message: said.unwrap_or(event.event_type),
        source_path: path_text(path),
    })
}
