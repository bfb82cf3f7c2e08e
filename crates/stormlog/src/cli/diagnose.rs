//! `stormlog diagnose`, and the code that it shares with the `diagnose` commands of `gpumemprof`,
//! `tfmemprof` and `jaxmemprof`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use stormlog_analysis::detect::Finding;
use stormlog_format::{Map, names, parse_bytes, whole};
use stormlog_redact::redacted_words;
use stormlog_report::analyze::Verdict;
use stormlog_report::escape::for_terminal;

use super::analyze::positive_hours;
use super::integrations::Integrations;
use super::native_history::NativeHistory;
use super::subject::{Source, Subject};
use super::watch::is_alive;
use crate::Exit;
use crate::console::Console;
use crate::diagnose::{Bundle, Flavour, Outcome, Plan, Summary, Target, Watch, environment, watch};
use crate::failure::hinted;
use crate::recording::seconds;
use crate::services::Finished;

/// Record a process, a command or a GPU for a while and report memory risks
///
/// Writes a bundle: environment, timeline, a summary with flags and suggestions, a report
/// with findings, and a manifest.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 when no risk was found, 2 on a memory risk, 1 on failure.

Examples:
  stormlog diagnose --pid 4711 --duration 60
  stormlog diagnose --output diag -- python train.py
  stormlog diagnose --output diag --limit 8GiB -- python train.py
  stormlog diagnose --output diag --native-history -- python train.py
  stormlog diagnose --device 0 --json | jq .summary.risk_flags"
)]
pub(crate) struct Arguments {
    /// Diagnose this GPU (index) [default: the first; without a GPU, this process]
    #[arg(long, conflicts_with_all = ["pid", "command"])]
    device: Option<u32>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    native_history: NativeHistory,
}

/// The flags that `diagnose` has in every program.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Write the bundle to this directory; if it exists, to a new one below it [default: .]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Record for this many seconds; 0 takes one sample [default: 5; a command: to its end]
    #[arg(
        long,
        value_name = "SECONDS",
        allow_negative_numbers = true,
        value_parser = seconds,
        conflicts_with = "command"
    )]
    duration: Option<f64>,
    /// Seconds between samples [default: 0.5; for a command 0.1]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    interval: Option<f64>,
    /// Diagnose this process and its children
    #[arg(long, conflicts_with = "command")]
    pid: Option<u32>,
    /// Memory limit of the process, such as 8GiB, when no control group sets one
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    limit: Option<u64>,
    /// Report running out of memory as a risk when it is at most this far ahead
    #[arg(long, value_name = "HOURS", default_value_t = 24.0, value_parser = positive_hours)]
    oom_horizon: f64,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    /// Run this command and diagnose it with its children
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    integrations: Integrations,
}

/// Runs `stormlog diagnose`, or `gpumemprof diagnose`, which has the same flags.
pub(crate) fn run(
    flavour: Flavour,
    arguments: &Arguments,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    let subject = Subject::of_gpu(arguments.device);
    let history = Some(arguments.native_history);
    diagnose(flavour, &arguments.common, subject, history, console)
}

/// Records a command, a process or the subject, writes a bundle with the diagnosis, and prints the
/// result. The subject is recorded when neither a command nor a process is given.
pub(crate) fn diagnose(
    flavour: Flavour,
    common: &Common,
    subject: Subject,
    native_history: Option<NativeHistory>,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    common.integrations.check(console)?;
    let (duration, interval) = common.times()?;
    let target = common.target(subject)?;
    let native_history = match native_history {
        Some(asked) => asked.entries(&target)?,
        None => None,
    };
    if matches!(target, Target::Own) && subject != Subject::Process {
        writeln!(
            console.err,
            "note: no GPU found and no process given; diagnosing only the process of this command; \
             give '--pid', or a command after '--'"
        )?;
    }
    let gpu = match target {
        Target::Gpu(index) => Some(index),
        _ => None,
    };
    let mut bundle = Bundle::begin(Plan {
        flavour,
        output: common.output.clone(),
        command_line: command_line(),
        environment: environment(gpu),
        oom_horizon_hours: common.oom_horizon,
        native_history: native_history.is_some(),
    })?;
    let plan = Watch {
        flavour,
        target,
        duration,
        interval,
        limit: common.limit,
        native_history,
    };
    let seen = match watch(&mut bundle, &plan) {
        Ok(seen) => seen,
        Err(error) => {
            bundle.give_up(&error);
            return Err(error);
        }
    };
    let outcome = bundle.finish(&seen);
    console.decided = Some(outcome.exit);
    print_outcome(&outcome, common.json, console)?;
    let command = flavour.source().replace(' ', "-");
    let finished = || Some(Finished::Diagnosis(outcome.directory));
    common.integrations.log(&command, finished, console)?;
    Ok(outcome.exit)
}

impl Common {
    /// The duration and the sampling interval of the diagnosis; error messages about them have the
    /// same texts as in stormlog 0.3.9.
    fn times(&self) -> anyhow::Result<(Duration, Duration)> {
        let is_command = !self.command.is_empty();
        let duration = self.duration.unwrap_or(5.0);
        let interval = self.interval.unwrap_or(if is_command { 0.1 } else { 0.5 });
        let too_long = f64::from(u32::MAX);
        if !(0.0..=too_long).contains(&duration) {
            anyhow::bail!("--duration must be >= 0");
        }
        if !(interval > 0.0 && interval <= too_long) {
            anyhow::bail!("--interval must be > 0");
        }
        Ok((
            Duration::from_secs_f64(duration),
            Duration::from_secs_f64(interval),
        ))
    }

    fn target(&self, subject: Subject) -> anyhow::Result<Target> {
        if !self.command.is_empty() {
            return Ok(Target::Command(self.command.clone()));
        }
        if let Some(pid) = self.pid {
            if !is_alive(pid) {
                anyhow::bail!("process {pid} not found");
            }
            return Ok(Target::Process(pid));
        }
        let (_, source) = subject.collectors().map_err(|reason| {
            hinted(
                anyhow::Error::msg(reason),
                "diagnose a process with '--pid', or a command after '--'",
            )
        })?;
        Ok(match source {
            Source::Gpu(index) => Target::Gpu(index),
            Source::Process => Target::Own,
        })
    }
}

/// The result of a diagnosis.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    /// The directory of the bundle.
    artifact: String,
    status: Status,
    #[schemars(range(min = 0, max = 2))]
    exit_code: u8,
    risk_detected: bool,
    /// Raised flags of the summary, and the kinds of the findings.
    raised: &'a [String],
    error: Option<&'a str>,
    /// The content of `diagnostic_summary.json` in the bundle.
    #[schemars(with = "Summary")]
    summary: &'a Map,
    /// The verdict, as in `report.json` of the bundle.
    #[schemars(with = "Verdict")]
    verdict: &'a Value,
    /// The findings, as in `report.json` of the bundle.
    #[schemars(with = "Vec<Finding>")]
    findings: &'a Value,
}

#[derive(Clone, Copy)]
enum Status {
    Ok,
    MemoryRisk,
    Failed,
}

names!(Status {
    Ok => "OK",
    MemoryRisk => "MEMORY_RISK",
    Failed => "FAILED",
});

fn print_outcome(
    outcome: &Outcome,
    as_json: bool,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let status = match outcome.exit {
        Exit::Fine => Status::Ok,
        Exit::Risk => Status::MemoryRisk,
        Exit::Failure | Exit::Child(_) => Status::Failed,
    };
    if let Some(error) = &outcome.error {
        writeln!(console.err, "warning: {}", for_terminal(error))?;
    }
    let directory = outcome.directory.display().to_string();
    if as_json {
        return Ok(console.print_json(&Document {
            artifact: directory,
            status,
            exit_code: outcome.exit.code(),
            risk_detected: !outcome.raised.is_empty(),
            raised: &outcome.raised,
            error: outcome.error.as_deref(),
            summary: &outcome.summary,
            verdict: &outcome.report["verdict"],
            findings: &outcome.report["findings"],
        })?);
    }
    writeln!(console.out, "Artifact: {}", for_terminal(&directory))?;
    writeln!(
        console.out,
        "Status: {} (exit_code={})",
        status.as_str(),
        outcome.exit.code()
    )?;
    let raised = match outcome.raised.as_slice() {
        [] => "no memory risk detected".to_owned(),
        raised => raised.join(", "),
    };
    writeln!(console.out, "Findings: {raised}")?;
    if let Some(headline) = outcome.report["verdict"]["headline"].as_str() {
        writeln!(console.out, "Verdict: {}", for_terminal(headline))?;
    }
    Ok(())
}

/// The command line of this process with secrets removed. It is written into the bundle, which may
/// be shared with other people.
fn command_line() -> String {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    redacted_words(&words)
}

/// Parses a memory limit such as `512MiB` or `8GB`.
fn limit(text: &str) -> Result<u64, String> {
    parse_bytes(text)
        .filter(|bytes| (1.0..1e18).contains(bytes))
        .map(|bytes| whole(bytes).unsigned_abs())
        .ok_or_else(|| "must be a size such as 512MiB or 8GB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::limit;

    #[test]
    fn limits() {
        assert_eq!(limit("8GB"), Ok(8_000_000_000));
        assert_eq!(limit("1.5 gib"), Ok(3 << 29));
        assert_eq!(limit("4096"), Ok(4096));
        for bad in ["", "GB", "8GBB", "-1", "0", "1e99"] {
            assert!(limit(bad).is_err(), "{bad}");
        }
    }
}
