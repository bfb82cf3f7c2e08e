//! `stormlog lake`: runs the program `stormlog-lake`, which is installed separately because its
//! libraries are large.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::console::Console;
use crate::failure::hinted;
use crate::signals::Signals;
use crate::{Exit, child};

/// The file name of the separately installed program that `stormlog lake` runs.
const PROGRAM: &str = "stormlog-lake";

/// Store recordings of a fleet as tables and query them
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  stormlog lake ingest /runs --to /lake       store recordings
  stormlog lake waste --at /lake              memory reserved and not used
  stormlog lake sql --at /lake 'SELECT …'     ask in SQL
  stormlog lake ingest --help                 options of one command

Runs the program stormlog-lake, which is installed separately (docs/lake.md)."
)]
pub(super) struct Arguments {
    /// A command of stormlog-lake and its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

pub(super) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let Some(program) = find() else {
        let missing = anyhow::anyhow!("the program '{PROGRAM}' is not installed");
        let hint =
            "build it with 'cargo install --path lake/crates/lake' in a checkout of stormlog";
        return Err(hinted(missing, hint));
    };
    console.out.flush()?;
    let command: Vec<OsString> = std::iter::once(program.into_os_string())
        .chain(arguments.words.iter().cloned())
        .collect();
    let mut signals = Signals::to_forward()?;
    let mut child = child::spawn(&command, &[], &mut signals)?;
    let status = child::wait(&mut child, &signals, |_| {})?;
    Ok(child::exit_of(status))
}

/// Finds `stormlog-lake` beside the running program, or else in the directories of `PATH`.
fn find() -> Option<PathBuf> {
    let here = std::env::current_exe().ok();
    let here = here.and_then(|program| Some(program.parent()?.to_path_buf()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = here.into_iter().chain(std::env::split_paths(&path));
    let mut programs = folders.map(|folder| folder.join(PROGRAM));
    programs.find(|program| program.is_file())
}
