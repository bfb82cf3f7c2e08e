//! The memory limit of a process: the limit of its control group, or else the machine's memory.
//!
//! A container is killed when it reaches its limit, not when the machine is full, so the limit is
//! recorded as the total memory of its processes.

use std::fs;
use std::path::{Path, PathBuf};

/// A control group of version 1 without a limit reports a limit at or above this number of bytes.
const UNLIMITED: u64 = 1 << 60;

/// The directories of the kernel's files: `/proc` for processes and `/sys` for control groups.
/// Tests use other directories.
#[derive(Clone, Debug)]
pub struct Roots {
    /// `/proc`
    pub proc: PathBuf,
    /// `/sys`
    pub sys: PathBuf,
}

impl Roots {
    /// The directory of the kernel's files of a process; `None` stands for this process.
    pub(super) fn process(&self, pid: Option<u32>) -> PathBuf {
        let name = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        self.proc.join(name)
    }
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            sys: "/sys".into(),
        }
    }
}

/// How much memory a process may use, and how much of that memory is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// The limit of the control group, or the memory of the machine where no limit applies.
    pub total: Option<u64>,
    /// Bytes left before the limit is reached; cache that the kernel can reclaim counts as free.
    pub free: Option<u64>,
}

/// The control group whose limit applies to a process, and its version.
#[derive(Clone, Debug)]
pub struct MemoryGroup {
    directory: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug)]
enum Version {
    One,
    Two,
}

impl MemoryGroup {
    /// Finds the control group with the lowest limit among the process's own group and the groups
    /// above it.
    pub fn of_process(roots: &Roots, pid: Option<u32>) -> Option<Self> {
        let membership = fs::read_to_string(roots.process(pid).join("cgroup")).ok()?;
        let mounts = roots.sys.join("fs/cgroup");
        let mut candidates = Vec::new();
        for line in membership.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if controllers.split(',').any(|name| name == "memory") {
                candidates.push((mounts.join("memory"), path.to_owned(), Version::One));
            } else if controllers.is_empty() {
                candidates.push((mounts.clone(), path.to_owned(), Version::Two));
                candidates.push((mounts.join("unified"), path.to_owned(), Version::Two));
            }
        }
        let groups = candidates
            .iter()
            .flat_map(|(mount, path, version)| groups_above(mount, path, *version));
        // The kernel kills a process at the lowest limit among its control group and the groups
        // above it, so the group with the lowest limit is chosen.
        groups
            .filter_map(|group| Some((group.limit()?, group)))
            .min_by_key(|(limit, _)| *limit)
            .map(|(_, group)| group)
    }

    /// The memory limit of the control group in bytes, if it has one.
    pub fn limit(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        };
        let limit = self.number(file)?;
        (limit > 0 && limit < UNLIMITED).then_some(limit)
    }

    fn number(&self, file: &str) -> Option<u64> {
        let text = fs::read_to_string(self.directory.join(file)).ok()?;
        text.trim().parse().ok()
    }

    /// How many bytes of the control group's memory the kernel cannot reclaim.
    fn taken(&self) -> Option<u64> {
        let (usage, cache) = match self.version {
            Version::One => ("memory.usage_in_bytes", "total_inactive_file"),
            Version::Two => ("memory.current", "inactive_file"),
        };
        let usage = self.number(usage)?;
        let stat = fs::read_to_string(self.directory.join("memory.stat")).unwrap_or_default();
        let cache = stat
            .lines()
            .find_map(|line| line.strip_prefix(cache)?.trim().parse::<u64>().ok())
            .unwrap_or(0);
        Some(usage.saturating_sub(cache))
    }

    /// How often the kernel's OOM killer has ended a process of the control group.
    pub fn oom_kills(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.directory.join(file)).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }
}

fn groups_above(mount: &Path, path: &str, version: Version) -> Vec<MemoryGroup> {
    let relative = Path::new(path.trim_start_matches('/'));
    // Inside a container, the path of a control group may be its path on the host, which does not
    // exist in the container. Then only the control group of the directory `mount`, where control
    // groups are mounted, is returned.
    relative
        .ancestors()
        .filter(|ancestor| ancestor.components().all(is_plain))
        .map(|ancestor| MemoryGroup {
            directory: mount.join(ancestor),
            version,
        })
        .filter(|group| group.directory.is_dir())
        .collect()
}

fn is_plain(component: std::path::Component<'_>) -> bool {
    matches!(component, std::path::Component::Normal(_))
}

/// How much memory a process may use and how much of it is free. The limit of the control group
/// counts only if it is below the machine's total memory. Then the free memory is the smaller of
/// two numbers: the bytes left below the limit, and the free bytes of the machine.
pub fn room(roots: &Roots, group: Option<&MemoryGroup>) -> Room {
    let machine = machine_room(roots);
    let limited = group.and_then(|group| {
        let limit = group.limit()?;
        let free = group.taken().map(|taken| limit.saturating_sub(taken));
        Some(Room {
            total: Some(limit),
            free,
        })
    });
    match limited {
        Some(group) if machine.total.is_none_or(|total| group.total < Some(total)) => Room {
            total: group.total,
            free: match (group.free, machine.free) {
                (Some(group), Some(machine)) => Some(group.min(machine)),
                (known, _) => known,
            },
        },
        _ => machine,
    }
}

/// Total and available memory of the whole machine, without regard to control groups.
pub fn machine_room(roots: &Roots) -> Room {
    let text = fs::read_to_string(roots.proc.join("meminfo")).unwrap_or_default();
    Room {
        total: kilobytes(&text, "MemTotal:"),
        free: kilobytes(&text, "MemAvailable:"),
    }
}

/// Reads a line such as `MemTotal: 100 kB` and returns the number of bytes.
pub(crate) fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number = rest.split_whitespace().next()?;
    number.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn machine() -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: folder.path().join("proc"),
            sys: folder.path().join("sys"),
        };
        write(
            &roots.proc,
            "meminfo",
            "MemTotal: 1000 kB\nMemAvailable: 400 kB\n",
        );
        (folder, roots)
    }

    #[test]
    fn without_a_limit_the_machine_is_the_total() {
        let (_folder, roots) = machine();
        write(&roots.proc, "self/cgroup", "0::/\n");
        write(&roots.sys, "fs/cgroup/memory.max", "max\n");
        assert!(MemoryGroup::of_process(&roots, None).is_none());
        let room = room(&roots, None);
        assert_eq!((room.total, room.free), (Some(1_024_000), Some(409_600)));
    }

    #[test]
    fn the_tightest_limit_on_the_way_up_counts() {
        let (_folder, roots) = machine();
        write(&roots.proc, "self/cgroup", "0::/pod/main\n");
        write(&roots.sys, "fs/cgroup/pod/memory.max", "500000\n");
        write(&roots.sys, "fs/cgroup/pod/memory.current", "300000\n");
        write(
            &roots.sys,
            "fs/cgroup/pod/memory.stat",
            "anon 1\ninactive_file 100000\n",
        );
        write(&roots.sys, "fs/cgroup/pod/main/memory.max", "900000\n");
        let group = MemoryGroup::of_process(&roots, None).unwrap();
        let room = room(&roots, Some(&group));
        assert_eq!((room.total, room.free), (Some(500_000), Some(300_000)));
    }

    #[test]
    fn version_one_limits_are_found_inside_a_container() {
        let (_folder, roots) = machine();
        write(&roots.proc, "self/cgroup", "4:memory:/docker/abc\n0::/\n");
        write(
            &roots.sys,
            "fs/cgroup/memory/memory.limit_in_bytes",
            "600000\n",
        );
        write(
            &roots.sys,
            "fs/cgroup/memory/memory.usage_in_bytes",
            "100000\n",
        );
        let group = MemoryGroup::of_process(&roots, None).unwrap();
        assert_eq!(room(&roots, Some(&group)).total, Some(600_000));
        write(
            &roots.sys,
            "fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        assert!(MemoryGroup::of_process(&roots, None).is_none());
    }

    #[test]
    fn a_limit_above_the_machine_does_not_count() {
        let (_folder, roots) = machine();
        write(&roots.proc, "self/cgroup", "0::/\n");
        write(&roots.sys, "fs/cgroup/memory.max", "99999999\n");
        let group = MemoryGroup::of_process(&roots, None).unwrap();
        assert_eq!(room(&roots, Some(&group)).total, Some(1_024_000));
    }
}
