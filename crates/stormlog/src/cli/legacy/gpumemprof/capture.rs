//! Code that `gpumemprof monitor` and `gpumemprof track` share: the device, its recorder, and the
//! format of sizes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use stormlog_capture::record::export::{ExportFormat, export};
use stormlog_capture::record::{Detail, RecordOptions, Recorder};
use stormlog_capture::store::SinkConfig;
use stormlog_format::{DistributedIdentity, Map};

use crate::cli::subject::{Source, Subject};
use crate::console::Console;
use crate::recording::record_options;

/// Formats a size: in GB for a GPU, in MB for the memory of a process.
pub(super) fn size(source: Source, bytes: i64) -> String {
    let bytes = bytes as f64;
    match source {
        Source::Gpu(_) => format!("{:.2} GB", bytes / f64::from(1 << 30)),
        Source::Process => format!("{:.2} MB", bytes / f64::from(1 << 20)),
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
) -> anyhow::Result<(Arc<Recorder>, Source)> {
    let collectors = Subject::of_gpu(device).collectors();
    let (collectors, source) = collectors.map_err(anyhow::Error::msg)?;
    let session_source = match source {
        Source::Gpu(_) => "stormlog.tracker",
        Source::Process => "stormlog.cpu_profiler",
    };
    let options = RecordOptions {
        bundle_events,
        sink,
        detail: Detail::Changes,
        ..record_options(session_source, std::process::id(), identity, interval)
    };
    Ok((Recorder::new(options, collectors, None), source))
}

/// Reads a number such as `peak_memory` from the recorder's statistics; 0 if it is missing.
pub(super) fn number(statistics: &Map, key: &str) -> i64 {
    statistics.int(key).unwrap_or(0)
}

/// Writes the recorded events to the file of `--output`, if one was given. `what` is the name that
/// the printed line gives to the events.
pub(super) fn save(
    recorder: &Recorder,
    output: Option<&Path>,
    format: ExportFormat,
    what: &str,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    if let Some(path) = output {
        export(path, &recorder.records(), format)
            .with_context(|| format!("cannot write '{}'", path.display()))?;
        writeln!(console.out, "{what} saved to: {}", path.display())?;
    }
    Ok(())
}
