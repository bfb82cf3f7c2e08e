//! Signals: those that end a capture are noticed, so that files are whole and the session is
//! closed; those for a program that we run are passed on to it.
//!
//! A signal that was ignored when we started stays so: `nohup` and a shell's background jobs ask
//! for it, also on behalf of whatever we start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGWINCH, SIGXCPU,
};

/// What asks a program to end.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// What a program may be sent and can act on. Faults are a process's own; stops and what comes
/// from its children are not passed on.
const FORWARDED: [i32; 12] = [
    SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGVTALRM,
    SIGPROF, SIGXCPU,
];

/// Watches for signals as long as it lives.
pub(crate) struct Signals {
    watched: Vec<(i32, Arc<AtomicBool>)>,
    registered: Vec<SigId>,
}

impl Signals {
    /// Watches for the signals that ask a program to end.
    pub(crate) fn that_end() -> anyhow::Result<Self> {
        Self::watch(&ENDING)
    }

    /// Watches for the signals that are passed on to a program.
    pub(crate) fn to_forward() -> anyhow::Result<Self> {
        Self::watch(&FORWARDED)
    }

    fn watch(signals: &[i32]) -> anyhow::Result<Self> {
        let ignored = ignored_signals();
        let mut all = Self {
            watched: Vec::new(),
            registered: Vec::new(),
        };
        for &signal in signals.iter().filter(|signal| !is_in(ignored, **signal)) {
            let came = Arc::new(AtomicBool::new(false));
            let id = signal_hook::flag::register(signal, came.clone())?;
            all.registered.push(id);
            all.watched.push((signal, came));
        }
        Ok(all)
    }

    /// A signal that came since the last time this was asked; ask again for more.
    pub(crate) fn take(&self) -> Option<i32> {
        let came = |(_, flag): &&(i32, Arc<AtomicBool>)| flag.swap(false, Ordering::SeqCst);
        self.watched.iter().find(came).map(|(signal, _)| *signal)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// Whether a signal asks a program to end.
pub(crate) fn asks_to_end(signal: i32) -> bool {
    ENDING.contains(&signal)
}

/// The signals that this process ignores, as the kernel's mask; none where it does not say.
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
    fn the_mask_counts_signals_from_one() {
        assert!(is_in(0b10, SIGINT));
        assert!(!is_in(0b10, SIGHUP));
        assert!(!is_in(u64::MAX, 0));
    }
}
