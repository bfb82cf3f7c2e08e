//! Thins a sink on the background thread of the sink, for a few milliseconds at a time.
//!
//! Thinning reads and copies segments without the sink's writer, so an append never waits for
//! thinning. A rewrite of segments needs the writer only for short calls: to choose the segments,
//! to announce the rewrite in the manifest, and to update the writer's list of segments.

use std::io;
use std::time::{Duration, Instant};

use super::rewrite::{Outcome, Rewrite};
use crate::store::error::SinkError;
use crate::store::writer::Writer;

/// How long thinning works at a time before it pauses. While thinning works, the background thread
/// does nothing else, and new events wait in memory.
const SLICE: Duration = Duration::from_millis(10);

/// The pause between two periods of thinning, which leaves the processor to the watched program.
const PAUSE: Duration = Duration::from_millis(30);

/// Gives access to the sink's writer: calls the given function with the writer, or does nothing
/// while the sink has no writer.
pub(crate) type Access<'a> = dyn FnMut(&mut dyn FnMut(&mut Writer)) + 'a;

/// Performs thinning in short parts. Between two calls of [`work`](Self::work), it keeps the
/// rewrite of segments that is in progress.
#[derive(Debug, Default)]
pub(crate) struct Thinner {
    rewrite: Option<Rewrite>,
}

impl Thinner {
    /// Thins for a few milliseconds if there is something to thin; returns how long to wait before
    /// the next call, or `None` when there is nothing to thin. A sink that has more bytes than its
    /// budget is thinned without pauses.
    pub(crate) fn work(&mut self, access: &mut Access<'_>) -> Option<Duration> {
        if self.rewrite.is_none() {
            access(&mut |writer| self.rewrite = writer.begin_rewrite());
        }
        let rewrite = self.rewrite.as_mut()?;
        if let Some(result) = rewrite.work(Instant::now() + SLICE).transpose() {
            match result {
                Ok(outcome) => finish(rewrite, &outcome, access),
                Err(error) if may_succeed_later(&error) => access(&mut Writer::give_up_rewrite),
                Err(_) => access(&mut |writer| writer.spare_segments(rewrite)),
            }
            self.rewrite = None;
        }
        let mut pause = PAUSE;
        access(&mut |writer| {
            if writer.is_over_budget() {
                pause = Duration::ZERO;
            }
        });
        Some(pause)
    }

    /// Cancels the rewrite in progress, if there is one; the segments on disk stay unchanged.
    pub(crate) fn stop(&mut self, writer: Option<&mut Writer>) {
        if self.rewrite.take().is_some()
            && let Some(writer) = writer
        {
            writer.cancel_rewrite();
        }
    }
}

/// Whether a failed rewrite may succeed later; if not, its segments cannot be read, and other
/// segments are thinned instead.
fn may_succeed_later(error: &io::Error) -> bool {
    use io::ErrorKind::{
        NotFound, OutOfMemory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    matches!(
        error.kind(),
        NotFound
            | OutOfMemory
            | PermissionDenied
            | QuotaExceeded
            | ReadOnlyFilesystem
            | StorageFull
    )
}

fn finish(rewrite: &Rewrite, outcome: &Outcome, access: &mut Access<'_>) {
    let mut lock = None;
    access(&mut |writer| lock = Some(writer.segments_lock()));
    let Some(lock) = lock else {
        return;
    };
    // While the lock for replacing segments is held, a later sink of this process waits before it
    // reads the segments.
    let _replacing = lock.take();
    let mut announced: Result<bool, SinkError> = Ok(false);
    access(&mut |writer| announced = writer.announce_rewrite(rewrite));
    match announced {
        Ok(true) => match rewrite.replace_files() {
            Ok(files) => access(&mut |writer| writer.settle_rewrite(rewrite, files)),
            Err(_) => access(&mut Writer::give_up_rewrite),
        },
        Ok(false) => access(&mut |writer| writer.end_rewrite(rewrite, outcome)),
        Err(_) => access(&mut Writer::give_up_rewrite),
    }
}
