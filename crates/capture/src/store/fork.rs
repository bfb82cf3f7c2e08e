//! Releases the sinks of the parent process in a forked child.
//!
//! A forked child gets a copy of the parent's memory, but only one of its threads: the one that
//! called `fork`. In a forked child a lock may be held for ever by a thread that exists only in the
//! parent, and the data behind the lock may be half changed. A forked child never waits for a lock
//! of the parent: it releases the sinks that it can lock at once and does not touch the others.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Weak};
use std::time::Duration;

use super::lock;

/// An object that owns the files, locks and buffers of a sink, and can give them up after a fork or
/// to a later sink.
pub(crate) trait Holder: Send + Sync {
    /// Drops the files, locks and buffers of the sink without writing and without waiting.
    fn abandon(&self);

    /// Writes the buffered events and ends the session, because another sink of this process is
    /// about to record into the directory. Waits at most [`HAND_OVER_PATIENCE`].
    fn hand_over(&self);
}

/// How long a sink waits for an earlier sink of this process whose directory it takes over.
pub(crate) const HAND_OVER_PATIENCE: Duration = Duration::from_secs(1);

/// The cached pid of this process; zero when it must be read from the system.
static PROCESS_ID: AtomicU32 = AtomicU32::new(0);

/// The pid of this process, from the cache if every fork is announced
/// ([`every_fork_is_announced`]).
pub(crate) fn process_id() -> u32 {
    match PROCESS_ID.load(Ordering::Relaxed) {
        0 => std::process::id(),
        known => known,
    }
}

/// Declares that [`before_fork`](super::before_fork) and then
/// [`after_fork_in_parent`](super::after_fork_in_parent) or [`forget_after_fork`] are called around
/// every fork. Until this function is called, the pid is read from the system for every recorded
/// event, because a child that was forked without these calls must not use the sinks of its parent.
/// Such a child also keeps the locks of the parent's directories until it ends or executes another
/// program.
pub fn every_fork_is_announced() {
    PROCESS_ID.store(std::process::id(), Ordering::Relaxed);
}

/// The objects of this process that own files of a sink. A forked child releases them.
static HOLDERS: Mutex<Vec<Weak<dyn Holder>>> = Mutex::new(Vec::new());

/// Releases the child's copies of the parent's sinks: buffers are dropped, files and locks are
/// closed, nothing is written. A forked child must call this function before anything else.
pub fn forget_after_fork() {
    // The directory locks are released first, because this always succeeds. The rest of the
    // function needs the mutex of `HOLDERS` and ends early if a thread of the parent held it during
    // the fork.
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

/// Registers an object that [`forget_after_fork`] must release.
pub(crate) fn register(holder: Weak<dyn Holder>) {
    // In a forked child, the list may stay locked for ever, by a thread of the parent. The child
    // then does without the list.
    if let Ok(mut holders) = HOLDERS.try_lock() {
        holders.retain(|holder| holder.strong_count() > 0);
        holders.push(holder);
    }
}
