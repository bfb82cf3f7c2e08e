//! Finds out through `/proc` whether a process runs, and identifies it by its pid, its start time,
//! its pid namespace and the machine's boot id.

use rustix::process::{Pid, test_kill_process};
use stormlog_format::{ProcessIdentity, Text};

/// The result of looking up a pid in the pid namespace of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// No process has the pid, or only a zombie has it: a process that has ended and that its
    /// parent has not waited for.
    Gone,
    /// A process has the pid and runs.
    Found(ProcessIdentity),
    /// The system does not reveal whether a process has the pid.
    Unknown,
}

/// Finds out whether a process with the pid runs, and which process it is.
pub fn look(pid: i64) -> Looked {
    if sees_own_ids()
        && let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat"))
    {
        return parsed(pid, &stat);
    }
    // The kernel may hide the files of other users' processes, so the existence of the process is
    // also tested with signal 0.
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    match number.map(test_kill_process) {
        Some(Err(rustix::io::Errno::SRCH)) => Looked::Gone,
        _ => Looked::Unknown,
    }
}

/// Whether `/proc` exists and shows the pid namespace of this process. After `unshare --pid`,
/// `/proc` may still show the processes of the outer namespace.
fn sees_own_ids() -> bool {
    let proc_self = std::fs::read_link("/proc/self").ok();
    proc_self.is_some_and(|link| link.to_str() == Some(&std::process::id().to_string()))
}

/// The identity of this process; `None` when `/proc` does not show it.
pub fn own_identity() -> Option<ProcessIdentity> {
    match look(i64::from(std::process::id())) {
        Looked::Found(identity) => Some(identity),
        Looked::Gone | Looked::Unknown => None,
    }
}

fn parsed(pid: i64, stat: &str) -> Looked {
    let identity = || {
        // In the kernel's file `stat`, the name of the program is in parentheses and may contain
        // any character.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
        // A process whose first thread has ended is shown as a zombie while its other threads
        // still run.
        let has_ended = matches!(*fields.first()?, "Z" | "X" | "x") && number(17)? <= 1;
        Some((has_ended, number(19)?))
    };
    let Some((has_ended, start_ticks)) = identity() else {
        return Looked::Unknown;
    };
    if has_ended {
        return Looked::Gone;
    }
    match machine() {
        Some((pid_namespace, boot_id)) => Looked::Found(ProcessIdentity {
            pid,
            start_ticks,
            pid_namespace,
            boot_id,
        }),
        None => Looked::Unknown,
    }
}

/// The number of the pid namespace of this process, and the boot id of the machine.
fn machine() -> Option<(i64, Text)> {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    // The text of the link `ns/pid` is, for example, "pid:[4026531836]".
    let namespace = namespace.to_str()?.split_once('[')?.1;
    let namespace = namespace.strip_suffix(']')?.parse().ok()?;
    Some((namespace, boot_id.trim().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_and_a_zombie_is_gone() {
        let own = own_identity().unwrap();
        assert_eq!(look(own.pid), Looked::Found(own));
        assert_eq!(look(i64::from(i32::MAX)), Looked::Gone);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i64::from(child.id());
        let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
        while look(pid) != Looked::Gone && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(look(pid), Looked::Gone, "not reaped yet");
        child.wait().unwrap();
    }

    #[test]
    fn a_first_thread_that_ended_is_not_the_end() {
        let stat = |state: &str, threads: u32| {
            format!("7 (a) b) {state} 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 4711 0 0")
        };
        assert_eq!(parsed(7, &stat("Z", 1)), Looked::Gone);
        for alive in [stat("Z", 3), stat("S", 1)] {
            assert!(matches!(parsed(7, &alive), Looked::Found(found) if found.start_ticks == 4711));
        }
        assert_eq!(parsed(7, "7 (x) S"), Looked::Unknown);
    }
}
