//! `stormlog track`: records GPUs or a process from outside the process.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use schemars::JsonSchema;
use serde::Serialize;
use stormlog_capture::clock::now_ns;
use stormlog_capture::collect::Collector;
use stormlog_capture::collect::nvml::Share;
use stormlog_capture::record::export::{ExportFormat, export};
use stormlog_capture::record::{RecordOptions, Recorder};
use stormlog_capture::store::{SinkConfig, Thinning};
use stormlog_export::prometheus;
use stormlog_format::{SessionStatus, Text, counted};
use stormlog_report::bytes;
use stormlog_report::escape::for_terminal;
use stormlog_serve::{Binding, Server, Token};

use super::export_flags::ExportFlags;
use super::integrations::Integrations;
use super::watch::is_alive;
use crate::Exit;
use crate::child;
use crate::console::Console;
use crate::failure::hinted;
use crate::online::{Online, ProgramEnd, Targets, Watched};
use crate::recording::{
    IdentityArguments, gpu_collectors, positive_seconds, record_options, sink_for_rank,
    tree_collector, until_end,
};
use crate::services::Finished;
use crate::signals::Signals;
use crate::watched::{Ended, OomKills, tell_recorder};

/// Record the memory of GPUs, a process or a command from outside
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stormlog track --sink runs/node7            all GPUs, until Ctrl+C
  stormlog track --gpu 0 --duration 60 --output gpu0.csv
  stormlog track --pid 4711 --sink runs/4711  a process and its children
  stormlog track --sink runs/train -- python train.py
  stormlog track --listen 127.0.0.1:9400      metrics of all GPUs for Prometheus

To record the counters of PyTorch's allocator too, use 'stormlog run'.")]
pub(crate) struct Arguments {
    /// Record this process and its children
    #[arg(long, conflicts_with = "command")]
    pid: Option<u32>,
    /// Record this GPU (the driver's index); repeatable [default: all]
    #[arg(long = "gpu", value_name = "N")]
    gpus: Vec<u32>,
    /// Seconds between samples
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = positive_seconds)]
    interval: Duration,
    /// Stop after this many seconds [default: on Ctrl+C, or when the process ends]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    duration: Option<Duration>,
    /// Store the session in this directory, one subdirectory per rank of a job
    #[arg(long, value_name = "DIR")]
    sink: Option<PathBuf>,
    /// Write the last 10,000 events to this .csv or .json file at the end
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    /// Run this command and record it with its children
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Serve metrics for Prometheus on this address (/metrics), such as 127.0.0.1:9400
    #[arg(long, value_name = "ADDR", help_heading = "Alerts and metrics")]
    listen: Option<String>,
    /// Use the first line of this file as the token that clients need if ADDR is not loopback
    /// [default: a new one]
    #[arg(
        long,
        value_name = "FILE",
        requires = "listen",
        help_heading = "Alerts and metrics"
    )]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    exports: ExportFlags,
    #[command(flatten)]
    identity: IdentityArguments,
    #[command(flatten)]
    integrations: Integrations,
}

/// Summary of a recording.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    session_id: Option<&'a Text>,
    session_status: Option<SessionStatus>,
    /// The directory of the recording; null if nothing was stored.
    sink: Option<Cow<'a, str>>,
    /// The path of the file that `--output` names.
    output: Option<Cow<'a, str>>,
    /// The number of events in the in-memory history, which has a limited size.
    total_events: Option<i64>,
    peak_memory_bytes: Option<i64>,
    alert_count: Option<i64>,
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    arguments.integrations.check(console)?;
    let format = arguments.output.as_deref().map(output_format).transpose()?;
    if !arguments.command.is_empty() {
        return run_command(arguments, format, console);
    }
    let targets = targets(arguments, console)?;
    let binding = bind(arguments)?;
    let recorder = recorder(arguments, arguments.pid)?;
    let signals = Signals::that_end()?;
    recorder.start()?;
    let exporting = Exporting::start(arguments, targets, binding, &recorder, console)?;
    if console.err_is_terminal {
        writeln!(console.err, "recording; press Ctrl+C to stop")?;
    }
    until_end(&recorder, &signals, arguments.duration, |_| Ok(()))?;
    recorder.stop(SessionStatus::Completed);
    exporting.finish(ProgramEnd::Fine, console);
    finish(arguments, &recorder, format, console)?;
    log(arguments, &recorder, console)?;
    // The command fails if a sink was requested but nothing could be stored in it.
    let is_lost = arguments.sink.is_some() && recorder.sink_directory().is_none();
    Ok(if is_lost { Exit::Failure } else { Exit::Fine })
}

fn run_command(
    arguments: &Arguments,
    format: Option<ExportFormat>,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    let targets = targets(arguments, console)?;
    let binding = bind(arguments)?;
    let mut signals = Signals::to_forward()?;
    let kills = OomKills::count();
    let mut child = child::spawn(&arguments.command, &[], &mut signals)?;
    let started = recorder(arguments, Some(child.id())).and_then(|recorder| {
        recorder.start()?;
        Ok(recorder)
    });
    let recorder = match started {
        Ok(recorder) => recorder,
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    };
    // If alerts and metrics cannot be sent, only a warning is printed, because the recorded command
    // must run in any case.
    let exporting = Exporting::start(arguments, targets, binding, &recorder, console);
    let exporting = exporting.unwrap_or_else(|error| {
        let _ = writeln!(console.err, "warning: {error:#}");
        Exporting::default()
    });
    let start = Instant::now();
    let status = child::wait(&mut child, &signals, |_| {
        if arguments
            .duration
            .is_some_and(|duration| start.elapsed() >= duration)
        {
            recorder.stop(SessionStatus::Completed);
        }
    })?;
    let ended = Ended {
        pid: child.id(),
        status,
        signal: None,
        oom_kills: kills.since(),
        exception: None,
        run_id: None,
    };
    tell_recorder(&recorder, &ended);
    let (session, end) = if status.success() {
        (SessionStatus::Completed, ProgramEnd::Fine)
    } else {
        (SessionStatus::Interrupted, ProgramEnd::Failed)
    };
    recorder.stop(session);
    exporting.finish(end, console);
    console.decided = Some(child::exit_of(status));
    finish(arguments, &recorder, format, console)?;
    log(arguments, &recorder, console)?;
    if !status.success() {
        writeln!(console.err, "the command ended: {}", ended.describe())?;
    }
    Ok(child::exit_of(status))
}

fn targets(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Targets> {
    arguments.exports.targets(&mut |problem| {
        let _ = writeln!(console.err, "warning: {problem}");
    })
}

fn bind(arguments: &Arguments) -> anyhow::Result<Option<Binding>> {
    let Some(address) = &arguments.listen else {
        return Ok(None);
    };
    let token = match &arguments.token_file {
        Some(path) => Token::from_file(path)?,
        None => Token::random(),
    };
    Ok(Some(Binding::bind(address, token)?))
}

/// The threads that send metrics and alerts and that respond to Prometheus while the recorder runs.
#[derive(Default)]
struct Exporting {
    online: Option<Online>,
    server: Option<Server>,
}

impl Exporting {
    fn start(
        arguments: &Arguments,
        targets: Targets,
        binding: Option<Binding>,
        recorder: &Arc<Recorder>,
        console: &mut Console<'_>,
    ) -> anyhow::Result<Self> {
        let watched = Watched::Recorder {
            recorder: recorder.clone(),
            lists_processes: arguments.pid.is_none() && arguments.command.is_empty(),
        };
        let online = Online::start(targets, watched, binding.is_some())?;
        let server = match (binding, &online) {
            (Some(binding), Some(online)) => {
                announce(arguments, &binding, console)?;
                let state = online.state();
                let render = Arc::new(move || prometheus::render(&state.levels(now_ns())));
                let router = stormlog_serve::metrics(prometheus::CONTENT_TYPE, render);
                Some(binding.serve(router)?)
            }
            _ => None,
        };
        Ok(Self { online, server })
    }

    fn finish(self, end: ProgramEnd, console: &mut Console<'_>) {
        if let Some(server) = self.server {
            server.stop();
        }
        if let Some(online) = self.online {
            online.finish(end, &mut |problem| {
                let _ = writeln!(console.err, "warning: {}", for_terminal(problem));
            });
        }
    }
}

/// Prints the address for metrics, and the token if readers need one and it was newly generated.
fn announce(
    arguments: &Arguments,
    binding: &Binding,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let address = binding.address();
    writeln!(console.err, "metrics on http://{address}/metrics")?;
    if !binding.is_loopback() && arguments.token_file.is_none() {
        let secret = binding.token().secret();
        writeln!(
            console.err,
            "readers of the metrics need the header 'Authorization: Bearer {secret}'"
        )?;
    }
    // Standard error is flushed, because the program that started this command may wait for the
    // address.
    Ok(console.err.flush()?)
}

fn recorder(arguments: &Arguments, pid: Option<u32>) -> anyhow::Result<Arc<Recorder>> {
    let share = pid.map_or(Share::NotRecorded, Share::Tree);
    let gpus = gpu_collectors(&arguments.gpus, share);
    let collectors: Vec<Box<dyn Collector>> = match (pid, gpus) {
        (Some(pid), Ok(gpus)) => std::iter::once(tree_collector(pid)).chain(gpus).collect(),
        // A process is recorded even when the machine has no GPUs, unless the user requested a GPU.
        (Some(pid), Err(_)) if arguments.gpus.is_empty() => vec![tree_collector(pid)],
        (None, Ok(gpus)) => gpus,
        (_, Err(reason)) => {
            let hint = "record a process with '--pid', or a command after '--'";
            return Err(hinted(anyhow::anyhow!("{reason}"), hint));
        }
    };
    if let Some(pid) = pid
        && !is_alive(pid)
    {
        anyhow::bail!("process {pid} not found");
    }
    let identity = arguments.identity.resolve()?;
    let sink = arguments.sink.as_ref().map(|root| SinkConfig {
        thinning: Some(Thinning::DEFAULT),
        ..SinkConfig::new(sink_for_rank(root, &identity))
    });
    let pid = pid.unwrap_or_else(std::process::id);
    let options = RecordOptions {
        sink,
        ..record_options("stormlog.track", pid, identity, arguments.interval)
    };
    Ok(Recorder::new(options, collectors, None))
}

/// Writes the output file if one was requested, and prints a summary of the recording.
fn finish(
    arguments: &Arguments,
    recorder: &Recorder,
    format: Option<ExportFormat>,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let problem = recorder.storage_problem();
    for notice in recorder.take_notices() {
        // The problem that lasted until the end is printed below.
        if problem.as_ref() != Some(&notice) {
            writeln!(console.err, "note: {}", for_terminal(&notice))?;
        }
    }
    if let Some(problem) = problem {
        let problem = for_terminal(&problem);
        writeln!(
            console.err,
            "warning: the recording is incomplete: {problem}"
        )?;
    }
    // If nothing could be stored, the summary names no sink directory.
    let sink = arguments.sink.as_ref();
    let sink = sink.filter(|_| recorder.sink_directory().is_some());
    if let (Some(path), Some(format)) = (&arguments.output, format) {
        export(path, &recorder.records(), format)
            .with_context(|| format!("cannot write '{}'", path.display()))?;
    }
    let statistics = recorder.device_statistics(None);
    let number = |key: &str| statistics.get(key).and_then(stormlog_format::Value::as_int);
    let session = recorder.session();
    let session = session.as_ref();
    if arguments.json {
        return Ok(console.print_json(&Document {
            session_id: session.map(|session| &session.session_id),
            session_status: session.map(|session| session.status),
            sink: sink.map(|path| path.to_string_lossy()),
            output: arguments.output.as_ref().map(|path| path.to_string_lossy()),
            total_events: number("total_events"),
            peak_memory_bytes: number("peak_memory"),
            alert_count: number("alert_count"),
        })?);
    }
    let status = session.map_or("unknown", |session| session.status.as_str());
    writeln!(
        console.out,
        "{events}, peak {peak}, {alerts}, session {status}",
        events = counted(
            number("total_events").unwrap_or(0) + number("history_dropped_events").unwrap_or(0),
            "event"
        ),
        peak = bytes::human(number("peak_memory").unwrap_or(0)),
        alerts = counted(number("alert_count").unwrap_or(0), "alert"),
    )?;
    for path in [sink, arguments.output.as_ref()].into_iter().flatten() {
        writeln!(console.out, "written to '{}'", path.display())?;
    }
    Ok(())
}

fn log(
    arguments: &Arguments,
    recorder: &Recorder,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let finished = || Finished::tracking(recorder, arguments.output.as_deref(), None);
    let integrations = &arguments.integrations;
    integrations.log("stormlog-track", finished, console)
}

fn output_format(path: &std::path::Path) -> anyhow::Result<ExportFormat> {
    let extension = path.extension().and_then(|name| name.to_str());
    extension.and_then(ExportFormat::parse).ok_or_else(|| {
        let message = anyhow::anyhow!("unknown output format for '{}'", path.display());
        hinted(message, "use a file name that ends in .csv or .json")
    })
}
