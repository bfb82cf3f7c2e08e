//! `stormlog run`: runs an unmodified program and records it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stormlog_analysis::{Choice, LoadOptions, OpenRun, sinks_of_run};
use stormlog_report::escape::for_terminal;

use super::export_flags::ExportFlags;
use super::script::{explained, shell_word};
use crate::Exit;
use crate::child;
use crate::console::Console;
use crate::machine::on_this_machine;
use crate::online::{Online, ProgramEnd, Watched};
use crate::recording::{IdentityArguments, positive_seconds};
use crate::tui::recent::FOLDER;
use crate::watched::{self, Ended, Plan};

/// Run an unmodified program and record its memory
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stormlog run -- python train.py --epochs 3
  stormlog run --name 'batch 64' -- python train.py --batch 64
  stormlog run --dir runs/today -- torchrun --nproc-per-node 8 train.py
  stormlog run --alert https://hooks.slack.com/services/... -- python train.py

Host memory of all processes of the program is recorded from outside, device
memory from inside its Python processes. Exit code, output and signals of the
program are passed through. A failure to record is reported and never stops
the program. Each rank of a job records into its own directory; an
out-of-memory error leaves a bundle in a folder oom_dumps.

STORMLOG_DISABLE=1 runs the program without recording it.")]
pub(crate) struct Arguments {
    /// Write the recording to this directory [default: stormlog-runs/TIME-PID]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Name of the run in reports and lists [default: the name of the program]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// Seconds between samples
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = positive_seconds)]
    interval: Duration,
    /// Attribute the CUDA driver's allocations to libraries and lines of code (PyTorch);
    /// stops when the program starts a profiler
    #[arg(long)]
    driver_allocations: bool,
    /// Print no summary
    #[arg(long, short)]
    quiet: bool,
    /// Command to run, with its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    // The flags for alerts and metrics come last, because clap would put all arguments after them
    // under their help heading.
    #[command(flatten)]
    exports: ExportFlags,
}

/// The longest name of a run, in characters.
const LONGEST_NAME: usize = 100;

fn name(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err("must be a text of one line".to_owned());
    }
    if text.chars().count() > LONGEST_NAME {
        return Err(format!("must have at most {LONGEST_NAME} characters"));
    }
    Ok(text.to_owned())
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let root = match &arguments.dir {
        Some(directory) => directory.clone(),
        None => Path::new(FOLDER).join(stamp()),
    };
    // The path of the recording is made absolute, because the recorded program may change its
    // working directory.
    let root = std::path::absolute(&root).unwrap_or(root);
    let driver = [("STORMLOG_RUN_DRIVER_ALLOCATIONS", OsString::from("1"))];
    let plan = Plan {
        root: &root,
        command: &arguments.command,
        name: arguments.name.as_deref(),
        interval: arguments.interval,
        variables: if arguments.driver_allocations {
            &driver
        } else {
            &[]
        },
    };
    let mut warn = |problem: &str| {
        // A failed write of a warning is ignored, because `stormlog run` must exit with the exit
        // code of the recorded program.
        let _ = writeln!(console.err, "stormlog: {problem}");
    };
    let online = if watched::is_disabled() {
        None
    } else {
        watch(&arguments.exports, &root, &mut warn)?
    };
    let ended =
        watched::run(&plan, &mut warn).map_err(|error| explained(error, &arguments.command))?;
    if let Some(online) = online {
        let end = if ended.status.success() {
            ProgramEnd::Fine
        } else {
            ProgramEnd::Failed
        };
        online.finish(end, &mut warn);
    }
    if !arguments.quiet {
        summarize(&root, &ended, console);
    }
    Ok(child::exit_of(ended.status))
}

/// Starts to send alerts and metrics about the recording. An invalid flag is an error; if the
/// thread that sends alerts and metrics cannot be started, a warning is printed and the program
/// runs anyway.
fn watch(
    flags: &ExportFlags,
    root: &Path,
    warn: &mut dyn FnMut(&str),
) -> anyhow::Result<Option<Online>> {
    let targets = flags.targets(warn)?;
    let identity = IdentityArguments::default().resolve().ok();
    // Each rank of a job has its own `stormlog run` process, which sends data about that rank only.
    let rank = identity.filter(|identity| identity.world_size > 1);
    let watched = Watched::Sinks {
        root: root.to_path_buf(),
        rank: rank.map(|identity| identity.rank),
    };
    Ok(
        Online::start(targets, watched, false).unwrap_or_else(|error| {
            warn(&format!("no alerts and metrics are sent: {error}"));
            None
        }),
    )
}

/// Prints a summary of the run in two lines: the verdict, and how the program ended. Of the ranks of a
/// job only rank 0 prints it. The summary goes to standard error, because standard output belongs to the recorded program.
fn summarize(root: &Path, ended: &Ended, console: &mut Console<'_>) {
    let identity = IdentityArguments::default().resolve();
    if identity.is_ok_and(|identity| identity.rank > 0) {
        return;
    }
    let verdict = match &ended.run_id {
        Some(id) => verdict(root, id),
        None => Err("the program was not recorded"),
    };
    let verdict = verdict.unwrap_or_else(|reason| format!("no verdict: {reason}"));
    // The summary does not suggest to analyze an earlier recording in the same directory.
    let next = if ended.run_id.is_some() {
        format!(" \u{b7} stormlog analyze {}", shell_word(root))
    } else {
        String::new()
    };
    // The lines are not wrapped, because each line of Stormlog begins with its name. A failed write
    // of the summary is ignored, because `stormlog run` must exit with the exit code of the recorded
    // program.
    let _ = writeln!(console.err, "stormlog: {}", for_terminal(&verdict));
    let _ = writeln!(
        console.err,
        "stormlog: {}{next}",
        for_terminal(&ended.describe())
    );
}

/// The largest recording in bytes that is analyzed after the program has ended. Analyzing a larger
/// recording, such as that of hundreds of ranks, would delay the exit of the command.
const MOST_ANALYZED: u64 = 1 << 30;

/// The verdict on the run with the given id, or the reason why there is none. Other runs may be
/// recorded in the same directory, before it or at the same time.
pub(crate) fn verdict(root: &Path, run_id: &str) -> Result<String, &'static str> {
    if recorded_bytes(root) > MOST_ANALYZED {
        return Err("the recording is larger than 1 GiB");
    }
    let (paths, options) = ([root.to_path_buf()], LoadOptions::skipping());
    let opened = on_this_machine(|at| OpenRun::open(&paths, Choice::default(), &options, at));
    let opened = opened.map_err(|_| "the recording cannot be read")?;
    let recorded = opened.diagnosed_with_id(run_id);
    if recorded.sessions.is_empty() {
        return Err("nothing was recorded");
    }
    // The end of the run has a line of its own.
    Ok(recorded.diagnosis.verdict().verdict)
}

fn recorded_bytes(root: &Path) -> u64 {
    let sinks = sinks_of_run(root).into_iter();
    let files = sinks.flat_map(|(directory, _)| fs::read_dir(directory).into_iter().flatten());
    files
        .filter_map(|file| file.ok()?.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

fn stamp() -> String {
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    format!("{now}-{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use stormlog_analysis::timeline::run_id_of;

    use super::*;

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if from.is_dir() {
                copy(&from, &to);
            } else {
                fs::copy(from, to).unwrap();
            }
        }
    }

    #[test]
    fn the_verdict_is_that_of_the_run_that_was_recorded() {
        let causes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/causes");
        let root = tempfile::tempdir().unwrap();
        let mut ids = Vec::new();
        for name in ["clean_gpt", "kv_cache"] {
            copy(&causes.join(name), &root.path().join(name));
            let (paths, options) = ([causes.join(name)], LoadOptions::skipping());
            let opened = on_this_machine(|at| {
                OpenRun::open(&paths, Choice::default(), &options, at).unwrap()
            });
            let mut sessions = opened.loaded().iter().flat_map(|one| &one.sessions);
            let id = sessions.find_map(run_id_of).unwrap();
            let alone = opened.diagnosed().diagnosis.verdict().verdict;
            ids.push((id.to_str_lossy().into_owned(), alone));
        }
        assert_ne!(ids[0].1, ids[1].1);
        for (id, alone) in ids {
            assert_eq!(verdict(root.path(), &id).unwrap(), alone);
        }
        let other = verdict(root.path(), "another-run");
        assert_eq!(other, Err("nothing was recorded"));
    }
}
