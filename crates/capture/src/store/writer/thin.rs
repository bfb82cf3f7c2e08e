//! The writer's part of thinning: which segments are rewritten, and how the manifest changes.
//! [`Rewrite`] rewrites the files itself, without the writer.

use std::time::{Duration, Instant};

use stormlog_format::{Rewriting, Segment, Thinned};

use super::Writer;
use crate::files::Durability;
use crate::store::error::SinkError;
use crate::store::lock::SegmentsLock;
use crate::store::thinning::rewrite::{OldFiles, Outcome, Rewrite};
use crate::store::thinning::{COARSEST_INTERVAL_NS, Plan, plan};

/// How long thinning pauses after a first failure. The pause doubles with each further failure, up
/// to [`LONGEST_BACK_OFF`].
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LONGEST_BACK_OFF: Duration = Duration::from_mins(1);

impl Writer {
    /// Whether a rewrite of segments is in progress or segments should be thinned.
    pub(crate) fn thins(&self) -> bool {
        !self.in_work.is_empty() || self.wants_thinning()
    }

    /// Whether segments should be thinned now so that the sink stays within its budget.
    pub(crate) fn wants_thinning(&self) -> bool {
        self.may_thin() && self.plan().is_some()
    }

    fn may_thin(&self) -> bool {
        self.in_work.is_empty()
            && self.rewriting.is_none()
            && self.claim.holds()
            && self.thin_again.is_none_or(|(at, _)| Instant::now() >= at)
    }

    fn plan(&self) -> Option<Plan> {
        plan(&self.segments, self.config.thinning?)
    }

    /// Whether the sink has more bytes than its thinning budget.
    pub(crate) fn is_over_budget(&self) -> bool {
        let budget = self.config.thinning.map(|thinning| thinning.budget_bytes);
        budget.is_some_and(|budget| self.retained_bytes().cast_unsigned() > budget)
    }

    /// The next group of segments that thinning rewrites. When no segment can be thinned further,
    /// whole segments are deleted instead.
    pub(crate) fn begin_rewrite(&mut self) -> Option<Rewrite> {
        if !self.may_thin() {
            return None;
        }
        loop {
            match self.plan()? {
                Plan::Drop(index) => self.delete_segment(index),
                Plan::Rewrite {
                    first,
                    count,
                    interval_ns,
                } => {
                    let inputs = self.segments[first..first + count].to_vec();
                    let names = inputs.iter().map(|segment| segment.filename.clone());
                    self.in_work = names.collect();
                    return Some(Rewrite::begin(&self.directory, inputs, interval_ns));
                }
            }
        }
    }

    pub(super) fn is_being_rewritten(&self, segment: &Segment) -> bool {
        self.in_work.contains(&segment.filename)
    }

    /// Announces in the manifest that a finished rewrite will replace segments. Returns false when
    /// the rewrite must not be carried out, because its segments have changed meanwhile or nothing
    /// would change.
    pub(crate) fn announce_rewrite(&mut self, rewrite: &Rewrite) -> Result<bool, SinkError> {
        let is_as_before = |input: &Segment| self.segments.iter().any(|known| known == input);
        let inputs = rewrite.inputs();
        if !self.claim.holds() || !inputs.iter().all(is_as_before) {
            return Ok(false);
        }
        self.rewriting = rewrite.announcement();
        if self.rewriting.is_none() {
            return Ok(false);
        }
        if let Err(error) = self.write_manifest(Durability::System) {
            self.rewriting = None;
            self.manifest.stale = true;
            return Err(error);
        }
        Ok(true)
    }

    /// Updates the list of segments after a rewrite has replaced their files.
    pub(crate) fn settle_rewrite(&mut self, rewrite: &Rewrite, files: OldFiles) {
        self.in_work.clear();
        self.thin_again = None;
        let Some(rewriting) = self.rewriting.take() else {
            return;
        };
        // If an old segment file could not be deleted, the manifest must keep the announcement of
        // the rewrite, which marks that file as superfluous. The next sink in the directory deletes
        // the superfluous file; this sink stops thinning.
        self.rewriting = (files == OldFiles::Left).then(|| Rewriting {
            thinned: Thinned::default(),
            ..rewriting.clone()
        });
        self.segments
            .retain(|segment| !rewriting.replaces.contains(&segment.filename));
        if let Some(segment) = self.segment_named(rewrite) {
            segment.event_count = rewriting.event_count;
            segment.size_bytes = rewriting.size_bytes;
            segment.thinned_interval_ns = rewriting.thinned_interval_ns;
        }
        self.thinned = self.thinned.plus(rewriting.thinned);
        // Rollups cover every recorded event, so they cannot be computed again from thinned
        // segments; the sink no longer writes them.
        self.rollups = None;
        self.manifest.stale = true;
    }

    /// The mutex that must be held to replace segments of the sink.
    pub(crate) fn segments_lock(&self) -> SegmentsLock {
        self.claim.segments()
    }

    /// Waits for a thread that replaces segments ([`Claim::wait_for_replaced_segments`]). Called
    /// when the sink ends, because the process may end soon afterwards.
    ///
    /// [`Claim::wait_for_replaced_segments`]: crate::store::lock::Claim::wait_for_replaced_segments
    pub(crate) fn wait_for_replaced_segments(&self) {
        self.claim.wait_for_replaced_segments();
    }

    /// Forgets a rewrite of segments that was stopped before it changed a file.
    pub(crate) fn cancel_rewrite(&mut self) {
        self.in_work.clear();
    }

    /// Ends a rewrite of segments that would change no file or was not carried out.
    pub(crate) fn end_rewrite(&mut self, rewrite: &Rewrite, outcome: &Outcome) {
        self.in_work.clear();
        if *outcome == Outcome::Unchanged
            && let Some(segment) = self.segment_named(rewrite)
        {
            segment.thinned_interval_ns = rewrite.interval_ns();
            self.manifest.stale = true;
        }
    }

    /// Marks segments that cannot be rewritten as thinned to the longest interval, so that they are
    /// not tried again.
    pub(crate) fn spare_segments(&mut self, rewrite: &Rewrite) {
        self.in_work.clear();
        for segment in &mut self.segments {
            if rewrite.inputs().contains(segment) {
                segment.thinned_interval_ns = COARSEST_INTERVAL_NS;
            }
        }
        self.manifest.stale = true;
    }

    /// Ends a failed rewrite of segments, which is tried again later; the manifest no longer
    /// announces it.
    pub(crate) fn give_up_rewrite(&mut self) {
        self.in_work.clear();
        self.manifest.stale |= self.rewriting.take().is_some();
        let back_off = self
            .thin_again
            .map_or(FIRST_BACK_OFF, |(_, last)| (last * 2).min(LONGEST_BACK_OFF));
        self.thin_again = Some((Instant::now() + back_off, back_off));
    }

    fn segment_named(&mut self, rewrite: &Rewrite) -> Option<&mut Segment> {
        let name = &rewrite.inputs().first()?.filename;
        self.segments
            .iter_mut()
            .find(|segment| segment.filename == *name)
    }
}
