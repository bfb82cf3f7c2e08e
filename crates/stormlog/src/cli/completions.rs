//! `stormlog completions`: prints shell completions for the commands of `stormlog`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Stormlog;
use crate::Exit;
use crate::console::Console;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stormlog completions bash >> ~/.bash_completion
  stormlog completions zsh > ~/.zfunc/_stormlog
  stormlog completions fish > ~/.config/fish/completions/stormlog.fish")]
pub(crate) struct Arguments {
    /// Shell
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut Stormlog::command(),
        "stormlog",
        &mut script,
    );
    console.out.write_all(&script)?;
    Ok(Exit::Fine)
}
