//! The flags of the flight recorder of `gpumemprof track` and `jaxmemprof track`.

use std::path::PathBuf;

use stormlog_capture::collect::cgroup::Roots;
use stormlog_capture::oom::Retention;
use stormlog_report::escape::path_for_terminal;

use crate::console::Console;
use crate::flight_recorder::FlightRecorder;

/// Flags for the bundles of out-of-memory errors.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "When memory runs out")]
#[expect(
    clippy::struct_field_names,
    reason = "each field has the name of its command line flag"
)]
pub(crate) struct FlightFlags {
    /// Write a bundle of the last events on an OOM; 'stormlog run' detects more OOMs
    #[arg(long)]
    oom_flight_recorder: bool,
    /// Directory of the bundles
    #[arg(long, value_name = "DIR", default_value = "oom_dumps")]
    oom_dump_dir: PathBuf,
    /// Put this many of the last events into a bundle [default: all in memory]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    oom_buffer_size: Option<u32>,
    /// Keep at most this many bundles; 0 keeps all
    #[arg(
        long,
        value_name = "N",
        default_value_t = Retention::DEFAULT.max_dumps,
        allow_negative_numbers = true
    )]
    oom_max_dumps: i64,
    /// Keep bundles of at most this size in total; 0 keeps all
    #[arg(
        long,
        value_name = "MB",
        default_value_t = Retention::DEFAULT.max_total_mb,
        allow_negative_numbers = true
    )]
    oom_max_total_mb: i64,
}

impl FlightFlags {
    /// The number of events that the recorder keeps for a bundle: by default all events in its
    /// memory; `None` when no bundles were requested.
    pub(crate) fn bundle_events(&self, at_hand: usize) -> Option<usize> {
        self.oom_flight_recorder.then(|| {
            let asked = self.oom_buffer_size.map(usize::try_from);
            asked.and_then(Result::ok).unwrap_or(at_hand)
        })
    }

    /// Creates the flight recorder (see [`FlightRecorder::new`]), if bundles were requested.
    pub(crate) fn recorder(&self, backend: &str, command: &'static str) -> Option<FlightRecorder> {
        let retention = Retention {
            max_dumps: self.oom_max_dumps,
            max_total_mb: self.oom_max_total_mb,
        };
        let root = self.oom_dump_dir.clone();
        self.oom_flight_recorder
            .then(|| FlightRecorder::new(root, retention, Roots::default(), backend, command))
    }
}

/// Prints the folder of a bundle, if one was written.
pub(crate) fn print_bundle(
    bundle: Option<PathBuf>,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    if let Some(bundle) = bundle {
        writeln!(
            console.out,
            "OOM flight recorder dump saved to: {}",
            path_for_terminal(&bundle)
        )?;
    }
    Ok(())
}
