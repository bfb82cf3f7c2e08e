//! `stormlog watch`: sends alerts and metrics about a recording that another process writes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stormlog_report::escape::for_terminal;

use super::export_flags::ExportFlags;
use crate::Exit;
use crate::console::Console;
use crate::failure::hinted;
use crate::online::{Online, ProgramEnd, Watched};
use crate::signals::Signals;

/// How often the command checks for signals and whether the recording process still runs.
const LOOK: Duration = Duration::from_millis(200);

/// Send alerts and metrics about a recording that another process writes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stormlog watch runs/today --alert https://hooks.slack.com/services/...
  stormlog watch runs/node7 --metrics-file /var/lib/node_exporter/stormlog.prom

The recording is only read. A tracker in Python starts this command when it is
given 'alert=URL'.")]
pub(crate) struct Arguments {
    /// Directory of the recording
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Stop when this process has ended [default: on Ctrl+C]
    #[arg(long)]
    pid: Option<u32>,
    #[command(flatten)]
    exports: ExportFlags,
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let watched = Watched::Sinks {
        root: arguments.directory.clone(),
        rank: None,
    };
    let signals = Signals::that_end()?;
    let targets = arguments.exports.targets(&mut |problem| {
        let _ = writeln!(console.err, "warning: {problem}");
    })?;
    let Some(online) = Online::start(targets, watched, false)? else {
        let message = anyhow::anyhow!("nothing to send");
        return Err(hinted(
            message,
            "give '--alert', '--metrics-file' or '--otlp'",
        ));
    };
    while signals.take().is_none() && arguments.pid.is_none_or(is_alive) {
        std::thread::sleep(LOOK);
    }
    // `ProgramEnd::Failed` makes the watching thread analyze the recording once more before the
    // thread ends. How the program ended is read from the recording, not from this value.
    online.finish(ProgramEnd::Failed, &mut |problem| {
        let _ = writeln!(console.err, "warning: {}", for_terminal(problem));
    });
    Ok(Exit::Fine)
}

/// Whether a process with this id exists.
pub(super) fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}
