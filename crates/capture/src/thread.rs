//! Starts threads that do not receive the signals of the watched program.
//!
//! The operating system may deliver a signal to any thread that does not block the signal. A
//! signal that arrives on a thread of the recorder would not interrupt a main thread that sleeps.
//! If the program blocks a signal in its own threads and waits for it (`sigwait`), the signal would
//! go to the thread of the recorder, and the default action of the signal would end the program.

use std::io;
use std::thread::Builder;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// Signals that a thread causes itself by a fault; they are not blocked, so that handlers can print
/// where the fault happened.
const FAULTS: [Signal; 7] = [
    Signal::SIGABRT,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGSEGV,
    Signal::SIGSYS,
    Signal::SIGTRAP,
];

/// Starts a detached thread, which receives no signals except those of its own faults.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A new thread inherits the signal mask of the thread that starts it, so the mask is changed
    // before the start.
    let mut sent = SigSet::all();
    for fault in FAULTS {
        sent.remove(fault);
    }
    let before = sent.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = Builder::new().name(name.to_owned()).spawn(work);
    before.thread_set_mask()?;
    started.map(drop)
}
