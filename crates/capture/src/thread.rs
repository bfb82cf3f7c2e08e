//! Starts threads that leave the program's signals to the program.
//!
//! The system delivers a signal to any thread that does not block it. If one of our threads took a
//! signal, a sleeping main thread would not be interrupted, or a program would end that blocks the
//! signal everywhere and waits for it.

use std::io;
use std::thread::Builder;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// Signals that a thread causes itself. They stay with the thread, for handlers that print where a
/// fault happened.
const FAULTS: [Signal; 7] = [
    Signal::SIGABRT,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGSEGV,
    Signal::SIGSYS,
    Signal::SIGTRAP,
];

/// Starts a detached thread. It takes no signals except those of its own faults.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A thread starts with the signal mask of the thread that starts it.
    let mut sent = SigSet::all();
    for fault in FAULTS {
        sent.remove(fault);
    }
    let before = sent.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = Builder::new().name(name.to_owned()).spawn(work);
    before.thread_set_mask()?;
    started.map(drop)
}
