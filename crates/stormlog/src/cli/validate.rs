//! `stormlog validate`: checks every record of an artifact against the rules of its format version.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::document::shown_path;
use stormlog_analysis::pack::shown;
use stormlog_analysis::{
    Artifacts, Damage, LoadError, LoadOptions, OnError, Removed, find_artifacts, stream_events,
};
use stormlog_format::counted;
use stormlog_report::escape::{for_terminal, path_for_terminal};
use stormlog_report::removed_lines;

use super::run_files::note_skipped;
use crate::Exit;
use crate::console::Console;
use crate::progress::Progress;

/// Check artifacts and list all problems
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0 when all artifacts are valid, 1 otherwise.

Examples:
  stormlog validate run/sink
  stormlog validate events.json segment-000001.jsonl.gz
  stormlog validate --json run/sink | jq '.files[].problems[]'")]
pub(crate) struct Arguments {
    /// Sinks, segments, JSON, JSONL or CSV files (also .gz and .zst), bundles, or folders
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Reject records without a version
    #[arg(long)]
    strict: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The problems of all checked artifacts.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    /// Whether all checked artifacts are valid.
    valid: bool,
    files: Vec<Checked>,
}

/// The result of the check of one artifact.
#[derive(Serialize, JsonSchema)]
struct Checked {
    #[serde(serialize_with = "shown_path")]
    #[schemars(with = "String")]
    path: PathBuf,
    /// Events that could be read.
    events: usize,
    /// Whether the artifact has no problems.
    valid: bool,
    problems: Vec<Damage>,
    #[serde(flatten)]
    removed: Removed,
}

impl Checked {
    fn new(path: &Path, events: usize, problems: Vec<Damage>) -> Self {
        Self {
            path: path.to_path_buf(),
            events,
            valid: problems.is_empty(),
            problems,
            removed: Removed::default(),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let progress = Progress::through(
        arguments.paths.iter().map(PathBuf::as_path),
        console.err_is_terminal,
    );
    let mut skipped = Vec::new();
    let files: Vec<Checked> = arguments
        .paths
        .iter()
        .flat_map(|path| check_all(path, arguments, &progress, &mut skipped))
        .collect();
    drop(progress);
    note_skipped(&skipped, console)?;
    let valid = files.iter().all(|checked| checked.valid);
    let exit = if valid { Exit::Fine } else { Exit::Failure };
    console.decided = Some(exit);
    if arguments.json {
        console.print_json(&Document { valid, files })?;
    } else {
        print_text(&files, console)?;
    }
    Ok(exit)
}

/// Checks an artifact, or all artifacts of a folder, which may contain other files too.
fn check_all(
    path: &Path,
    arguments: &Arguments,
    progress: &Progress,
    skipped: &mut Vec<PathBuf>,
) -> Vec<Checked> {
    let found = find_artifacts(path).unwrap_or_else(|_| Artifacts {
        paths: vec![path.to_path_buf()],
        ..Artifacts::default()
    });
    skipped.extend(found.foreign);
    let is_named = found.paths == [path];
    let refused = found.refused.into_iter();
    let refused = refused.map(|problem| Checked::new(&problem.file.clone(), 0, vec![problem]));
    let checked = found.paths.into_iter().filter_map(|file| {
        let mut events = 0;
        let problems = match check(&file, arguments, progress, &mut events) {
            Err(error) if !is_named && error.is_no_telemetry() => {
                skipped.push(file);
                return None;
            }
            Err(error) => vec![problem_of(&error, &file)],
            Ok(problems) => problems,
        };
        Some(Checked {
            removed: Removed::at(&file),
            ..Checked::new(&file, events, problems)
        })
    });
    let mut checked: Vec<Checked> = checked.chain(refused).collect();
    if checked.is_empty() {
        let problem = Damage::of_file(path, "no telemetry in this folder");
        checked.push(Checked::new(path, 0, vec![problem]));
    }
    checked
}

fn check(
    file: &Path,
    arguments: &Arguments,
    progress: &Progress,
    events: &mut usize,
) -> Result<Vec<Damage>, LoadError> {
    let advance = |bytes| progress.advance(bytes);
    let options = LoadOptions {
        permissive_legacy: !arguments.strict,
        on_error: OnError::Skip,
        progress: &advance,
        ..LoadOptions::default()
    };
    stream_events(file, &options, &mut |chunk| *events += chunk.len())
}

/// Converts the error of a file that cannot be read at all to an entry in the list of problems.
fn problem_of(error: &LoadError, path: &Path) -> Damage {
    Damage {
        field: error.field().map(str::to_owned),
        ..Damage::of_file(error.file().unwrap_or(path), error.to_string())
    }
}

fn print_text(checked: &[Checked], console: &mut Console<'_>) -> anyhow::Result<()> {
    for Checked {
        path,
        events,
        problems,
        removed,
        ..
    } in checked
    {
        for problem in problems {
            let line = problem
                .line
                .map(|line| format!(":{line}"))
                .unwrap_or_default();
            let field = problem
                .field
                .as_ref()
                .map(|field| format!(" [{field}]"))
                .unwrap_or_default();
            let text = format!(
                "{}{line}:{field} {}",
                shown(&problem.file).display(),
                problem.reason
            );
            writeln!(console.out, "{}", for_terminal(&text))?;
        }
        let verdict = match problems.len() {
            0 => "valid".to_owned(),
            count => counted(count, "problem"),
        };
        writeln!(
            console.out,
            "{}: {events}, {verdict}",
            path_for_terminal(&shown(path)),
            events = counted(*events, "event")
        )?;
        for (label, text) in removed_lines(removed) {
            writeln!(console.out, "  {label}: {text}")?;
        }
    }
    Ok(())
}
