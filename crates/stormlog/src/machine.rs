//! Facts about this machine: the time, the host name and the processes. Queries need them to
//! find out whether a recorded process still runs.

use stormlog_analysis::LoadedSession;
use stormlog_analysis::query::{self, Process, Surroundings};
pub(crate) use stormlog_capture::clock::now_ns;
use stormlog_capture::process::{Looked, look, own_identity};
use stormlog_format::ProcessIdentity;

/// Calls a function with the facts about this machine: the time, the host name, and a way to look
/// up processes by their ids.
pub fn on_this_machine<R>(ask: impl FnOnce(&Surroundings<'_>) -> R) -> R {
    let name = rustix::system::uname();
    ask(&Surroundings {
        now_ns: now_ns(),
        host: &name.nodename().to_string_lossy(),
        reader: own_identity(),
        process: &process,
    })
}

fn process(pid: i64) -> Process {
    match look(pid) {
        Looked::Gone => Process::Gone,
        Looked::Unknown => Process::Unknown,
        Looked::Found(identity) => Process::Alive {
            started_ns: started_ns(&identity),
            identity: Some(identity),
        },
    }
}

/// The start time of a process in nanoseconds since the Unix epoch; `None` if it is unknown.
fn started_ns(identity: &ProcessIdentity) -> Option<i64> {
    let system = std::fs::read_to_string("/proc/stat").ok()?;
    let boot = system
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    let boot: i64 = boot.trim().parse().ok()?;
    let per_second = i64::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    let since_boot = identity
        .start_ticks
        .saturating_mul(1_000_000_000 / per_second);
    Some(
        boot.saturating_mul(1_000_000_000)
            .saturating_add(since_boot),
    )
}

/// Sets the status of open sessions to interrupted if their process has ended, so that only a
/// running job is reported as running.
pub(crate) fn settle_statuses<'a>(sessions: impl IntoIterator<Item = &'a mut LoadedSession>) {
    on_this_machine(|here| query::settle_statuses(sessions, here));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_started_before_now() {
        let own = i64::from(std::process::id());
        let Process::Alive { started_ns, .. } = process(own) else {
            panic!("this process runs");
        };
        assert!(started_ns.is_none_or(|started| started <= now_ns()));
        assert_eq!(process(i64::from(i32::MAX)), Process::Gone);
    }
}
