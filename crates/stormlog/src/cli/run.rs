//! `stormlog run`: a Python program records itself, without a change to it.
//!
//! The child's interpreter finds a `sitecustomize` of ours in front of its path. If it cannot
//! import the package, the child is sampled from outside instead.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{FlockOperation, Mode, OFlags};
use stormlog_analysis::{LoadOptions, load_sessions};
use stormlog_capture::collect::cgroup::{MemoryGroup, Roots};
use stormlog_capture::collect::nvml::Share;
use stormlog_capture::record::Recorder;
use stormlog_capture::store::{Sink, SinkConfig};
use stormlog_format::SessionStatus;

use crate::Exit;
use crate::child;
use crate::console::Console;
use crate::recording::{
    Capture, IdentityArguments, gpu_collectors, positive_seconds, tree_collector,
};
use crate::signals::EndSignals;

/// What the child's interpreter runs before the program.
const HOOK: &str = include_str!("run/sitecustomize.py");

/// Run a Python program and have it record its own memory, without changing it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stormlog run -- python train.py --epochs 3
  stormlog run --dir runs/today -- torchrun --nproc-per-node 8 train.py

The program's exit code and signals are passed on. Each rank of a job records into its own
directory; an out-of-memory error leaves a bundle beside the session.")]
pub(crate) struct Arguments {
    /// Where sessions go [default: stormlog-runs/ and the time]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Seconds between samples
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = positive_seconds)]
    interval: Duration,
    /// Say nothing of our own
    #[arg(long, short)]
    quiet: bool,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let root = match &arguments.dir {
        Some(directory) => directory.clone(),
        None => Path::new("stormlog-runs").join(stamp()),
    };
    fs::create_dir_all(&root).with_context(|| format!("cannot make '{}'", root.display()))?;
    let root = fs::canonicalize(&root)?;
    let signals = EndSignals::watch()?;
    let hook = Hook::put(&root, arguments.interval)?;
    let kills_before = oom_kills();
    let mut child = child::spawn(&arguments.command, &hook.variables)?;
    let outside = Outside::start(&root, child.id(), arguments.interval)?;
    let mut outside = Some(outside);
    let mut recorded_inside = false;
    let status = child::wait(&mut child, &signals, || {
        if !recorded_inside && hook.was_used() {
            recorded_inside = true;
            outside.take().into_iter().for_each(Outside::forget);
        }
    })?;
    if let Some(outside) = outside.take() {
        if hook.was_used() {
            outside.forget();
        } else {
            outside.finish(status.success());
        }
    }
    close_what_was_left_open(&root);
    if !arguments.quiet {
        let killed = oom_kills() > kills_before;
        tell(&root, status, killed, console)?;
    }
    Ok(child::exit_of(status))
}

/// The interpreter's hook in a directory of its own, and the variables that lead to it.
struct Hook {
    directory: tempfile::TempDir,
    variables: Vec<(&'static str, OsString)>,
}

impl Hook {
    fn put(root: &Path, interval: Duration) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("stormlog-run-").tempdir()?;
        fs::write(directory.path().join("sitecustomize.py"), HOOK)?;
        fs::create_dir(directory.path().join("seen"))?;
        let mut path = directory.path().as_os_str().to_owned();
        if let Some(before) = std::env::var_os("PYTHONPATH").filter(|path| !path.is_empty()) {
            path.push(":");
            path.push(before);
        }
        let variables = vec![
            ("PYTHONPATH", path),
            ("STORMLOG_RUN_ROOT", root.into()),
            ("STORMLOG_RUN_SEEN", directory.path().join("seen").into()),
            (
                "STORMLOG_RUN_INTERVAL",
                interval.as_secs_f64().to_string().into(),
            ),
        ];
        Ok(Self {
            directory,
            variables,
        })
    }

    /// Whether a process has said that it records itself.
    fn was_used(&self) -> bool {
        fs::read_dir(self.directory.path().join("seen"))
            .is_ok_and(|mut entries| entries.next().is_some())
    }
}

/// The child seen from outside, for as long as nobody records inside.
struct Outside {
    recorder: Arc<Recorder>,
    directory: PathBuf,
}

impl Outside {
    fn start(root: &Path, pid: u32, interval: Duration) -> anyhow::Result<Self> {
        let directory = root.join("outside");
        let mut collectors = vec![tree_collector(pid)];
        collectors.extend(gpu_collectors(&[], Share::Tree(pid)).unwrap_or_default());
        let capture = Capture {
            collectors,
            interval,
            identity: IdentityArguments::default().resolve()?,
            session_source: "stormlog.run.outside",
            pid,
            sink: Some(SinkConfig::new(&directory)),
        };
        let recorder = capture.recorder();
        recorder.start()?;
        Ok(Self {
            recorder,
            directory,
        })
    }

    /// The child records itself: what was seen from outside is not needed.
    fn forget(self) {
        self.recorder.stop(SessionStatus::Completed);
        let _ = fs::remove_dir_all(&self.directory);
    }

    fn finish(self, fine: bool) {
        self.recorder.stop(if fine {
            SessionStatus::Completed
        } else {
            SessionStatus::Interrupted
        });
    }
}

/// Sinks below a root, the root itself included.
fn sinks(root: &Path) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("manifest.json").is_file())
        .collect();
    directories.sort();
    if root.join("manifest.json").is_file() {
        directories.insert(0, root.to_path_buf());
    }
    directories
}

/// A process that was killed could not close its session; opening its sink marks it as
/// interrupted. A sink that a process still writes to is left alone.
fn close_what_was_left_open(root: &Path) {
    for directory in sinks(root) {
        let open = load_sessions(&directory, &LoadOptions::default()).is_ok_and(|loaded| {
            let mut sessions = loaded.sessions.iter();
            sessions.any(|session| session.summary.status == SessionStatus::Running)
        });
        if open && is_free(&directory) {
            drop(Sink::open(SinkConfig::new(&directory)));
        }
    }
}

fn is_free(directory: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(directory, flags, Mode::empty())
        .and_then(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive))
        .is_ok()
}

fn oom_kills() -> u64 {
    let group = MemoryGroup::of_process(&Roots::default(), None);
    group.and_then(|group| group.oom_kills()).unwrap_or(0)
}

/// One line per session on the error stream: the output belongs to the program.
fn tell(
    root: &Path,
    status: std::process::ExitStatus,
    killed_for_memory: bool,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    if !status.success() {
        let why = if killed_for_memory {
            ": the kernel ran out of memory in this container"
        } else {
            ""
        };
        writeln!(console.err, "stormlog: {}{why}", child::describe(status))?;
    }
    let mut told = false;
    for directory in sinks(root) {
        let Ok(loaded) = load_sessions(&directory, &LoadOptions::default()) else {
            continue;
        };
        for session in &loaded.sessions {
            told = true;
            let summary = &session.summary;
            let from = if summary.source == "stormlog.run.outside" {
                ", sampled from outside (no Python in it could import stormlog)"
            } else {
                ""
            };
            writeln!(
                console.err,
                "stormlog: {} events, {}{from}, in '{}'",
                session.events.len(),
                summary.status.as_str(),
                directory.display()
            )?;
        }
    }
    if !told {
        writeln!(
            console.err,
            "stormlog: nothing was recorded in '{}'",
            root.display()
        )?;
    }
    Ok(())
}

fn stamp() -> String {
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    format!("{now}-{}", std::process::id())
}
