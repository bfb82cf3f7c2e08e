//! Code that `gpumemprof monitor` and `gpumemprof track` share: the device, its recorder, and the
//! format of sizes.

use std::sync::Arc;
use std::time::Duration;

use stormlog_capture::collect::nvml::Share;
use stormlog_capture::record::{Detail, Recorder};
use stormlog_capture::store::SinkConfig;
use stormlog_format::{DistributedIdentity, Map, Value};

use crate::recording::{Capture, MAX_EVENTS, gpu_collectors, own_collector};

/// Whose memory is recorded: that of a GPU, or that of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A GPU.
    Gpu,
    /// The memory of this process, on a machine without a GPU.
    Cpu,
}

impl Mode {
    /// The value for `backend` in out-of-memory bundles: `cuda` or `cpu`.
    pub(super) fn backend(self) -> &'static str {
        match self {
            Self::Gpu => "cuda",
            Self::Cpu => "cpu",
        }
    }

    /// Formats a size: in GB for a GPU, in MB for the memory of a process.
    pub(super) fn size(self, bytes: i64) -> String {
        let bytes = bytes as f64;
        match self {
            Self::Gpu => format!("{:.2} GB", bytes / f64::from(1 << 30)),
            Self::Cpu => format!("{:.2} MB", bytes / f64::from(1 << 20)),
        }
    }
}

/// Makes a recorder for the requested GPU. If no GPU was requested and the machine has no GPU, the
/// recorder records this process.
pub(super) fn recorder(
    device: Option<u32>,
    interval: Duration,
    identity: DistributedIdentity,
    sink: Option<SinkConfig>,
    bundle_events: Option<usize>,
) -> anyhow::Result<(Arc<Recorder>, Mode)> {
    let wanted = device.unwrap_or(0);
    let (collectors, mode) = match gpu_collectors(&[wanted], Share::NotRecorded) {
        Ok(collectors) => (collectors, Mode::Gpu),
        Err(reason) if device.is_some() => anyhow::bail!("{reason}"),
        Err(_) => (vec![own_collector()], Mode::Cpu),
    };
    let capture = Capture {
        collectors,
        interval,
        identity,
        session_source: match mode {
            Mode::Gpu => "stormlog.tracker",
            Mode::Cpu => "stormlog.cpu_profiler",
        },
        pid: std::process::id(),
        sink,
        detail: Detail::Changes,
        alerts: true,
        start_metadata: Map::new(),
    };
    Ok((capture.recorder_of(MAX_EVENTS, bundle_events), mode))
}

/// Reads a number such as `peak_memory` from the recorder's statistics; 0 if it is missing.
pub(super) fn number(statistics: &Map, key: &str) -> i64 {
    statistics.get(key).and_then(Value::as_int).unwrap_or(0)
}
