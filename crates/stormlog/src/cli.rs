//! The command line: one file per command.

mod artifact;
mod completions;
mod convert;
mod show;
mod validate;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::console::Console;
use crate::failure::AlreadyTold;
use crate::{Dialect, Exit};

/// A flight recorder for accelerator memory in machine-learning training.
#[derive(Debug, Parser)]
#[command(
    name = "stormlog",
    version,
    arg_required_else_help = true,
    max_term_width = 100
)]
struct Stormlog {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::Arguments),
    Validate(validate::Arguments),
    Convert(convert::Arguments),
    Completions(completions::Arguments),
}

/// Parses the arguments and runs the command.
pub(crate) fn run(
    dialect: Dialect,
    arguments: Vec<OsString>,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    match dialect {
        Dialect::Stormlog => {
            let Some(stormlog) = parse::<Stormlog>(dialect, arguments, console)? else {
                return Ok(Exit::Fine);
            };
            match stormlog.command {
                Command::Show(arguments) => show::run(&arguments, console),
                Command::Validate(arguments) => validate::run(&arguments, console),
                Command::Convert(arguments) => convert::run(&arguments, console),
                Command::Completions(arguments) => completions::run(&arguments, console),
            }
        }
        Dialect::Gpumemprof | Dialect::Tfmemprof | Dialect::Jaxmemprof => {
            anyhow::bail!("{} has no commands in this version", dialect.name())
        }
    }
}

/// The parsed arguments, or nothing when help or the version was asked for and printed.
fn parse<P: Parser>(
    dialect: Dialect,
    arguments: Vec<OsString>,
    console: &mut Console<'_>,
) -> anyhow::Result<Option<P>> {
    let all = std::iter::once(dialect.name().into()).chain(arguments);
    match P::try_parse_from(all) {
        Ok(parsed) => Ok(Some(parsed)),
        // Asked for nothing: the help is the best answer, and still bad usage.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            write!(console.err, "{}", error.render())?;
            Err(AlreadyTold.into())
        }
        Err(error) if !error.use_stderr() => {
            let text = error.render();
            if console.colours() {
                write!(console.out, "{}", text.ansi())?;
            } else {
                write!(console.out, "{text}")?;
            }
            Ok(None)
        }
        Err(error) => {
            let text = error.render().to_string();
            let text = text
                .trim_end()
                .strip_prefix("error: ")
                .unwrap_or(&text)
                .trim_end();
            Err(anyhow::anyhow!("{text}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_makes_sense() {
        super::Stormlog::command().debug_assert();
    }
}
