//! Records a command while it runs, and reports how it ended.
//!
//! The `stormlog` process reads the host memory of all processes of the command from outside.
//! Device memory is recorded inside each Python process by Stormlog's hook, whose directory is put
//! at the front of `PYTHONPATH`. All steps that can fail are tried before the command starts;
//! afterwards the command keeps running even if the recording fails.

mod devices;
mod host;
mod identity;
mod inbox;
mod inject;
mod inspect;
mod last_words;

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use stormlog_analysis::{read_manifest, sinks_of_run};
use stormlog_capture::collect::cgroup::{MemoryGroup, Roots};
use stormlog_capture::launcher::resolve_or_alone;
use stormlog_capture::store::publish;
use stormlog_format::{DistributedIdentity, Map, SessionStatus, SinkNames, Value, session_sources};

use crate::address_space::share_one_pool;
use crate::child;
use crate::recording::environment;
use crate::signals::{Signals, asks_to_end};
use devices::OutsideDevices;
use host::HostRecording;
pub(crate) use inbox::Exception;
use inbox::Inbox;
pub(crate) use last_words::tell_recorder;

/// The environment variable with which the user turns off all recording, by the value `1`.
const DISABLE: &str = "STORMLOG_DISABLE";

/// How the recorded command ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) pid: u32,
    pub(crate) status: ExitStatus,
    /// The signal that requested the end of `stormlog` and was passed on to the command.
    pub(crate) signal: Option<i32>,
    /// The number of processes that the kernel killed for lack of memory while the command ran.
    pub(crate) oom_kills: u64,
    /// The Python exception that ended the command. If the command is a launcher that failed
    /// because of a process that it started, the exception is that of this process.
    pub(crate) exception: Option<Exception>,
    /// The id of the recorded run; `None` if the command was not recorded.
    pub(crate) run_id: Option<String>,
}

impl Ended {
    /// Describes how the command ended and, if known, why.
    pub(crate) fn describe(&self) -> String {
        let why = self.why().unwrap_or_default();
        format!("{}{why}", child::describe(self.status))
    }

    /// The end of a sentence that explains that the kernel killed the command, or a process that it
    /// started, for lack of memory; `None` if the command ended for another reason.
    pub(crate) fn why(&self) -> Option<&'static str> {
        self.lost_to_the_kernel()
            .then_some(": out of memory in this container")
    }

    /// Whether a kill by the kernel's OOM killer explains how the command ended. If the command
    /// succeeded or ended by a signal other than SIGKILL, the kernel killed another process of the
    /// control group, which does not explain the end of the command.
    pub(crate) fn lost_to_the_kernel(&self) -> bool {
        let fits = match self.status.signal() {
            Some(_) => self.was_killed(),
            None => !self.status.success(),
        };
        self.oom_kills > 0 && fits
    }

    /// Whether the command was ended by SIGKILL, the signal that the kernel's OOM killer uses.
    pub(crate) fn was_killed(&self) -> bool {
        self.status.signal() == Some(signal_hook::consts::SIGKILL)
    }

    /// The status of a session that was recorded from outside the command until it ended.
    fn session_status(&self) -> SessionStatus {
        if self.status.success() {
            SessionStatus::Completed
        } else {
            SessionStatus::Interrupted
        }
    }

    /// How the command ended, as an object for the last event of a run.
    fn to_map(&self) -> Map {
        let kind = if self.lost_to_the_kernel() {
            "kernel_oom_kill"
        } else if self.status.signal().is_some() {
            "signal"
        } else {
            "exit"
        };
        let mut map = Map::new();
        map.insert("kind", kind);
        map.insert("code", self.status.code().map(i64::from));
        map.insert("signal", self.status.signal().map(i64::from));
        map.insert("text", &*self.describe());
        if let Some(exception) = &self.exception {
            map.insert("exception", Value::Map(exception.to_map()));
        }
        map
    }
}

/// The command that `stormlog` runs, and where and how often it is recorded.
pub(crate) struct Plan<'a> {
    /// The directory of the recording, which is created if it does not exist.
    pub(crate) root: &'a Path,
    pub(crate) command: &'a [OsString],
    /// The name that the user gave the run.
    pub(crate) name: Option<&'a str>,
    pub(crate) interval: Duration,
    /// Additional environment variables for the command.
    pub(crate) variables: &'a [(&'static str, OsString)],
}

/// Whether the user turned off recording with `STORMLOG_DISABLE=1`.
pub(crate) fn is_disabled() -> bool {
    std::env::var_os(DISABLE).is_some_and(|value| value == "1")
}

/// Runs a command to its end and records it. `warn` is called with the reason for everything that
/// cannot be recorded; the command runs in any case.
pub(crate) fn run(plan: &Plan<'_>, warn: &mut dyn FnMut(&str)) -> anyhow::Result<Ended> {
    share_one_pool();
    let mut signals = Signals::to_forward()?;
    let existed = plan.root.exists();
    let prepared = if is_disabled() {
        None
    } else {
        let prepared = Prepared::new(plan, warn);
        prepared
            .map_err(|error| warn(&format!("the program runs without recording: {error:#}")))
            .ok()
    };
    let hooks = prepared.as_ref().map(|prepared| &prepared.variables[..]);
    let variables = [hooks.unwrap_or_default(), plan.variables].concat();
    let kills = OomKills::count();
    let spawned = child::spawn(plan.command, &variables, &mut signals);
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            drop(prepared);
            if !existed {
                // The command could not be started, so the new directory of the recording is
                // removed again; `remove_dir` keeps a directory that is not empty.
                let _ = fs::remove_dir(plan.root);
            }
            return Err(error);
        }
    };
    let run_id = prepared.as_ref().map(|prepared| prepared.run_id.clone());
    let recording = prepared.map(|prepared| prepared.start(plan, child.id(), warn));
    let mut signal = None;
    let status = child::wait(&mut child, &signals, |forwarded| {
        signal = signal.or(forwarded.filter(|signal| asks_to_end(*signal)));
    })?;
    let mut ended = Ended {
        pid: child.id(),
        status,
        signal,
        oom_kills: kills.since(),
        exception: None,
        run_id,
    };
    if let Some(recording) = recording {
        recording.finish(plan.root, &mut ended, warn);
    }
    Ok(ended)
}

/// All parts of a recording that can fail, prepared before the command starts.
struct Prepared {
    run_id: String,
    run: Map,
    identity: DistributedIdentity,
    inbox: Inbox,
    variables: Vec<(&'static str, OsString)>,
    /// The ids of sessions in the directory of the recording that were already open before the
    /// command started, so that they are not closed as sessions of this command.
    earlier: std::collections::HashSet<stormlog_format::Text>,
}

impl Prepared {
    fn new(plan: &Plan<'_>, warn: &mut dyn FnMut(&str)) -> anyhow::Result<Self> {
        let root = plan.root;
        fs::create_dir_all(root)
            .map_err(|error| anyhow::anyhow!("cannot create '{}': {error}", root.display()))?;
        let (identity, invalid) = resolve_or_alone(&environment());
        if let Some(error) = invalid {
            warn(&format!(
                "invalid launcher variables ({error}); recording as rank 0"
            ));
        }
        let id = identity::run_id(root, &identity);
        let inbox = Inbox::create(root, &id, identity.rank)?;
        let mut variables = vec![
            ("STORMLOG_RUN_ROOT", root.into()),
            ("STORMLOG_RUN_INBOX", inbox.directory().into()),
            (identity::RUN_ID, id.clone().into()),
            (
                "STORMLOG_RUN_INTERVAL",
                plan.interval.as_secs_f64().to_string().into(),
            ),
        ];
        match inject::python_path() {
            Ok(path) => variables.push(("PYTHONPATH", path)),
            Err(error) => warn(&format!(
                "the program is recorded only from outside: {error:#}"
            )),
        }
        Ok(Self {
            run: identity::describe(&id, plan, &identity),
            run_id: id,
            identity,
            inbox,
            variables,
            earlier: last_words::open_sessions(root),
        })
    }

    /// Starts to record a running command, and warns about everything that cannot be recorded.
    fn start(self, plan: &Plan<'_>, pid: u32, warn: &mut dyn FnMut(&str)) -> Recording {
        let mut start = Map::new();
        start.insert("run", Value::Map(self.run));
        let host = HostRecording::start(plan, pid, &self.identity, self.inbox.directory(), start);
        let host = host
            .map_err(|error| warn(&format!("host memory is not recorded: {error}")))
            .ok();
        let records_inside = self.inbox.directory().to_path_buf();
        let devices =
            OutsideDevices::watch(plan, pid, &self.identity, &self.run_id, records_inside);
        let devices = devices
            .map_err(|error| warn(&format!("cannot check which GPUs are used: {error}")))
            .ok();
        Recording {
            host,
            devices,
            inbox: self.inbox,
            earlier: self.earlier,
        }
    }
}

/// What records a command while it runs: the recorders of host memory and of GPUs, and the inbox.
struct Recording {
    host: Option<HostRecording>,
    devices: Option<OutsideDevices>,
    inbox: Inbox,
    earlier: std::collections::HashSet<stormlog_format::Text>,
}

impl Recording {
    fn finish(self, root: &Path, ended: &mut Ended, warn: &mut dyn FnMut(&str)) {
        let exceptions = self.inbox.exceptions();
        ended.exception = cause(&exceptions, ended).cloned();
        if let Some(devices) = self.devices {
            devices.finish(ended);
        }
        if let Some(host) = self.host {
            host.finish(root, ended, &exceptions, self.inbox.reached_python(), warn);
        }
        last_words::close_what_was_left_open(root, ended, &self.earlier);
        publish_when_alone(root);
    }
}

/// The exception that ended a command. A launcher may fail because processes that it started have
/// failed; then the cause is the earliest exception of those processes.
fn cause<'a>(exceptions: &'a [Exception], ended: &Ended) -> Option<&'a Exception> {
    let of_command = exceptions.iter().find(|one| one.pid == ended.pid);
    if let Some(exception) = of_command.filter(|exception| !exception.is_of_child()) {
        return Some(exception);
    }
    let mut others = exceptions.iter().filter(|one| !one.is_of_child());
    let first = others.next().filter(|_| !ended.status.success());
    first.or(of_command)
}

/// Renames the files of the host sink to the ordinary names of a sink if the run used no device, so
/// that stormlog 0.3.9 finds the sink too. If the run used a device, the files keep their names,
/// because stormlog 0.3.9 would take the host memory for memory of the device.
fn publish_when_alone(root: &Path) {
    let sinks = sinks_of_run(root);
    let has_device = sinks.iter().any(|(directory, names)| {
        let manifest = read_manifest(&directory.join(names.manifest()));
        let mut sessions = manifest.into_iter().flat_map(|manifest| manifest.sessions);
        // The sessions are checked and not the file names, because a sink with the ordinary names
        // may contain the host memory of an earlier run.
        sessions.any(|session| session.source != session_sources::RUN_HOST)
    });
    for (directory, names) in sinks {
        if !has_device && names == SinkNames::Host {
            // Renaming a sink fails while another rank still writes to it, so the error is ignored;
            // the rank that ends last renames the sink.
            let _ = publish(&directory);
        }
    }
}

/// A path in a directory at which no file exists yet: `name`, or `name` with a number. Existing
/// files belong to an earlier or concurrent run and must not be overwritten.
fn free_name(root: &Path, name: &str) -> PathBuf {
    let others = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(others);
    let free = names.find(|name| fs::symlink_metadata(root.join(name)).is_err());
    root.join(free.unwrap_or_else(|| name.to_owned()))
}

/// How many processes of this control group the kernel has killed for lack of memory.
pub(crate) struct OomKills(u64);

impl OomKills {
    /// Reads how many processes of this control group the kernel has killed so far.
    pub(crate) fn count() -> Self {
        let group = MemoryGroup::of_process(&Roots::default(), None);
        Self(group.and_then(|group| group.oom_kills()).unwrap_or(0))
    }

    /// How many processes of this control group the kernel has killed since this count was taken.
    pub(crate) fn since(&self) -> u64 {
        Self::count().0.saturating_sub(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exception(pid: u32, class: &str, time_ns: i64) -> Exception {
        Exception {
            time_ns,
            pid,
            class: class.into(),
            ..Exception::default()
        }
    }

    #[test]
    fn a_launcher_fails_for_the_reason_of_its_first_child() {
        let ended = |code: i32| Ended {
            pid: 1,
            status: ExitStatus::from_raw(code << 8),
            signal: None,
            oom_kills: 0,
            exception: None,
            run_id: None,
        };
        let found = |exceptions: &[Exception], code: i32| {
            cause(exceptions, &ended(code)).map(|one| one.class.clone())
        };
        let child = exception(7, "ValueError", 1);
        let launcher = exception(1, "ChildFailedError", 2);
        let both = [child.clone(), launcher.clone()];
        assert_eq!(found(&both, 1).as_deref(), Some("ValueError"));
        assert_eq!(found(&[launcher], 1).as_deref(), Some("ChildFailedError"));
        // An exception of a child process is not the cause if the program failed with an exception
        // of its own.
        let own = [child.clone(), exception(1, "KeyError", 2)];
        assert_eq!(found(&own, 1).as_deref(), Some("KeyError"));
        // A program that succeeded was not ended by an exception.
        assert_eq!(found(&[child], 0), None);
    }
}
