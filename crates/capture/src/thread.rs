//! Threads of ours, which leave the program's signals to the program.
//!
//! The system gives a signal to any thread that does not block it. One that a thread of ours
//! took would leave a main thread asleep that should be interrupted, or end a program that
//! blocks the signal everywhere and waits for it.

use std::io;
use std::thread::Builder;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// A thread's own faults stay its own, for those who print where they happened.
const FAULTS: [Signal; 7] = [
    Signal::SIGABRT,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGSEGV,
    Signal::SIGSYS,
    Signal::SIGTRAP,
];

/// Starts a detached thread. It takes no signals except for its own faults.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A thread begins with the mask of the one that starts it.
    let mut sent = SigSet::all();
    for fault in FAULTS {
        sent.remove(fault);
    }
    let before = sent.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = Builder::new().name(name.to_owned()).spawn(work);
    before.thread_set_mask()?;
    started.map(drop)
}
