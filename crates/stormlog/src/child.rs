//! A program that is run under watch: its end and its signals are passed on as they are.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::Exit;
use crate::failure::hinted;
use crate::signals::EndSignals;

/// How often the child and the signals are looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Starts a command with the variables of this process and the given ones.
pub(crate) fn spawn(command: &[OsString], variables: &[(&str, OsString)]) -> anyhow::Result<Child> {
    let Some((program, arguments)) = command.split_first() else {
        anyhow::bail!("no command given");
    };
    let mut process = Command::new(program);
    process.args(arguments);
    process.envs(variables.iter().map(|(name, value)| (name, value)));
    process.spawn().map_err(|error| {
        let name = program.to_string_lossy();
        let message = anyhow::anyhow!("cannot run '{name}': {error}");
        hinted(message, "put the command and its arguments after '--'")
    })
}

/// Waits for the end of a child. Signals that ask us to end are passed on to it, unless the
/// terminal has sent them to both. `look` is called all the time, with a signal that came.
pub(crate) fn wait(
    child: &mut Child,
    signals: &EndSignals,
    mut look: impl FnMut(Option<i32>),
) -> anyhow::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let signal = signals.take();
        if let Some(signal) = signal
            && !(signal == signal_hook::consts::SIGINT && shares_the_terminal())
        {
            pass_on(child, signal);
        }
        look(signal);
        std::thread::sleep(LOOK);
    }
}

fn pass_on(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        // A child that is gone already needs no signal.
        let _ = kill_process(pid, signal);
    }
}

/// Whether Ctrl+C goes to the child without our help: we are in front of a terminal.
fn shares_the_terminal() -> bool {
    rustix::termios::tcgetpgrp(std::io::stdin())
        .is_ok_and(|group| group == rustix::process::getpgrp())
}

/// The exit of a child as our own: its code, or 128 and its signal as shells say it.
pub(crate) fn exit_of(status: ExitStatus) -> Exit {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    Exit::Child(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// What became of a child, for people.
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
