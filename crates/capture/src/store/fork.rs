//! What a child lets go of after a fork.
//!
//! A fork copies the memory of the parent but only one of its threads, so a lock may be
//! held for ever in the child and what it guards may be half changed. A child therefore
//! never waits for a lock of the parent's: it lets go of what it can take at once and
//! leaves the rest as it is.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Weak};
use std::time::Duration;

use super::lock;

/// Something that holds files, locks and buffers of a sink.
pub(crate) trait Holder: Send + Sync {
    /// Drops them without writing anything and without waiting.
    fn abandon(&self);

    /// Writes what waits and ends the session, because another sink of this process is about to
    /// record into the directory. Waits for [`HAND_OVER_PATIENCE`] at most.
    fn hand_over(&self);
}

/// How long a sink waits for the one that it takes a directory from.
pub(crate) const HAND_OVER_PATIENCE: Duration = Duration::from_secs(1);

/// The id of this process while it need not be asked for again; zero when it must be.
static PROCESS_ID: AtomicU32 = AtomicU32::new(0);

/// The id of this process.
pub(crate) fn process_id() -> u32 {
    match PROCESS_ID.load(Ordering::Relaxed) {
        0 => std::process::id(),
        known => known,
    }
}

/// Promises that [`before_fork`] and then [`after_fork_in_parent`] or [`forget_after_fork`]
/// are called around every fork. Without the promise every record asks the system which
/// process it is in, and a child may share the lock of a directory.
pub fn every_fork_is_announced() {
    PROCESS_ID.store(std::process::id(), Ordering::Relaxed);
}

/// Every holder that has not been dropped.
static HOLDERS: Mutex<Vec<Weak<dyn Holder>>> = Mutex::new(Vec::new());

/// For the thread that is about to fork.
pub fn before_fork() {
    lock::before_fork();
}

/// For the same thread when the fork is over, in the parent.
pub fn after_fork_in_parent() {
    lock::after_fork_in_parent();
}

/// Lets go of all that sinks of the parent process hold: buffers are dropped, files and
/// locks are closed, nothing is written. For a child's first moment after a fork.
pub fn forget_after_fork() {
    // First, because it never fails: a thread of the parent's may hold what follows.
    lock::after_fork_in_child();
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
