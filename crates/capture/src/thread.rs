//! Starts threads that do not receive the signals of the watched program.
//!
//! The operating system may deliver a signal to any thread that does not block the signal. A
//! signal that arrives on a thread of the recorder would not interrupt a main thread that sleeps.
//! If the program blocks a signal in its own threads and waits for it (`sigwait`), the signal would
//! go to the thread of the recorder, and the default action of the signal would end the program.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::Duration;

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

/// The longest time to wait until a new thread runs. A machine that is so busy starts it later.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts a detached thread, which receives no signals except those of its own faults, and waits
/// until it runs. When a thread begins, the C library allocates its thread-local variables, and
/// ends the process if there is no memory for them. So this is over before the program goes on,
/// which may use up all memory.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A new thread inherits the signal mask of the thread that starts it, so the mask is changed
    // before the start.
    let mut sent = SigSet::all();
    for fault in FAULTS {
        sent.remove(fault);
    }
    let before = sent.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let (runs, has_begun) = sync_channel(1);
    let started = Builder::new().name(name.to_owned()).spawn(move || {
        let _ = runs.send(());
        work();
    });
    before.thread_set_mask()?;
    started?;
    let _ = has_begun.recv_timeout(PATIENCE);
    Ok(())
}
