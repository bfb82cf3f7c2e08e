//! Signals that end a capture: noticed, so that files are whole and the session is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Watches for the signals that ask a program to end, as long as it lives.
pub(crate) struct EndSignals {
    last: Arc<AtomicUsize>,
    registered: Vec<SigId>,
}

impl EndSignals {
    /// Starts watching.
    pub(crate) fn watch() -> anyhow::Result<Self> {
        let last = Arc::new(AtomicUsize::new(0));
        let mut registered = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let value = usize::try_from(signal).unwrap_or_default();
            registered.push(signal_hook::flag::register_usize(
                signal,
                last.clone(),
                value,
            )?);
        }
        Ok(Self { last, registered })
    }

    /// The signal that came since the last time this was asked.
    pub(crate) fn take(&self) -> Option<i32> {
        match self.last.swap(0, Ordering::SeqCst) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }
}

impl Drop for EndSignals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
