//! `stormlog tui`, and `stormlog` alone on a terminal: opens the terminal UI.

use std::io::IsTerminal;
use std::path::PathBuf;

use crate::Exit;
use crate::console::Console;
use crate::failure::hinted;
use crate::tui::{self, Options};

/// Open the terminal UI: live memory, timelines, findings, issues, sessions
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:
  stormlog tui runs/7f3a
  stormlog
  stormlog tui events_rank*.json
  NO_COLOR=1 stormlog tui runs/7f3a --no-mouse")]
pub(crate) struct Arguments {
    /// Sinks, files or bundles to open
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Do not capture the mouse
    #[arg(long)]
    no_mouse: bool,
}

pub(crate) fn run(arguments: Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    if !console.out_is_terminal || !std::io::stdin().is_terminal() {
        return Err(hinted(
            anyhow::anyhow!("the terminal UI needs a terminal"),
            "'stormlog show' and 'stormlog analyze' write to files and pipes",
        ));
    }
    let options = Options {
        colours: console.colours(),
        mouse: !arguments.no_mouse,
    };
    tui::run(arguments.paths, options)?;
    Ok(Exit::Fine)
}
