//! Finds alerts, degraded collectors and out-of-memory errors as they happen, for a user who
//! watches running jobs.

use std::path::{Path, PathBuf};

use serde::Serialize;
use stormlog_format::{Event, SinkNames, Text, classify};

use super::catalog::CatalogWarning;
use super::ooms::OomBundle;
use super::payload::path_text;
use crate::bytes::read_object;
use crate::catalog::{FollowFrom, Follower};

/// Something to report to a user who watches running jobs: an alert, a change of a collector's
/// health, an out-of-memory error, an OOM bundle or a finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sighting {
    /// The kind of the sighting: `alert`, `collector`, `oom`, `oom_bundle`, or the kind of a
    /// finding.
    pub kind: &'static str,
    /// The severity of the event or bundle, such as `warning` or `critical`.
    pub severity: Text,
    /// When the event happened, or when the bundle was written, in nanoseconds since 1970.
    pub timestamp_ns: Option<i64>,
    /// The session of the event or bundle.
    pub session_id: Option<Text>,
    /// The rank of the event; `None` for a bundle.
    pub rank: Option<i64>,
    /// A text for the user: the context of the event, its type if it has no context, or the reason
    /// that a bundle records.
    pub message: Text,
    /// Path of the file that contains the event, or of the bundle.
    pub source_path: Text,
}

/// Watches the recordings at some paths, and reports what is new in them as [`Sighting`]s.
pub struct Watch {
    follower: Follower,
    /// Warnings about damaged lines that [`take_warnings`](Self::take_warnings) has not returned
    /// yet.
    damaged: Vec<CatalogWarning>,
}

impl Watch {
    /// Watches the artifacts at the paths, from their beginning or from the current time on.
    pub fn new(paths: Vec<PathBuf>, from_start: bool) -> Self {
        let from = if from_start {
            FollowFrom::Start
        } else {
            FollowFrom::Now
        };
        Self {
            follower: Follower::new(paths, from),
            damaged: Vec::new(),
        }
    }

    /// The sightings in what was written since the last call: first those of events, in the order
    /// of the files, then those of new OOM bundles.
    pub fn look(&mut self) -> Vec<Sighting> {
        let mut found = Vec::new();
        let followed = self.follower.poll(&mut |file, event| {
            found.extend(of_event(event, file));
        });
        found.extend(followed.oom_bundles.iter().filter_map(|one| of_bundle(one)));
        let damaged = followed.damaged.into_iter();
        self.damaged.extend(damaged.map(|(file, message)| {
            let path = path_text(&file);
            CatalogWarning { path, message }
        }));
        found
    }

    /// Takes the warnings about damaged lines that [`look`](Self::look) has collected since the
    /// last call. Each `look` adds at most five warnings per file.
    pub fn take_warnings(&mut self) -> Vec<CatalogWarning> {
        std::mem::take(&mut self.damaged)
    }
}

fn of_bundle(directory: &Path) -> Option<Sighting> {
    let manifest = directory.join(SinkNames::Ordinary.manifest());
    let document = read_object(&manifest)?;
    let bundle = OomBundle::read(directory, &manifest, &document);
    let created_ns = bundle.created_ns();
    let reason = bundle.reason.unwrap_or_else(|| "unknown".into());
    Some(Sighting {
        kind: "oom_bundle",
        severity: "critical".into(),
        timestamp_ns: created_ns,
        session_id: bundle.session_id,
        rank: None,
        message: format!("OOM bundle: {reason}").into(),
        source_path: path_text(&bundle.bundle_path),
    })
}

fn of_event(event: Event, path: &Path) -> Option<Sighting> {
    let (kind, metadata) = (&event.event_type, &event.metadata);
    let kind_of_sighting = match classify::notice(kind, metadata)? {
        classify::Notice::Oom => "oom",
        classify::Notice::Collector => "collector",
        classify::Notice::Alert => "alert",
    };
    let severity = classify::severity_of_event(kind, metadata);
    let said = event.context.filter(|context| !context.is_blank());
    Some(Sighting {
        kind: kind_of_sighting,
        severity: severity.as_str().into(),
        timestamp_ns: Some(event.timestamp_ns),
        session_id: Some(event.session_id),
        rank: Some(event.rank),
        message: said.unwrap_or(event.event_type),
        source_path: path_text(path),
    })
}
