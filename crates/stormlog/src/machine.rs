//! What questions need to know of this machine: the time, its name, its processes.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, test_kill_process};
use stormlog_analysis::query::{Process, Surroundings};

/// Answers a question that needs to know of this machine.
pub fn on_this_machine<R>(ask: impl FnOnce(&Surroundings<'_>) -> R) -> R {
    let name = rustix::system::uname();
    ask(&Surroundings {
        now_ns: now_ns(),
        host: &name.nodename().to_string_lossy(),
        process: &process,
    })
}

/// The time.
pub(crate) fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.ok()
        .and_then(|now| i64::try_from(now.as_nanos()).ok())
        .unwrap_or(0)
}

fn process(pid: i64) -> Process {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Process::Unknown;
    };
    match test_kill_process(pid) {
        Err(rustix::io::Errno::SRCH) => Process::Gone,
        _ => Process::Alive {
            started_ns: started_ns(pid),
        },
    }
}

/// When a process started, if known: a pid may have been reused.
fn started_ns(pid: Pid) -> Option<i64> {
    let read = |path: String| std::fs::read_to_string(path).ok();
    let stat = read(format!("/proc/{}/stat", pid.as_raw_nonzero()))?;
    // The name, the second field, is in parentheses and may hold anything.
    let after_name = stat.rsplit_once(')')?.1;
    let ticks: i64 = after_name.split_whitespace().nth(19)?.parse().ok()?;
    let system = read("/proc/stat".into())?;
    let boot = system
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    let boot: i64 = boot.trim().parse().ok()?;
    let per_second = i64::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    Some(boot * 1_000_000_000 + ticks.saturating_mul(1_000_000_000 / per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_started_before_now() {
        let own = i64::from(std::process::id());
        let Process::Alive { started_ns } = process(own) else {
            panic!("this process runs");
        };
        assert!(started_ns.is_none_or(|started| started <= now_ns()));
        assert_eq!(process(i64::from(i32::MAX)), Process::Gone);
    }
}
