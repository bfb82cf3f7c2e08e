//! The program behind the commands `stormlog`, `gpumemprof`, `tfmemprof` and `jaxmemprof`, and
//! behind the console scripts of the Python package.

mod address_space;
mod child;
mod cli;
mod console;
pub mod diagnose;
mod exit;
mod export;
mod failure;
mod flight_recorder;
mod machine;
mod online;
mod pack;
mod progress;
mod rank_filter;
mod recording;
mod sendable;
mod services;
mod signals;
mod tui;
mod watched;
mod whole_file;

use std::ffi::OsString;

use console::Stream;

pub use console::Console;
pub use exit::Exit;
pub use machine::on_this_machine;
pub use progress::Progress;
pub use sendable::{Sendable, read_document, sendable};
pub use services::{Finished, Request, Service, Services, Tracked};
pub use stormlog_capture::files::write_whole;

/// The name under which the program was started; each name has its own commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `stormlog`, with all commands of the current version.
    Stormlog,
    /// `gpumemprof`, the commands of stormlog 0.3.9 for PyTorch.
    Gpumemprof,
    /// `tfmemprof`, the commands of stormlog 0.3.9 for TensorFlow.
    Tfmemprof,
    /// `jaxmemprof`, the commands of stormlog 0.3.9 for JAX.
    Jaxmemprof,
}

stormlog_format::names!(Dialect {
    Stormlog => "stormlog",
    Gpumemprof => "gpumemprof",
    Tfmemprof => "tfmemprof",
    Jaxmemprof => "jaxmemprof",
});

/// Runs the program with its arguments (without the program name) and returns its exit code.
pub fn run(
    dialect: Dialect,
    arguments: impl IntoIterator<Item = OsString>,
    console: &mut Console<'_>,
) -> Exit {
    let (mut out, mut err) = (Stream(console.out), Stream(console.err));
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        out_is_terminal: console.out_is_terminal,
        err_is_terminal: console.err_is_terminal,
        services: match &mut console.services {
            Some(services) => Some(&mut **services),
            None => None,
        },
        decided: None,
    };
    let outcome = cli::run(dialect, arguments.into_iter().collect(), &mut console);
    let flushed = console.out.flush();
    let outcome = outcome.and_then(|exit| {
        console.decided = Some(exit);
        Ok(flushed.map(|()| exit)?)
    });
    let exit = outcome.unwrap_or_else(|error| {
        if failure::is_of_stream(&error) {
            let lost = if failure::reader_went_away(&error) {
                Exit::Fine
            } else {
                Exit::Failure
            };
            // If a command has already decided on an exit code other than success, the program
            // exits with this code even when the output cannot be written.
            return console
                .decided
                .filter(|exit| *exit != Exit::Fine)
                .unwrap_or(lost);
        }
        failure::print(&error, &mut console);
        Exit::Failure
    });
    stormlog_analysis::pack::close_all();
    exit
}

/// Whether a word is the name of a command of `stormlog`, such as `run` or `analyze`.
pub fn is_command(word: &str) -> bool {
    cli::is_command(word)
}

/// Runs the program with the arguments and the terminal of this process.
pub fn main(dialect: Dialect) -> std::process::ExitCode {
    let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr());
    let mut console = Console::of_process(&mut out, &mut err);
    run(dialect, std::env::args_os().skip(1), &mut console).into()
}
