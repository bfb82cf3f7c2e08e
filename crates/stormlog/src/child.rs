//! Runs the recorded program as a child process, passes signals on to it, and reports its exit
//! code.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGWINCH};

use crate::Exit;
use crate::failure::hinted;
use crate::signals::{Signals, signal_of};

/// How often signals are checked while the child runs. The end of the child process is noticed at
/// once, without waiting for this check.
const LOOK: Duration = Duration::from_millis(50);

/// How often signals and the child are checked when the kernel has no pidfd to report the child's
/// end.
const LOOK_WITHOUT_PIDFD: Duration = Duration::from_millis(10);

/// The first word of a command could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot run '{program}': {reason}")]
pub(crate) struct CannotRun {
    program: String,
    reason: String,
}

/// Starts a command with the environment variables of this process and those in `variables`. The
/// command inherits the signals that this process ignores: it ignores them too when it starts.
/// After the command has started, this process catches the signals that it ignored before (with
/// `signals`), so that they can be passed on to the command.
pub(crate) fn spawn(
    command: &[OsString],
    variables: &[(&str, OsString)],
    signals: &mut Signals,
) -> anyhow::Result<Child> {
    let Some((program, arguments)) = command.split_first() else {
        anyhow::bail!("no command given");
    };
    let mut process = Command::new(program);
    process.args(arguments);
    process.envs(variables.iter().map(|(name, value)| (name, value)));
    let child = process.spawn().map_err(|error| {
        let reason = error.to_string();
        let program = program.to_string_lossy().into_owned();
        let hint = "check that the program exists and is executable";
        hinted(CannotRun { program, reason }, hint)
    })?;
    signals.include_ignored();
    Ok(child)
}

/// Waits for the end of a child. Signals that this process receives are passed on to the child,
/// unless the terminal has already sent them to both processes. `look` is called with each signal
/// that arrived, and with `None` each time that no signal has arrived since the last check.
pub(crate) fn wait(
    child: &mut Child,
    signals: &Signals,
    mut look: impl FnMut(Option<i32>),
) -> anyhow::Result<ExitStatus> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pidfd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let signal = signals.take();
        if let (Some(signal), Some(pid)) = (signal, pid)
            && !(comes_from_terminal(signal) && shares_the_terminal())
            && let Some(signal) = signal_of(signal)
        {
            // An error of `kill` is ignored, because it means that the child has already ended.
            let _ = kill_process(pid, signal);
        }
        look(signal);
        if signal.is_some() {
            continue;
        }
        match &pidfd {
            Some(pidfd) => {
                let mut waited = [PollFd::new(pidfd, PollFlags::IN)];
                let timeout = Timespec::try_from(LOOK).ok();
                // A signal ends the wait for the child early, which is harmless because the loop
                // checks the child again.
                let _ = poll(&mut waited, timeout.as_ref());
            }
            None => std::thread::sleep(LOOK_WITHOUT_PIDFD),
        }
    }
}

/// Whether a terminal sends this signal to every process of its foreground group, as it sends
/// SIGINT after Ctrl+C.
fn comes_from_terminal(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGQUIT | SIGWINCH)
}

/// Whether the child gets Ctrl+C directly from the terminal, because this process is in the
/// foreground group of the terminal.
fn shares_the_terminal() -> bool {
    rustix::termios::tcgetpgrp(std::io::stdin())
        .is_ok_and(|group| group == rustix::process::getpgrp())
}

/// The exit code that reports the end of a child process: its exit code, or 128 plus the number of
/// the signal that killed it, as in shells.
pub(crate) fn exit_of(status: ExitStatus) -> Exit {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    Exit::Child(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Describes how a child process ended: `exit code 1` or `killed by signal 9 (SIGKILL)`.
pub(crate) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => {
            let name = signal_hook::low_level::signal_name(signal).unwrap_or("unknown");
            format!("killed by signal {signal} ({name})")
        }
        (None, None) => "ended".to_owned(),
    }
}
