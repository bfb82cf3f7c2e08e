//! Shows a progress bar for long work: only on a terminal, and only after one second.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use stormlog_analysis::{Artifact, artifacts_at};

/// A progress bar appears only after the work has taken this long.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts the bytes that were read, and shows a progress bar when the work takes long.
pub struct Progress {
    start: Instant,
    total: u64,
    visible: bool,
    bar: OnceLock<ProgressBar>,
    seen: std::sync::atomic::AtomicU64,
}

impl Progress {
    /// Makes a progress bar for reading artifacts or folders of artifacts. The progress bar is
    /// shown only if `visible` is true.
    pub fn through<'a>(paths: impl IntoIterator<Item = &'a Path>, visible: bool) -> Self {
        // The size of the files is only needed for a visible progress bar.
        let total = if visible { total_bytes(paths) } else { 0 };
        Self::of_bytes(total, visible)
    }

    /// Makes a progress bar for work on `total` bytes. The progress bar is shown only if `visible`
    /// is true.
    pub(crate) fn of_bytes(total: u64, visible: bool) -> Self {
        Self {
            start: Instant::now(),
            total,
            visible,
            bar: OnceLock::new(),
            seen: 0.into(),
        }
    }

    /// Adds the number of bytes that were read since the last call.
    pub fn advance(&self, bytes: u64) {
        let seen = self
            .seen
            .fetch_add(bytes, std::sync::atomic::Ordering::Relaxed)
            + bytes;
        if self.visible && self.start.elapsed() > PATIENCE {
            self.bar
                .get_or_init(|| new_bar(self.total))
                .set_position(seen);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// The size of the files of all artifacts at some paths; what cannot be read counts as empty.
pub(crate) fn total_bytes<'a>(paths: impl IntoIterator<Item = &'a Path>) -> u64 {
    let artifacts = paths.into_iter().flat_map(artifacts_at).flatten();
    let sizes = artifacts.filter_map(|path| Some(Artifact::at(&path).ok()?.size_bytes()));
    sizes.sum()
}

fn new_bar(total: u64) -> ProgressBar {
    let template = "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
