//! The command `diagnose` runs the detectors of `stormlog analyze` inside the SQL engine, on the
//! workers of a cluster if one is given.

use std::io::{BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use stormlog_format::json::{Layout, Writer};
use stormlog_format::{Map, Value};
use stormlog_lake_ask::{DiagnoseOptions, RunDiagnosis};
use stormlog_report::escape::for_terminal;
use stormlog_report::wrap;

use crate::lake_args::LakeArgs;
use crate::output;
use crate::rows::terminal_width;

/// Find memory problems of runs, with the detectors of `stormlog analyze`.
#[derive(Args)]
#[command(
    after_help = "Exit code: 0 when diagnosed, with or without findings; 1 on failure.

Examples:
  stormlog lake diagnose --at /lake
  stormlog lake diagnose --at /lake --job-id 4711 --json"
)]
pub(crate) struct DiagnoseArgs {
    #[command(flatten)]
    lake: LakeArgs,
    /// Only this run
    #[arg(long)]
    run_id: Option<String>,
    /// Only runs of this job
    #[arg(long)]
    job_id: Option<String>,
    /// Report running out of memory as a risk when it is at most this far ahead
    #[arg(long, value_name = "HOURS", default_value_t = 24.0, value_parser = positive_hours)]
    oom_horizon: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn positive_hours(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hours) if hours > 0.0 && hours.is_finite() => Ok(hours),
        _ => Err("must be a number of hours > 0".to_owned()),
    }
}

pub(crate) async fn run(args: DiagnoseArgs) -> Result<ExitCode> {
    let options = DiagnoseOptions {
        run_id: args.run_id,
        job_id: args.job_id,
        oom_horizon_hours: args.oom_horizon,
    };
    let runs = args.lake.open().await?.diagnose(&options).await?;
    if args.json {
        print_json(&runs)?;
    } else {
        print(&runs)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_json(runs: &[RunDiagnosis]) -> Result<()> {
    let runs = runs.iter().map(|run| {
        let findings = run.findings.iter().cloned().map(Value::Map).collect();
        let mut map = Map::new();
        map.insert("run_id", run.run_id.as_str());
        let ids = run.session_ids.iter().map(|id| Value::text(id.as_str()));
        map.insert("session_ids", Value::List(ids.collect()));
        map.insert("headline", run.headline.as_str());
        map.insert("is_too_short", Value::Bool(run.is_too_short));
        map.insert("findings", Value::List(findings));
        Value::Map(map)
    });
    let mut document = Map::new();
    document.insert("schema_version", 1);
    document.insert("runs", Value::List(runs.collect()));
    let text = Writer::new(Layout::Indented).map_to_string(&document);
    Ok(output::lines(&[text])?)
}

/// Prints the verdict of each run, and the text of every finding.
fn print(runs: &[RunDiagnosis]) -> Result<()> {
    let out = std::io::stdout();
    let width = if out.is_terminal() {
        terminal_width()
    } else {
        usize::MAX
    };
    let mut out = BufWriter::new(out.lock());
    if runs.is_empty() {
        writeln!(out, "No runs.")?;
    }
    for run in runs {
        writeln!(out, "Run {}", for_terminal(&run.run_id))?;
        writeln!(out, "{}", wrap(&for_terminal(&run.headline), "  ", width))?;
        for finding in &run.findings {
            let text = |key: &str| {
                let text = finding.get(key).and_then(Value::as_text);
                text.map(ToString::to_string).unwrap_or_default()
            };
            let line = format!(
                "[{}] {}: {}",
                text("severity"),
                text("kind"),
                text("explanation")
            );
            writeln!(out, "{}", wrap(&for_terminal(&line), "    ", width))?;
        }
    }
    out.flush()?;
    Ok(())
}
