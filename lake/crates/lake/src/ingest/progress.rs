//! A progress bar for long work, which is shown only on a terminal and only after a second.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The time after which the progress bar appears; shorter work shows none.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts the bytes that were ingested and shows them when the work takes long.
pub(super) struct Progress {
    start: Instant,
    bar: ProgressBar,
    seen: AtomicU64,
    is_visible: bool,
}

impl Progress {
    pub(super) fn new(total: u64) -> Self {
        let bar = ProgressBar::hidden();
        bar.set_length(total);
        let template = "{bytes} of {total_bytes} {wide_bar} {binary_bytes_per_sec}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self {
            start: Instant::now(),
            bar,
            seen: AtomicU64::new(0),
            is_visible: stderr().is_terminal(),
        }
    }

    pub(super) fn advance(&self, bytes: u64) {
        let seen = self.seen.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.is_visible && self.start.elapsed() > PATIENCE {
            if self.bar.is_hidden() {
                self.bar
                    .set_draw_target(indicatif::ProgressDrawTarget::stderr());
            }
            self.bar.set_position(seen);
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
