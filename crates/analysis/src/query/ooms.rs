//! Lists OOM bundles, the folders that the flight recorder writes after an out-of-memory error,
//! from their manifests.

use std::path::{Path, PathBuf};

use serde::Serialize;
use stormlog_format::json::map_of;
use stormlog_format::{Map, Text};

use super::filter::fits;
use super::iso_time::iso_to_micros;
use super::payload::{integer, path_text, text};
use crate::bytes::read_object_beside;
use crate::document::shown_path;

/// The name of the file in an OOM bundle that describes the exception.
pub(super) const DETAILS: &str = stormlog_format::file_names::METADATA;

/// An OOM bundle, a folder that the flight recorder writes after an out-of-memory error, as
/// described by the bundle's own files.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "each field is a key of the printed row, described in docs/schemas"
)]
pub struct OomBundle {
    #[serde(serialize_with = "shown_path")]
    pub bundle_path: PathBuf,
    #[serde(serialize_with = "shown_path")]
    pub manifest_path: PathBuf,
    pub created_at_utc: Option<Text>,
    pub backend: Option<Text>,
    pub reason: Option<Text>,
    pub event_count: Option<i64>,
    pub session_id: Option<Text>,
    pub session_status: Option<Text>,
    pub exception_type: Option<Text>,
    pub exception_module: Option<Text>,
}

impl OomBundle {
    pub(crate) fn read(directory: &Path, manifest: &Path, document: &Map) -> Self {
        let details = read_object_beside(directory, &directory.join(DETAILS));
        let details = details.unwrap_or_default();
        Self {
            bundle_path: directory.to_path_buf(),
            manifest_path: manifest.to_path_buf(),
            created_at_utc: text(document, "created_at_utc"),
            backend: text(document, "backend"),
            reason: text(document, "reason"),
            event_count: integer(document, "event_count"),
            session_id: text(document, "session_id"),
            session_status: text(document, "session_status"),
            exception_type: text(&details, "exception_type"),
            exception_module: text(&details, "exception_module"),
        }
    }

    /// When the OOM bundle was written, in nanoseconds; `None` when its manifest has no valid time.
    pub fn created_ns(&self) -> Option<i64> {
        super::iso_time::iso_to_ns(self.created_at_utc.as_ref()?.as_str()?)
    }

    /// The bundle as the JSON object of a query result, with its keys in a fixed order.
    pub fn to_row(&self) -> Map {
        let mut map = map_of(self);
        map.remove("manifest_path");
        map
    }
}

/// Which OOM bundles to list. A field that is `None` accepts every bundle.
#[derive(Clone, Debug, Default)]
#[expect(
    missing_docs,
    reason = "each field is a flag of `stormlog query`, described in its help"
)]
pub struct OomFilter {
    pub session_id: Option<Text>,
    pub backend: Option<Text>,
    pub reason: Option<Text>,
    pub created_after: Option<Text>,
    pub created_before: Option<Text>,
}

impl OomFilter {
    fn accepts(&self, bundle: &OomBundle) -> bool {
        let created = || bundle.created_at_utc.as_ref().and_then(micros);
        // As in stormlog 0.3.9, a time limit that is not a valid time is ignored.
        let after = self.created_after.as_ref().and_then(micros);
        let before = self.created_before.as_ref().and_then(micros);
        fits(self.session_id.as_ref(), bundle.session_id.as_ref())
            && fits(self.backend.as_ref(), bundle.backend.as_ref())
            && fits(self.reason.as_ref(), bundle.reason.as_ref())
            && after.is_none_or(|after| created().is_some_and(|created| created >= after))
            && before.is_none_or(|before| created().is_some_and(|created| created <= before))
    }
}

fn micros(time: &Text) -> Option<i64> {
    iso_to_micros(time.as_str()?)
}

impl super::Store {
    /// The OOM bundles that the filter accepts, the oldest first. If a bundle does not contain the
    /// status of its session, the status is that in the session's manifest.
    pub fn oom_bundles(&self, filter: &OomFilter) -> Vec<OomBundle> {
        let statuses = self.manifest_statuses();
        let bundles = self.catalog().oom_bundles.iter();
        let mut bundles: Vec<OomBundle> = bundles
            .filter(|bundle| filter.accepts(bundle))
            .cloned()
            .collect();
        for bundle in &mut bundles {
            let known = bundle.session_id.as_ref().and_then(|id| statuses.get(id));
            bundle.session_status = bundle.session_status.take().or_else(|| known.cloned());
        }
        bundles.sort_by_cached_key(|bundle| {
            let created = bundle.created_at_utc.clone().unwrap_or_default();
            (created, path_text(&bundle.bundle_path))
        });
        bundles
    }
}
