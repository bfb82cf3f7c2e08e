//! Code that the recording commands share. It determines whose memory is recorded, where the events
//! are stored, and when the recording ends.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stormlog_capture::collect::Collector;
use stormlog_capture::collect::amd;
use stormlog_capture::collect::host::{Detail as HostDetail, HostCollector, Target};
use stormlog_capture::collect::nvml::{self, NvmlCollector, Share};
use stormlog_capture::collect::tree::TreeCollector;
use stormlog_capture::record::{Detail, RecordOptions, Recorder};
use stormlog_capture::store::host_name;
use stormlog_format::{
    DistributedIdentity, IdentityInput, Map, Text, Value, parse_duration, part_folders,
};

use crate::signals::Signals;

/// How many of the latest events a recorder keeps in memory, unless the caller gives another
/// number.
pub(crate) const MAX_EVENTS: usize = 10_000;

/// Collectors for all GPUs of this machine or for those with the given indices; if there are no
/// such GPUs, the reason.
pub(crate) fn gpu_collectors(
    wanted: &[u32],
    share: Share,
) -> Result<Vec<Box<dyn Collector>>, String> {
    let is_wanted = |index: u32| wanted.is_empty() || wanted.contains(&index);
    let reason = match nvml::gpus() {
        Ok(gpus) if !gpus.is_empty() => {
            if let Some(missing) = wanted
                .iter()
                .find(|index| gpus.iter().all(|gpu| gpu.index != **index))
            {
                let count = gpus.len();
                return Err(format!("GPU {missing} not found ({count} available)"));
            }
            let gpus = gpus.into_iter().filter(|gpu| is_wanted(gpu.index));
            let collectors = gpus.map(|gpu| {
                let collector = NvmlCollector::new(gpu, share);
                Box::new(collector) as Box<dyn Collector>
            });
            return Ok(collectors.collect());
        }
        Ok(_) => "the NVIDIA driver reports none".to_owned(),
        Err(reason) => reason,
    };
    let cards = amd::devices(Path::new("/sys")).into_iter().zip(0_u32..);
    let cards = cards.filter(|(_, index)| is_wanted(*index));
    let collectors: Vec<_> = cards
        .map(|(card, _)| Box::new(card) as Box<dyn Collector>)
        .collect();
    if collectors.is_empty() {
        return Err(format!("no GPU found: {reason}"));
    }
    Ok(collectors)
}

/// A collector that reads the memory of a process and its children.
pub(crate) fn tree_collector(pid: u32) -> Box<dyn Collector> {
    Box::new(TreeCollector::new(pid))
}

/// A collector that reads the memory of the recording process itself.
pub(crate) fn own_collector() -> Box<dyn Collector> {
    Box::new(HostCollector::new(
        Target::ThisProcess,
        HostDetail::Resident,
    ))
}

/// The flags for the identity of this process in a distributed job.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Identity in a distributed job")]
pub(crate) struct IdentityArguments {
    /// Name of the job [default: from the launcher]
    #[arg(long, value_name = "ID")]
    job_id: Option<String>,
    /// Rank of the process [default: from the launcher]
    #[arg(long, value_name = "N")]
    rank: Option<i64>,
    /// Rank on this machine [default: from the launcher]
    #[arg(long, value_name = "N")]
    local_rank: Option<i64>,
    /// Number of processes [default: from the launcher]
    #[arg(long, value_name = "N")]
    world_size: Option<i64>,
}

impl IdentityArguments {
    /// The identity of this process in its job, from the flags or from the launcher's variables.
    pub(crate) fn resolve(&self) -> anyhow::Result<DistributedIdentity> {
        let job_id = self.job_id.as_deref().map(Value::from);
        let [rank, local_rank, world_size] =
            [self.rank, self.local_rank, self.world_size].map(|value| value.map(Value::Int));
        let input = IdentityInput {
            explicit: [
                job_id.as_ref(),
                rank.as_ref(),
                local_rank.as_ref(),
                world_size.as_ref(),
            ],
            ..IdentityInput::default()
        };
        Ok(stormlog_capture::launcher::resolve(
            input,
            Some(&environment()),
        )?)
    }
}

/// The environment variables of this process.
pub(crate) fn environment() -> Map {
    let text = |text: &OsStr| Text::from(&*text.to_string_lossy());
    std::env::vars_os()
        .map(|(name, value)| (text(&name), Value::Text(text(&value))))
        .collect()
}

/// The directory of this process's sink: `root` itself, or a subdirectory if the job has several
/// ranks.
pub(crate) fn sink_for_rank(root: &Path, identity: &DistributedIdentity) -> PathBuf {
    part_folders::of_rank(identity).map_or_else(|| root.to_path_buf(), |name| root.join(name))
}

/// The settings of a recorder that a command starts: it keeps the latest [`MAX_EVENTS`] events in
/// memory and checks for alerts. It stores no events and writes no OOM bundles.
pub(crate) fn record_options(
    session_source: &str,
    pid: u32,
    identity: DistributedIdentity,
    interval: Duration,
) -> RecordOptions {
    RecordOptions {
        interval,
        max_events: MAX_EVENTS,
        bundle_events: None,
        alerts: true,
        identity,
        session_source: session_source.into(),
        host: host_name(),
        pid: i64::from(pid),
        sink: None,
        detail: Detail::Samples,
        start_metadata: Map::new(),
    }
}

/// Parses a number of seconds, or a duration such as `90s` or `1h30m`, to seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let duration = || parse_duration(text).map(|ns| ns as f64 / 1e9);
    let number: Option<f64> = text.parse().ok();
    number
        .or_else(duration)
        .ok_or_else(|| "must be a number of seconds, or a duration such as 90s or 1h30m".to_owned())
}

/// Parses a number of seconds, or a duration, above zero.
pub(crate) fn positive_seconds(text: &str) -> Result<Duration, String> {
    let seconds = seconds(text)?;
    if !(seconds > 0.0 && seconds.is_finite()) {
        return Err("must be > 0".into());
    }
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    // Durations are limited to 136 years, which is longer than any run and does not overflow a
    // clock.
    Ok(duration.min(Duration::from_secs(u64::from(u32::MAX))))
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The requested duration has passed.
    Time,
    /// A signal with this number requested the end of the recording.
    Signal(i32),
    /// The recorded process ended.
    Gone,
}

/// Records until the duration has passed, a signal requests the end, or the watched process ends.
/// `look` is called about ten times a second with the time since the start. It is called once more
/// at the end, but not if a signal requested the end.
///
/// The caller registers the signals before it starts the recorder. If the signals were registered
/// later, an early signal would end the program and leave the session open.
pub(crate) fn until_end(
    recorder: &Recorder,
    signals: &Signals,
    duration: Option<Duration>,
    mut look: impl FnMut(Duration) -> anyhow::Result<()>,
) -> anyhow::Result<End> {
    let start = Instant::now();
    loop {
        let elapsed = start.elapsed();
        let left = duration.map(|duration| duration.saturating_sub(elapsed));
        if let Some(signal) = signals.take() {
            return Ok(End::Signal(signal));
        }
        let end = if recorder.sources_are_gone() {
            Some(End::Gone)
        } else if left.is_some_and(|left| left.is_zero()) {
            Some(End::Time)
        } else {
            None
        };
        look(elapsed)?;
        if let Some(end) = end {
            return Ok(end);
        }
        let nap = Duration::from_millis(100);
        let nap = left.map_or(nap, |left| left.min(nap));
        // The thread sleeps only for a few milliseconds at a time, so that a signal is handled at
        // once.
        let wake = Instant::now() + nap;
        while Instant::now() < wake {
            std::thread::sleep(Duration::from_millis(5).min(nap));
            if recorder.sources_are_gone() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_last_is_looked_at_too() {
        let identity = IdentityArguments::default().resolve().unwrap();
        let (pid, interval) = (std::process::id(), Duration::from_millis(5));
        let options = record_options("test", pid, identity, interval);
        let recorder = Recorder::new(options, vec![own_collector()], None);
        let signals = Signals::that_end().unwrap();
        let mut looks = 0;
        let end = until_end(&recorder, &signals, Some(Duration::ZERO), |_| {
            looks += 1;
            Ok(())
        });
        assert_eq!((end.unwrap(), looks), (End::Time, 1));
    }
}
