//! Handles signals. Signals that end a recording are caught, so that files are complete and the
//! session is closed. Signals for a program that `stormlog` runs are passed on to that program.
//!
//! A signal that was ignored when `stormlog` started stays ignored: `nohup`, for example, ignores
//! SIGHUP for `stormlog` and for the programs that it starts. A program that `stormlog` starts
//! inherits the ignored signals but may install its own handlers for them. After the program has
//! started, `stormlog` therefore catches these signals too and passes them on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;
use signal_hook::SigId;
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPIPE, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,
    SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};

/// Signals that ask a program to end.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Signals that are passed on to the program that `stormlog` runs. Faults, stop signals and signals
/// from children are not passed on, because they concern only the process that receives them.
const FORWARDED: [i32; 16] = [
    SIGHUP,
    SIGINT,
    SIGQUIT,
    SIGALRM,
    SIGTERM,
    SIGUSR1,
    SIGUSR2,
    SIGWINCH,
    SIGCONT,
    SIGVTALRM,
    SIGPROF,
    SIGXCPU,
    SIGIO,
    Signal::POWER.as_raw(),
    SIGPIPE,
    SIGXFSZ,
];

/// Signals that the kernel sends to a process because of a write by that process. SIGPIPE and
/// SIGXFSZ are passed on only when another process sent them. They are caught even if they were
/// ignored at the start, because Rust and Python ignore them by default, without a request by the
/// user.
const OF_WRITES: [i32; 2] = [SIGPIPE, SIGXFSZ];

/// Catches signals while this value exists; [`Signals::take`] returns those that arrived.
pub(crate) struct Signals {
    /// For each signal, the number of its arrivals that `take` has not returned yet.
    watched: Vec<(i32, Arc<AtomicU32>)>,
    registered: Vec<SigId>,
    /// Signals that were ignored when `stormlog` started and are therefore not caught.
    ignored: Vec<i32>,
}

impl Signals {
    /// Catches the signals that ask a program to end: SIGINT, SIGTERM and SIGHUP.
    pub(crate) fn that_end() -> anyhow::Result<Self> {
        Self::watch(ENDING)
    }

    /// Catches the signals that `stormlog` passes on to the program that it runs, including
    /// real-time signals.
    pub(crate) fn to_forward() -> anyhow::Result<Self> {
        Self::watch(
            FORWARDED
                .into_iter()
                .chain(libc::SIGRTMIN()..=libc::SIGRTMAX()),
        )
    }

    fn watch(signals: impl IntoIterator<Item = i32>) -> anyhow::Result<Self> {
        let ignored = ignored_signals();
        let is_left_alone = |signal: &i32| is_in(ignored, *signal) && !OF_WRITES.contains(signal);
        let (ignored, heeded): (Vec<_>, Vec<_>) = signals.into_iter().partition(is_left_alone);
        let mut all = Self {
            watched: Vec::new(),
            registered: Vec::new(),
            ignored,
        };
        for signal in heeded {
            all.add(signal)?;
        }
        Ok(all)
    }

    fn add(&mut self, signal: i32) -> std::io::Result<()> {
        let came = Arc::new(AtomicU32::new(0));
        self.registered.push(count(signal, came.clone())?);
        self.watched.push((signal, came));
        Ok(())
    }

    /// Also watches the signals that were ignored when `stormlog` started. Must be called after the
    /// program was started, because a program that is started later would no longer inherit these
    /// signals as ignored.
    pub(crate) fn include_ignored(&mut self) {
        for signal in std::mem::take(&mut self.ignored) {
            // If the signal cannot be caught, it stays ignored.
            let _ = self.add(signal);
        }
    }

    /// Returns a signal that arrived since the last call; must be called repeatedly until it
    /// returns `None`. The kernel queues real-time signals, so a real-time signal is returned as
    /// often as it arrived. Any other signal is returned only once, however often it arrived.
    pub(crate) fn take(&self) -> Option<i32> {
        let came = |(signal, times): &&(i32, Arc<AtomicU32>)| {
            let left = |times: u32| match times {
                0 => None,
                times if *signal >= libc::SIGRTMIN() => Some(times - 1),
                _ => Some(0),
            };
            let order = Ordering::SeqCst;
            times.fetch_update(order, order, left).is_ok()
        };
        self.watched.iter().find(came).map(|(signal, _)| *signal)
    }
}

/// Installs a handler that adds one to `came` each time the signal arrives.
#[expect(
    unsafe_code,
    reason = "the handler only adds to an atomic, which is safe in a handler; the sender's pid may \
              be read, because it is set in SIGPIPE and SIGXFSZ, also when the kernel sends them \
              because of a write"
)]
fn count(signal: i32, came: Arc<AtomicU32>) -> std::io::Result<SigId> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let is_of_write = OF_WRITES.contains(&signal);
    let handler = move |info: &libc::siginfo_t| {
        if !(is_of_write && unsafe { info.si_pid() } == own) {
            came.fetch_add(1, Ordering::SeqCst);
        }
    };
    unsafe { signal_hook_registry::register_sigaction(signal, handler) }
}

/// Converts a number to a signal; real-time signals are supported too.
#[expect(
    unsafe_code,
    reason = "libc leaves the numbers from SIGRTMIN to SIGRTMAX to programs"
)]
pub(crate) fn signal_of(number: i32) -> Option<Signal> {
    let is_real_time = (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&number);
    let real_time = || is_real_time.then(|| unsafe { Signal::from_raw_unchecked(number) });
    Signal::from_named_raw(number).or_else(real_time)
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// Whether a signal requests the end of a program.
pub(crate) fn asks_to_end(signal: i32) -> bool {
    ENDING.contains(&signal)
}

/// The signals that this process ignores, as the kernel's bit mask; zero if the kernel does not
/// report the mask.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

fn is_in(mask: u64, signal: i32) -> bool {
    let bit = u32::try_from(signal - 1).ok();
    bit.is_some_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_that_came_is_taken_once() {
        let signals = Signals::to_forward().unwrap();
        signal_hook::low_level::raise(SIGUSR1).unwrap();
        signal_hook::low_level::raise(SIGUSR2).unwrap();
        let mut taken: Vec<i32> = std::iter::from_fn(|| signals.take()).collect();
        taken.sort_unstable();
        assert_eq!(taken, [SIGUSR1, SIGUSR2]);
    }

    #[test]
    fn real_time_signals_are_taken_as_often_as_they_came() {
        let signals = Signals::to_forward().unwrap();
        let number = libc::SIGRTMIN() + 3;
        for _ in 0..3 {
            signal_hook::low_level::raise(number).unwrap();
        }
        let taken: Vec<i32> = std::iter::from_fn(|| signals.take()).collect();
        assert_eq!(taken, [number; 3]);
        assert_eq!(signal_of(number).map(Signal::as_raw), Some(number));
        assert_eq!(signal_of(libc::SIGRTMAX() + 1), None);
    }

    #[test]
    fn a_pipe_of_our_own_that_breaks_is_no_signal_for_the_program() {
        use std::io::Write as _;
        let signals = Signals::to_forward().unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        assert!(writer.write_all(b"x").is_err());
        assert!(!std::iter::from_fn(|| signals.take()).any(|signal| signal == SIGPIPE));
    }

    #[test]
    fn the_mask_counts_signals_from_one() {
        assert!(is_in(0b10, SIGINT));
        assert!(!is_in(0b10, SIGHUP));
        assert!(!is_in(u64::MAX, 0));
    }
}
