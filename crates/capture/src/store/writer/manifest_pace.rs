//! Decides when the manifest of a sink is replaced, and builds the manifest.

use std::time::Instant;

use stormlog_format::{MANIFEST_VERSION, Manifest, SINK_FORMAT, signed};

use super::Writer;
use crate::files::Durability;
use crate::store::error::SinkError;
use crate::store::manifest;

/// How many times the manifest may be replaced without a pause while many events arrive; after
/// that, at most [`MANIFESTS_PER_SECOND`] replacements a second are allowed. The counts in the
/// manifest may be late because of this limit; the events themselves are not, because they are
/// written to the segment first.
const MANIFEST_BURST: f64 = 64.0;
const MANIFESTS_PER_SECOND: f64 = 20.0;

/// Whether the manifest on disk is up to date, and how often it may be replaced.
#[derive(Debug)]
pub(super) struct ManifestState {
    /// Whether the manifest on disk differs from the state of the writer and must be replaced.
    pub(super) stale: bool,
    /// How many more replacements of the manifest are allowed now. It grows with time, by
    /// [`MANIFESTS_PER_SECOND`], up to [`MANIFEST_BURST`].
    allowance: f64,
    refilled: Instant,
}

impl ManifestState {
    pub(super) fn new(stale: bool) -> Self {
        Self {
            stale,
            allowance: MANIFEST_BURST,
            refilled: Instant::now(),
        }
    }
}

impl Writer {
    pub(super) fn may_write_manifest(&mut self) -> bool {
        let now = Instant::now();
        let since = now.duration_since(self.manifest.refilled).as_secs_f64();
        self.manifest.refilled = now;
        let allowance =
            (self.manifest.allowance + since * MANIFESTS_PER_SECOND).min(MANIFEST_BURST);
        let is_allowed = allowance >= 1.0;
        self.manifest.allowance = if is_allowed {
            allowance - 1.0
        } else {
            allowance
        };
        is_allowed
    }

    pub(super) fn write_manifest(&mut self, durability: Durability) -> Result<(), SinkError> {
        if !self.directory.exists() {
            self.restore_directory()?;
        }
        let names = self.config.names;
        let path = self.directory.join(names.manifest());
        manifest::replace(&self.directory, names, &self.manifest(), durability)
            .map_err(SinkError::io("write", &path))?;
        self.manifest.stale = false;
        Ok(())
    }

    pub(super) fn manifest(&self) -> Manifest {
        let mut sessions = self.sessions.clone();
        sessions.sort_by(|a, b| {
            (a.started_at_ns, &a.session_id).cmp(&(b.started_at_ns, &b.session_id))
        });
        Manifest {
            schema_version: MANIFEST_VERSION,
            format: SINK_FORMAT.into(),
            sessions,
            segments: self.segments.clone(),
            dropped_event_count: self.earlier_dropped_events + signed(self.missing_events()),
            thinning_budget_bytes: self
                .config
                .thinning
                .map_or(0, |thinning| signed(thinning.budget_bytes)),
            thinned: self.thinned.reported(),
            pruned: self.config.thinning.and_then(|_| self.pruned.reported()),
            pruned_sessions: self.pruned_sessions,
            rewriting: self.rewriting.clone(),
            replaced: Vec::new(),
            ignored: Vec::new(),
        }
    }
}
