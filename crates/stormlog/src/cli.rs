//! The command line of `stormlog`, with one file per command.

mod accept_damage;
mod allocator_snapshot;
mod analyze;
mod artifact;
mod compare;
mod completions;
mod convert;
mod demo;
mod diagnose;
mod evidence;
mod export_flags;
mod flight;
mod integrations;
mod issues;
mod lake;
mod legacy;
mod list_format;
mod named_values;
mod native_history;
mod newest_run;
mod pack;
mod pictures;
mod plot;
mod query;
mod run;
mod run_files;
#[cfg(test)]
mod schema_tests;
mod script;
mod serve;
mod show;
mod sink_flags;
mod sources;
mod subject;
mod track;
mod tui;
mod validate;
mod watch;

use std::ffi::OsString;
use std::io::IsTerminal;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::console::Console;
use crate::diagnose::Flavour;
use crate::failure::AlreadyPrinted;
use crate::{Dialect, Exit};

/// A flight recorder for accelerator memory in machine-learning training.
#[derive(Debug, Parser)]
#[command(
    name = "stormlog",
    version,
    after_help = "Examples:
  stormlog run -- python train.py             record an unmodified program
  stormlog analyze                            find leaks, spikes and OOM causes
  stormlog plot                               draw an interactive timeline
  stormlog serve runs                         browse runs, live while they grow
  stormlog diagnose -- python train.py        record, then exit with 2 on a risk
  stormlog                                    open the terminal UI"
)]
struct Stormlog {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    Track(Box<track::Arguments>),
    Demo(demo::Arguments),
    Show(show::Arguments),
    Validate(validate::Arguments),
    Convert(convert::Arguments),
    Analyze(analyze::Arguments),
    Diagnose(Box<diagnose::Arguments>),
    Evidence(evidence::Arguments),
    Compare(Box<compare::Arguments>),
    Query(query::Arguments),
    Issues(issues::Arguments),
    Completions(completions::Arguments),
    Plot(plot::Arguments),
    Serve(serve::Arguments),
    Pack(pack::Arguments),
    Tui(tui::Arguments),
    Watch(watch::Arguments),
    Lake(lake::Arguments),
}

/// Whether a word is the name of a subcommand of `stormlog`, such as `analyze`.
pub(crate) fn is_command(word: &str) -> bool {
    Stormlog::command().find_subcommand(word).is_some()
}

/// Parses the command line of `stormlog` or of one of the older programs, and runs its subcommand.
pub(crate) fn run(
    dialect: Dialect,
    arguments: Vec<OsString>,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    match dialect {
        Dialect::Stormlog => parse_and_run(dialect, arguments, run_command, console),
        Dialect::Gpumemprof => parse_and_run(dialect, arguments, legacy::gpumemprof::run, console),
        Dialect::Tfmemprof => parse_and_run(dialect, arguments, legacy::tfmemprof::run, console),
        Dialect::Jaxmemprof => parse_and_run(dialect, arguments, legacy::jaxmemprof::run, console),
    }
}

/// Parses the arguments of a program and runs it, unless help or the version was printed.
fn parse_and_run<P: Parser>(
    dialect: Dialect,
    arguments: Vec<OsString>,
    run: fn(P, &mut Console<'_>) -> anyhow::Result<Exit>,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    match parse(dialect, arguments, console)? {
        Some(program) => run(program, console),
        None => Ok(Exit::Fine),
    }
}

fn run_command(stormlog: Stormlog, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let Some(command) = stormlog.command else {
        return without_command(console);
    };
    match command {
        Command::Run(arguments) => run::run(&arguments, console),
        Command::Track(arguments) => track::run(&arguments, console),
        Command::Demo(arguments) => demo::run(&arguments, console),
        Command::Show(arguments) => show::run(&arguments, console),
        Command::Validate(arguments) => validate::run(&arguments, console),
        Command::Convert(arguments) => convert::run(&arguments, console),
        Command::Analyze(arguments) => analyze::run(&arguments, console),
        Command::Diagnose(arguments) => diagnose::run(Flavour::Stormlog, &arguments, console),
        Command::Evidence(arguments) => evidence::run(&arguments, console),
        Command::Compare(arguments) => compare::run(&arguments, console),
        Command::Query(arguments) => query::run(arguments, console),
        Command::Issues(arguments) => issues::run(arguments, console),
        Command::Completions(arguments) => completions::run(&arguments, console),
        Command::Plot(arguments) => plot::run(&arguments, console),
        Command::Serve(arguments) => serve::run(&arguments, console),
        Command::Pack(arguments) => pack::run(&arguments, console),
        Command::Tui(arguments) => tui::run(arguments, console),
        Command::Watch(arguments) => watch::run(&arguments, console),
        Command::Lake(arguments) => lake::run(&arguments, console),
    }
}

/// Handles a call without a command: opens the terminal UI on a terminal, and prints the help
/// otherwise.
fn without_command(console: &mut Console<'_>) -> anyhow::Result<Exit> {
    if console.out_is_terminal && std::io::stdin().is_terminal() {
        return tui::run(tui::Arguments::default(), console);
    }
    let mut command = Stormlog::command().term_width(help_width(console));
    write!(console.err, "{}", command.render_help())?;
    Ok(Exit::Failure)
}

/// The width of help texts: the width of the terminal, but at most 100 columns, because longer
/// lines are hard to read.
fn help_width(console: &Console<'_>) -> usize {
    console.width().min(100)
}

/// Returns the parsed arguments, or `None` when help or the version was printed.
fn parse<P: Parser>(
    dialect: Dialect,
    arguments: Vec<OsString>,
    console: &mut Console<'_>,
) -> anyhow::Result<Option<P>> {
    // A command with subcommands, such as `query`, prints its help when no subcommand is given.
    let is_group = !arguments.is_empty();
    let all = std::iter::once(dialect.as_str().into()).chain(arguments);
    let mut command = P::command().term_width(help_width(console));
    let parsed = command
        .try_get_matches_from_mut(all)
        .and_then(|mut matches| P::from_arg_matches_mut(&mut matches))
        .map_err(|error| error.format(&mut command));
    match parsed {
        Ok(parsed) => Ok(Some(parsed)),
        // If the program is called without any arguments, the help is printed and the exit code is
        // that for wrong usage.
        Err(error)
            if !is_group && error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            write!(console.err, "{}", error.render())?;
            Err(AlreadyPrinted.into())
        }
        Err(error)
            if !error.use_stderr()
                || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
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
            let text = text.trim_end();
            let text = text.strip_prefix("error: ").unwrap_or(text);
            Err(anyhow::anyhow!("{text}"))
        }
    }
}

#[cfg(test)]
pub(crate) use run::verdict as verdict_of_run;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_makes_sense() {
        super::Stormlog::command().debug_assert();
        super::legacy::gpumemprof::Gpumemprof::command().debug_assert();
        super::legacy::tfmemprof::Tfmemprof::command().debug_assert();
        super::legacy::jaxmemprof::Jaxmemprof::command().debug_assert();
    }
}
