//! The outline of a run: peaks, alerts and a coarse curve from the rollups of the run. The outline
//! is shown until the events of the run are read.

use stormlog_format::rollup::{Peak, RollupFile, WindowRollup};

/// The totals of a run that the overview tab shows while the events of the run are still being
/// read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) peak_allocated: Option<i64>,
    pub(crate) peak_used: Option<i64>,
    /// The rank that reached `peak_used`; `None` if it is unknown.
    pub(crate) peak_rank: Option<i64>,
    pub(crate) alerts: i64,
    pub(crate) ooms: i64,
    pub(crate) degraded: i64,
    /// The start of each rollup window (the time range that one entry of the rollups sums up) and
    /// the highest memory use in this window, in order of time.
    pub(crate) curve: Vec<(i64, i64)>,
    /// The end of the last rollup window.
    pub(crate) end_ns: i64,
}

impl Outline {
    /// Makes the outline of a run from the rollup files of its sinks, which contain totals of each
    /// session and time window.
    pub(crate) fn of(files: &[RollupFile]) -> Self {
        let mut outline = Self::default();
        for session in files.iter().flat_map(|file| &file.sessions) {
            let counters = &session.counters;
            let allocated = counters.allocator_allocated_bytes.value;
            outline.peak_allocated = outline.peak_allocated.max(allocated);
            outline.raise(counters.device_used_bytes);
            outline.alerts = outline.alerts.saturating_add(session.alerts.total_count);
            outline.ooms = outline.ooms.saturating_add(session.oom.event_count);
            let degraded = session.collector_health.degraded_count;
            outline.degraded = outline.degraded.saturating_add(degraded);
            for window in &session.windows {
                outline.end_ns = outline.end_ns.max(window.end_ns);
                outline.curve.extend(point(window));
            }
        }
        outline.curve.sort_unstable();
        outline
    }

    fn raise(&mut self, peak: Peak) {
        if peak.value > self.peak_used {
            self.peak_used = peak.value;
            self.peak_rank = peak.rank;
        }
    }
}

fn point(window: &WindowRollup) -> Option<(i64, i64)> {
    let counters = &window.counters;
    let reserved = counters.allocator_reserved_bytes.value;
    let used = counters.device_used_bytes.value.or(reserved)?;
    Some((window.start_ns, used))
}
