//! A command that records itself while it runs, and what became of it.
//!
//! The child's interpreter finds a `sitecustomize` of ours in front of its path. If it cannot
//! import the package, the child is sampled from outside instead.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use stormlog_capture::collect::cgroup::{MemoryGroup, Roots};
use stormlog_capture::collect::nvml::Share;
use stormlog_capture::record::Recorder;
use stormlog_capture::store::SinkConfig;
use stormlog_format::SessionStatus;

use crate::child;
use crate::last_words;
use crate::recording::{Capture, IdentityArguments, gpu_collectors, tree_collector};
use crate::signals::EndSignals;

/// What the child's interpreter runs before the program.
const HOOK: &str = include_str!("cli/run/sitecustomize.py");

/// The source of a session that was recorded from outside.
pub(crate) const OUTSIDE: &str = "stormlog.run.outside";

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) pid: u32,
    pub(crate) status: ExitStatus,
    /// The signal that asked us, and through us the command, to end.
    pub(crate) signal: Option<i32>,
    /// Processes that the kernel killed for want of memory meanwhile.
    pub(crate) oom_kills: u64,
}

impl Ended {
    /// What became of the command and, where that is known, why.
    pub(crate) fn describe(&self) -> String {
        let why = self.why().unwrap_or_default();
        format!("{}{why}", child::describe(self.status))
    }

    /// Why it, or something that it started, was killed.
    pub(crate) fn why(&self) -> Option<&'static str> {
        self.lost_to_the_kernel()
            .then_some(": the kernel ran out of memory in this container")
    }

    /// Whether a kill by the kernel fits this end. One of the group that hit somebody else does
    /// not: this ended as it should, or by another signal.
    pub(crate) fn lost_to_the_kernel(&self) -> bool {
        let fits = match self.status.signal() {
            Some(_) => self.was_killed(),
            None => !self.status.success(),
        };
        self.oom_kills > 0 && fits
    }

    /// Whether the command was ended the way that the kernel does it.
    pub(crate) fn was_killed(&self) -> bool {
        self.status.signal() == Some(signal_hook::consts::SIGKILL)
    }
}

/// Runs a command that records into a directory, from inside where that is possible.
pub(crate) fn run(
    root: &Path,
    command: &[OsString],
    interval: Duration,
    variables: &[(&'static str, OsString)],
) -> anyhow::Result<Ended> {
    let signals = EndSignals::watch()?;
    let mut hook = Hook::put(root, interval)?;
    hook.variables.extend_from_slice(variables);
    let kills = OomKills::count();
    let earlier = last_words::open_sessions(root);
    let mut child = child::spawn(command, &hook.variables)?;
    let mut outside = Some(Outside::start(root, child.id(), interval)?);
    let mut recorded_inside = false;
    let mut signal = None;
    let status = child::wait(&mut child, &signals, |passed_on| {
        signal = signal.or(passed_on);
        if !recorded_inside && hook.was_used() {
            recorded_inside = true;
            outside.take().into_iter().for_each(Outside::forget);
        }
    })?;
    let ended = Ended {
        pid: child.id(),
        status,
        signal,
        oom_kills: kills.since(),
    };
    if let Some(outside) = outside.take() {
        if hook.was_used() {
            outside.forget();
        } else {
            outside.finish(&ended);
        }
    }
    last_words::close_what_was_left_open(root, &ended, &earlier);
    Ok(ended)
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
}

impl Outside {
    fn start(root: &Path, pid: u32, interval: Duration) -> anyhow::Result<Self> {
        let mut collectors = vec![tree_collector(pid)];
        collectors.extend(gpu_collectors(&[], Share::Tree(pid)).unwrap_or_default());
        let capture = Capture {
            collectors,
            interval,
            identity: IdentityArguments::default().resolve()?,
            session_source: OUTSIDE,
            pid,
            sink: Some(SinkConfig::new(free_name(root, "outside"))),
        };
        let recorder = capture.recorder();
        recorder.start()?;
        Ok(Self { recorder })
    }

    /// The child records itself: what was seen from outside is not needed.
    fn forget(self) {
        self.recorder.stop(SessionStatus::Completed);
        // Not always the one that was asked for: another process may have been faster.
        if let Some(directory) = self.recorder.sink_directory() {
            let _ = fs::remove_dir_all(directory);
        }
    }

    fn finish(self, ended: &Ended) {
        last_words::tell_recorder(&self.recorder, ended);
        self.recorder.stop(if ended.status.success() {
            SessionStatus::Completed
        } else {
            SessionStatus::Interrupted
        });
    }
}

/// A name in a directory that nothing has yet: what lies under another is of an earlier run, or
/// of one beside us, and not ours to take away.
fn free_name(root: &Path, name: &str) -> PathBuf {
    let others = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(others);
    let free = names.find(|name| fs::symlink_metadata(root.join(name)).is_err());
    root.join(free.unwrap_or_else(|| name.to_owned()))
}

/// Sinks below a root, the root itself included.
pub(crate) fn sinks(root: &Path) -> Vec<PathBuf> {
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

/// How many processes of our control group the kernel has killed for want of memory.
pub(crate) struct OomKills(u64);

impl OomKills {
    /// Those until now.
    pub(crate) fn count() -> Self {
        let group = MemoryGroup::of_process(&Roots::default(), None);
        Self(group.and_then(|group| group.oom_kills()).unwrap_or(0))
    }

    /// Those since then.
    pub(crate) fn since(&self) -> u64 {
        Self::count().0.saturating_sub(self.0)
    }
}
