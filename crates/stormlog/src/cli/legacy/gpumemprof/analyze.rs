//! `gpumemprof analyze`: prints the same lines as in stormlog 0.3.9, and writes the report of
//! stormlog 0.3.9 with the findings of Stormlog's detectors added.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};
use stormlog_analysis::analyze::{AnalyzeOptions, Report};
use stormlog_analysis::{
    LoadError, LoadOptions, Loaded, device_artifacts_at, load_sessions, regular_file,
};
use stormlog_compat::{Analyses, ReportDocument};
use stormlog_report::PictureKind;
use stormlog_report::document::to_value;
use stormlog_report::escape::{for_terminal, path_for_terminal};

use crate::Exit;
use crate::cli::analyze::{FailOn, give_states, positive_hours, saw_events};
use crate::cli::pictures;
use crate::console::Console;
use crate::whole_file::write_whole;

/// Analyze recorded telemetry
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  gpumemprof analyze track.json --output report.json
  gpumemprof analyze sink/ --format txt --output report.txt
  gpumemprof analyze sink/ --visualization --plot-dir plots")]
pub(super) struct Arguments {
    /// A telemetry file, a sink, or a folder with one file per rank
    input_file: PathBuf,
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the report
    #[arg(long, value_enum, default_value_t = FileFormat::Json)]
    format: FileFormat,
    /// Analyze only this session
    #[arg(long, value_name = "ID")]
    session_id: Option<String>,
    /// Also draw the timeline, and a comparison of several ranks
    #[arg(long)]
    visualization: bool,
    /// Directory of the pictures
    #[arg(long, value_name = "DIR", default_value = "plots")]
    plot_dir: PathBuf,
    /// Exit with 2 when a likely or certain problem has one of these kinds: a list, or 'any';
    /// with 'note' in the list, notes count too
    #[arg(long, value_name = "KINDS", value_parser = <FailOn as std::str::FromStr>::from_str)]
    fail_on: Option<FailOn>,
    /// Report running out of memory as a risk when it is at most this far ahead
    #[arg(long, value_name = "HOURS", default_value_t = 24.0, value_parser = positive_hours)]
    oom_horizon: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FileFormat {
    /// Everything
    Json,
    /// The printed lines
    #[value(name = "txt")]
    Text,
}

/// The result of reading the input: a report about its telemetry, or, without telemetry, what else
/// was found in the input.
enum Outcome {
    Analyzed(Box<Report>, Box<Analyses>, Vec<Loaded>),
    /// The input has no telemetry. Contains the top-level keys if the input is a JSON object.
    Other(Vec<String>),
}

pub(super) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let mut outcome = match read(arguments) {
        Ok(outcome) => outcome,
        Err(message) => {
            // The error message is printed on standard output, where scripts for stormlog 0.3.9
            // expect it.
            writeln!(console.out, "{}", for_terminal(&message))?;
            return Ok(Exit::Failure);
        }
    };
    if arguments.fail_on.is_some() {
        saw_events(match &outcome {
            Outcome::Analyzed(_, _, loaded) => loaded,
            Outcome::Other(_) => &[],
        })?;
    }
    if let Outcome::Analyzed(report, ..) = &mut outcome {
        give_states(report, &arguments.input_file, console)?;
    }
    let failed = match (&outcome, &arguments.fail_on) {
        (Outcome::Analyzed(report, ..), Some(kinds)) => kinds.fails(report),
        _ => false,
    };
    let exit = if failed { Exit::Risk } else { Exit::Fine };
    console.decided = Some(exit);
    let mut lines = heading(&arguments.input_file);
    match &outcome {
        Outcome::Analyzed(_, analyses, _) => lines.extend(stormlog_compat::lines(analyses)),
        Outcome::Other(_) => lines.push(format!("Notes: {NO_TELEMETRY}")),
    }
    for line in &lines {
        writeln!(console.out, "{}", for_terminal(line))?;
    }
    if let Outcome::Analyzed(_, analyses, _) = &outcome
        && let Some(session) = &analyses.selected
    {
        let id = session.session_id.to_string();
        writeln!(
            console.out,
            "Telemetry session selected: {} ({}, started_at_ns={}).",
            for_terminal(&id),
            session.status.as_str(),
            session.started_at_ns
        )?;
    }
    if let Some(file) = &arguments.output {
        let content = match arguments.format {
            FileFormat::Json => serde_json::to_string_pretty(&document(&outcome))?,
            FileFormat::Text => lines.join("\n") + "\n",
        };
        write_whole(file, content.as_bytes())?;
        let file = path_for_terminal(file);
        writeln!(console.out, "Analysis report saved to: {file}")?;
    }
    if arguments.visualization {
        visualize(arguments, &outcome, console)?;
    }
    Ok(exit)
}

/// Draws the timeline and, for several ranks, a picture that compares the ranks. stormlog 0.3.9
/// draws only the comparison of the ranks.
fn visualize(
    arguments: &Arguments,
    outcome: &Outcome,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let story = match outcome {
        Outcome::Analyzed(report, _, loaded) => pictures::story_of(loaded, report, None),
        Outcome::Other(_) => None,
    };
    let Some(story) = story else {
        writeln!(console.out, "Visualization skipped: no samples to draw")?;
        return Ok(());
    };
    let folder = &arguments.plot_dir;
    let mut files = pictures::write_timeline(&story, folder)?;
    if story.ranks().len() > 1 {
        let name = "cross_rank_timeline.png";
        files.push(pictures::write_picture(
            &story,
            PictureKind::Ranks,
            folder,
            name,
        )?);
    }
    for file in files {
        let file = path_for_terminal(&file);
        writeln!(console.out, "Visualization saved to: {file}")?;
    }
    Ok(())
}

const NO_TELEMETRY: &str = "JSON payload does not contain telemetry events";

fn heading(input: &Path) -> Vec<String> {
    let name = input.display();
    vec![
        format!("Analyzing profiling results from: {name}"),
        String::new(),
        "Basic Analysis:".into(),
        format!("Input file: {name}"),
        format!("File size: {} bytes", size(input)),
    ]
}

/// The size in bytes of a file, or of all files in a folder.
fn size(path: &Path) -> u64 {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return 0;
    };
    if !metadata.is_dir() {
        return std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size(&entry.path())).sum()
}

/// Reads and analyzes a file. The error messages have the same texts as those of `gpumemprof
/// analyze` in stormlog 0.3.9.
fn read(arguments: &Arguments) -> Result<Outcome, String> {
    let input = &arguments.input_file;
    if !input.exists() {
        return Err(format!("Error: Input file '{}' not found", input.display()));
    }
    let parsing =
        |error: &dyn std::fmt::Display| format!("Error parsing telemetry events: {error}");
    let files = device_artifacts_at(input).map_err(|error| parsing(&error))?;
    let mut loaded = Vec::new();
    for file in &files {
        match load_sessions(file, &LoadOptions::default()) {
            Ok(one) => loaded.push(one),
            Err(LoadError::NoEvents { .. }) if files.len() > 1 => {}
            Err(LoadError::NoEvents { .. }) => return Ok(Outcome::Other(top_level_keys(file))),
            Err(error @ (LoadError::Json { .. } | LoadError::NotUtf8 { .. })) => {
                return Err(format!("Error loading input file: {error}"));
            }
            Err(error) => return Err(parsing(&error)),
        }
    }
    let options = AnalyzeOptions {
        session_id: arguments.session_id.clone(),
        rank: None,
        oom_horizon_hours: arguments.oom_horizon,
    };
    let (report, analyses) =
        Analyses::with_report(&loaded, &options).map_err(|error| parsing(&error))?;
    Ok(Outcome::Analyzed(
        Box::new(report),
        Box::new(analyses),
        loaded,
    ))
}

/// The largest size in bytes of a JSON file whose top-level keys are listed.
const LARGEST: u64 = 1 << 30;

fn top_level_keys(file: &Path) -> Vec<String> {
    let content = regular_file::read(file, LARGEST).unwrap_or_default();
    match serde_json::from_slice::<Value>(&content) {
        Ok(Value::Object(object)) => object.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

fn document(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Analyzed(report, analyses, _) => to_value(&ReportDocument::of(report, analyses)),
        Outcome::Other(keys) => json!({
            "summary": {
                "analysis_timestamp": null,
                "total_functions_analyzed": 0,
                "total_function_calls": 0,
                "total_memory_allocated": 0,
                "total_execution_time": 0,
            },
            "top_level_keys": keys,
            "notes": [NO_TELEMETRY],
        }),
    }
}
