//! Summarizes for users what a diagnosis is based on: the number of processes, the devices and the
//! length of the recording.

use stormlog_format::counted;

use std::collections::BTreeSet;
use std::fmt;

use crate::detect::finding::words;
use crate::timeline::{Resource, Run, TimeZero, Track, float};

/// The part of a run that a diagnosis covered, for example `3 processes, GPU 0, 12 min`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scope {
    /// Number of processes whose memory was recorded.
    pub processes: usize,
    /// Number of ranks whose memory was recorded.
    pub ranks: usize,
    /// The devices whose memory was recorded, each as the name of its host and its index there.
    pub devices: BTreeSet<(String, i64)>,
    /// Whether host memory was recorded.
    pub has_host: bool,
    /// Seconds after which host memory was no longer recorded, set when recording stopped long
    /// before the end of the run.
    pub host_until_s: Option<f64>,
    /// Length of the recording in seconds.
    pub seconds: f64,
}

/// Maximum number of devices that the text lists by index (`GPUs 0, 1`); of more devices, only the
/// number is given.
const MOST_LISTED: usize = 4;

impl Scope {
    /// Computes what was recorded of a run.
    pub(super) fn of(run: &Run) -> Self {
        let mut processes: BTreeSet<(&str, u32, i64)> = BTreeSet::new();
        let (mut ranks, mut devices, mut has_host) = (BTreeSet::new(), BTreeSet::new(), false);
        for track in &run.tracks {
            processes.insert((&track.host, track.rank, track.pid));
            ranks.insert(track.rank);
            match track.resource() {
                Resource::Host => has_host = true,
                Resource::Device(index) => {
                    devices.insert((track.host.clone(), index));
                }
            }
        }
        for process in &run.processes {
            let home = run
                .tracks
                .iter()
                .find(|t| t.session_id == process.session_id);
            let host = home.map_or("", |track| track.host.as_str());
            processes.insert((host, process.rank, process.pid));
        }
        let span = run.span_ns();
        let zero = TimeZero::of(run);
        let cut_off = run
            .tracks
            .iter()
            .filter(|track| run.is_start_up_only(track));
        let until = |track: &Track| Some(zero.since_ns(Some(track.rank), track.span_ns()?.1));
        let cut_off = cut_off.filter_map(until).max();
        Self {
            processes: processes.len(),
            ranks: ranks.len(),
            devices,
            has_host,
            host_until_s: cut_off.map(|at| float(at) / 1e9),
            seconds: span.map_or(0.0, |(first, last)| float(last.saturating_sub(first)) / 1e9),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&counted(self.processes, "process"))?;
        if self.ranks > 1 {
            write!(f, " of {}", counted(self.ranks, "rank"))?;
        }
        let indices: BTreeSet<i64> = self.devices.iter().map(|device| device.1).collect();
        match self.devices.len() {
            0 => f.write_str(", host memory")?,
            1 => write!(f, ", GPU {}", indices.first().copied().unwrap_or(0))?,
            count if count == indices.len() && count <= MOST_LISTED => {
                let listed: Vec<String> = indices.iter().map(i64::to_string).collect();
                write!(f, ", GPUs {}", listed.join(", "))?;
            }
            count => write!(f, ", {count} GPUs")?,
        }
        write!(f, ", {}", words::moment(self.seconds))?;
        match self.host_until_s {
            Some(until) => write!(
                f,
                " (host memory was recorded only up to {})",
                words::moment(until)
            ),
            None => Ok(()),
        }
    }
}
