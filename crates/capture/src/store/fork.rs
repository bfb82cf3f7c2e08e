//! What a child lets go of after a fork.
//!
//! A fork copies the memory of the parent but only one of its threads, so a lock may be
//! held for ever in the child and what it guards may be half changed. A child therefore
//! never waits for a lock of the parent's: it lets go of what it can take at once and
//! leaves the rest as it is.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Weak};

/// Something that holds files, locks and buffers of a sink.
pub(crate) trait Holder: Send + Sync {
    /// Drops them without writing anything and without waiting.
    fn abandon(&self);
}

/// The id of this process while it need not be asked for again; zero when it must be.
static PROCESS_ID: AtomicU32 = AtomicU32::new(0);

/// The id of this process.
pub(crate) fn process_id() -> u32 {
    match PROCESS_ID.load(Ordering::Relaxed) {
        0 => std::process::id(),
        known => known,
    }
}

/// Promises that [`forget_after_fork`] is called in every child, before anything else is.
/// Without the promise every record asks the system which process it is in.
pub fn every_fork_is_announced() {
    PROCESS_ID.store(std::process::id(), Ordering::Relaxed);
}

/// Every holder that has not been dropped.
static HOLDERS: Mutex<Vec<Weak<dyn Holder>>> = Mutex::new(Vec::new());

/// Lets go of all that sinks of the parent process hold: buffers are dropped, files and
/// locks are closed, nothing is written. For a child's first moment after a fork.
pub fn forget_after_fork() {
    if PROCESS_ID.load(Ordering::Relaxed) != 0 {
        every_fork_is_announced();
    }
    let Ok(mut holders) = HOLDERS.try_lock() else {
        return;
    };
    for holder in holders.drain(..).filter_map(|holder| holder.upgrade()) {
        holder.abandon();
    }
}

/// Makes [`forget_after_fork`] know of a holder.
pub(crate) fn register(holder: Weak<dyn Holder>) {
    // In a child, a list that was locked during the fork stays so; its entries are of no
    // use there.
    if let Ok(mut holders) = HOLDERS.try_lock() {
        holders.retain(|holder| holder.strong_count() > 0);
        holders.push(holder);
    }
}
