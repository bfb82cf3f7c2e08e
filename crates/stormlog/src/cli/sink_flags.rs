//! The flags of stormlog 0.3.9's commands that configure the sink, the directory to which a
//! recorder writes the events of a session.

use std::path::PathBuf;
use std::time::Duration;

use stormlog_capture::store::SinkConfig;

use crate::recording::positive_seconds;

const MIB: u64 = 1 << 20;

/// Flags of the sink.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Storing the session")]
#[expect(
    clippy::struct_field_names,
    reason = "each field has the name of its command line flag"
)]
pub(crate) struct SinkFlags {
    /// Store the session in this directory
    #[arg(long, value_name = "DIR")]
    telemetry_sink_dir: Option<PathBuf>,
    /// Flush at least this often
    #[arg(long, value_name = "SECONDS", default_value = "2.0", value_parser = positive_seconds)]
    telemetry_flush_seconds: Duration,
    /// Start a new segment at this size
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    telemetry_rollover_mb: u64,
    /// Keep at most this many segments
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    telemetry_retention_files: u64,
    /// Keep segments of at most this size in total
    #[arg(long, value_name = "MB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..))]
    telemetry_retention_total_mb: u64,
}

impl SinkFlags {
    /// The configuration of the sink; `None` if the user gave no directory for it.
    pub(crate) fn config(&self) -> anyhow::Result<Option<SinkConfig>> {
        let Some(directory) = &self.telemetry_sink_dir else {
            return Ok(None);
        };
        if self.telemetry_retention_total_mb < self.telemetry_rollover_mb {
            anyhow::bail!(
                "'--telemetry-retention-total-mb' must not be below '--telemetry-rollover-mb'"
            );
        }
        Ok(Some(SinkConfig {
            flush_every: self.telemetry_flush_seconds,
            rollover_max_bytes: self.telemetry_rollover_mb.saturating_mul(MIB),
            retention_max_files: self.telemetry_retention_files,
            retention_max_total_bytes: self.telemetry_retention_total_mb.saturating_mul(MIB),
            ..SinkConfig::new(directory)
        }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        sink: SinkFlags,
    }

    #[test]
    fn the_flags_have_the_defaults_of_a_sink() {
        let command = Command::parse_from(["track", "--telemetry-sink-dir", "run"]);
        let config = command.sink.config().unwrap();
        assert_eq!(config, Some(SinkConfig::new("run")));
    }
}
