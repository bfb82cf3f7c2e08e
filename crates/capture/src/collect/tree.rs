//! Reads the host memory of a program and all its descendants, from outside.
//!
//! The level of a process tree is the memory that the kernel cannot reclaim: anonymous and shared
//! memory. Resident pages of files do not count in the level and are reported separately. A page
//! that several processes share counts once in the level of the process tree: each process counts
//! with its proportional share (`Pss_Anon` and `Pss_Shmem` in `smaps_rollup`) while that is cheap
//! to read. Otherwise a process counts without the anonymous memory that it inherited from its
//! parent in a fork.

mod process;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use stormlog_format::{EventType, Map, SampleNumber, Value, metadata_keys, signed};

use super::cgroup::{self, MemoryGroup, Room, Roots};
use super::process_tree::descendants;
use super::{CollectError, Collector, CounterSource, Notice, Reading};
use crate::clock::now_ns;
use process::Process;
pub use process::{Parts, Role};
use steps::StepFiles;

/// The command line of a process with secrets removed; `None` where the command is not known.
pub fn process_name(pid: u32) -> Option<String> {
    process::name_of_process(std::path::Path::new("/proc"), pid)
}

/// The time between two checks for changed limits, new processes and changed programs. Each check
/// for new processes reads the children of every thread, and a training process has hundreds of
/// threads.
const SLOW_PERIOD: Duration = Duration::from_millis(500);

/// How long after its start the collector looks for new processes at every reading, because most
/// processes start then.
const EAGER: Duration = Duration::from_secs(5);

/// The largest number of processes of a tree that are listed one by one; further processes count
/// only in the total.
const MOST_LISTED: usize = 64;

/// Reads the host memory of a process and all its descendants.
#[derive(Debug)]
pub struct TreeCollector {
    source: CounterSource,
    roots: Roots,
    root: u32,
    /// The processes of the tree; a process stays in this list until it ends, even if its parent
    /// ends first.
    processes: BTreeMap<u32, Process>,
    group: Option<MemoryGroup>,
    room: Room,
    slow_at: Option<Instant>,
    created: Instant,
    declared: Option<u64>,
    listener: Option<SyncSender<Levels>>,
    steps: Option<StepFiles>,
}

/// The memory of a process that the kernel cannot reclaim, in bytes, at one reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// The process.
    pub pid: u32,
    /// Its anonymous memory.
    pub anonymous: u64,
    /// Its shared memory, which other processes may map as well.
    pub shared: u64,
}

/// The memory levels of every process of a process tree at one reading.
pub type Levels = Vec<Level>;

impl TreeCollector {
    /// Makes a collector for a process of this machine and all its descendants.
    pub fn new(root: u32) -> Self {
        let roots = Roots::default();
        Self {
            source: CounterSource {
                collector: "stormlog.host".into(),
                ..CounterSource::host()
            },
            group: MemoryGroup::of_process(&roots, Some(root)),
            roots,
            root,
            processes: BTreeMap::new(),
            room: Room::default(),
            slow_at: None,
            created: Instant::now(),
            declared: super::host::declared_limit(),
            listener: None,
            steps: None,
        }
    }

    /// Sends the memory levels of all processes to a channel at every reading. Memory levels that
    /// do not fit into the channel are dropped, so that a reading never waits.
    #[must_use]
    pub fn heard_by(mut self, listener: SyncSender<Levels>) -> Self {
        self.listener = Some(listener);
        self
    }

    /// Reads the numbers of steps that the processes write into files `steps-PID` of a folder.
    #[must_use]
    pub fn counting_steps_in(mut self, folder: std::path::PathBuf) -> Self {
        self.steps = Some(StepFiles::in_folder(folder));
        self
    }

    /// Sets a limit on the tree's memory that the user declared. The lower of the declared limit
    /// and the control group's limit applies.
    #[must_use]
    pub fn limited_to(mut self, bytes: Option<u64>) -> Self {
        self.declared = bytes.filter(|bytes| *bytes > 0).or(self.declared);
        self
    }

    /// Reads every process of the tree again, drops processes that ended and adds new ones.
    fn update(&mut self, notices: &mut Vec<Notice>) {
        self.processes.retain(|pid, process| {
            let lives = process.update();
            if !lives {
                let mut facts = Map::new();
                facts.insert("pid", i64::from(*pid));
                notices.push(notice(
                    EventType::ProcessExit.as_str(),
                    &process.name,
                    facts,
                ));
            }
            lives
        });
        let looks_again = self
            .slow_at
            .is_none_or(|looked| looked.elapsed() >= SLOW_PERIOD);
        if looks_again {
            self.slow_at = Some(Instant::now());
            self.room = cgroup::room(&self.roots, self.group.as_ref());
            if let Some(steps) = &mut self.steps {
                steps.update(self.processes.keys().copied());
            }
        }
        let is_early = self.created.elapsed() < EAGER || self.processes.is_empty();
        let fresh = if looks_again || is_early {
            self.add_new()
        } else {
            BTreeSet::new()
        };
        let changed = self.processes.iter_mut().filter_map(|(pid, process)| {
            let is_new = fresh.contains(pid);
            let looks = looks_again || process.is_young();
            (is_new || (looks && process.has_changed_program())).then_some(*pid)
        });
        let changed: Vec<u32> = changed.collect();
        for pid in changed {
            self.relate(pid);
            if let Some(process) = self.processes.get(&pid) {
                notices.push(notice(
                    EventType::ProcessStart.as_str(),
                    &process.name,
                    process.describe(),
                ));
            }
        }
    }

    /// Adds the processes of the tree that are not in the list yet, and returns their pids.
    fn add_new(&mut self) -> BTreeSet<u32> {
        let mut fresh = BTreeSet::new();
        for pid in descendants(&self.roots.proc, self.root) {
            if !self.processes.contains_key(&pid)
                && let Some(process) = Process::open(&self.roots.proc, pid, self.root)
            {
                self.processes.insert(pid, process);
                fresh.insert(pid);
            }
        }
        fresh
    }

    fn relate(&mut self, pid: u32) {
        let Some(mut process) = self.processes.remove(&pid) else {
            return;
        };
        let parent = self.processes.get(&process.parent);
        process.relate(parent.map(Process::as_ancestor).as_ref());
        self.processes.insert(pid, process);
    }

    /// The memory of all processes of the tree. Returns the sums by kind, in which a shared page
    /// counts for each process that maps it; the total, in which a shared page counts once; and
    /// whether the total is exact. The total is an estimate if the proportional share of a process
    /// is not known.
    fn total(&mut self) -> (Parts, u64, bool) {
        let mut sum = Parts::default();
        let mut once = 0_u64;
        let mut is_exact = true;
        // Processes whose proportional share was not read may all map the same shared memory, so of
        // their amounts of shared memory only the largest is added.
        let mut unaccounted_shared = 0;
        let is_alone = self.processes.len() == 1;
        for process in self.processes.values_mut() {
            sum.anonymous += process.parts.anonymous;
            sum.shared += process.parts.shared;
            sum.file += process.parts.file;
            if is_alone {
                return (sum, process.parts.unreclaimable(), true);
            }
            let (share, is_share) = process.counted_once();
            once += share;
            is_exact &= is_share;
            if !is_share {
                unaccounted_shared = process.parts.shared.max(unaccounted_shared);
            }
        }
        (sum, once + unaccounted_shared, is_exact)
    }

    fn list(&self) -> Value {
        let mut listed: Vec<&Process> = self.processes.values().collect();
        listed.sort_by_key(|process| std::cmp::Reverse(process.parts.unreclaimable()));
        listed.truncate(MOST_LISTED);
        listed.sort_by_key(|process| process.pid);
        let rows = listed.into_iter().map(|process| {
            let Parts {
                anonymous,
                shared,
                file,
            } = process.parts;
            let numbers = [u64::from(process.pid), anonymous, shared, file];
            Value::List(numbers.map(|number| Value::Int(signed(number))).to_vec())
        });
        Value::List(rows.collect())
    }
}

fn notice(event_type: &'static str, name: &str, process: Map) -> Notice {
    let mut metadata = Map::new();
    metadata.insert("process", Value::Map(process));
    Notice {
        event_type,
        context: name.to_owned(),
        metadata,
    }
}

impl Collector for TreeCollector {
    fn source(&self) -> &CounterSource {
        &self.source
    }

    fn read(&mut self) -> Result<Reading, CollectError> {
        let timestamp_ns = now_ns();
        let mut notices = Vec::new();
        self.update(&mut notices);
        if self.processes.is_empty() {
            return Err(CollectError::Gone("the process has ended".into()));
        }
        if let Some(listener) = &self.listener {
            let processes = self.processes.values();
            let levels = processes.map(|process| Level {
                pid: process.pid,
                anonymous: process.parts.anonymous,
                shared: process.parts.shared,
            });
            let _ = listener.try_send(levels.collect());
        }
        let (parts, level, is_exact) = self.total();
        let room = super::host::within_declared(self.declared, self.room, level);
        let total = room.total.map(|total| total.max(level));
        let mut host = Map::new();
        host.insert(SampleNumber::HostAnonymous.key(), signed(parts.anonymous));
        host.insert(SampleNumber::HostShared.key(), signed(parts.shared));
        host.insert(SampleNumber::HostFile.key(), signed(parts.file));
        host.insert("counted_once", Value::Bool(is_exact));
        if let Some(limit) = self.group.as_ref().and_then(MemoryGroup::limit) {
            host.insert("cgroup_limit", signed(limit));
        }
        let mut metadata = Map::new();
        metadata.insert(metadata_keys::HOST_MEMORY, Value::Map(host));
        metadata.insert(metadata_keys::PROCESSES, self.list());
        metadata.insert("process_count", signed(self.processes.len()));
        if let Some(steps) = self.steps.as_ref().and_then(StepFiles::most) {
            metadata.insert(SampleNumber::StepCount.key(), steps);
        }
        let free = room.free.filter(|free| Some(*free) <= total);
        Ok(Reading {
            timestamp_ns,
            metadata,
            notices,
            ..Reading::of_host(level, Room { total, free })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(reading: &Reading) -> i64 {
        reading.counters.device_used_bytes.unwrap()
    }

    #[test]
    fn follows_a_tree_until_it_ends() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 300 & wait"])
            .spawn()
            .unwrap();
        let mut tree = TreeCollector::new(child.id());
        let mut notices = Vec::new();
        // The test waits, because the shell needs a moment to start its child.
        let mut last = None;
        for _ in 0..6000 {
            let reading = tree.read().unwrap();
            notices.extend(reading.notices.clone());
            let count = reading.metadata.get("process_count").unwrap().as_int();
            last = Some(reading);
            if count == Some(2) && notices.iter().any(|notice| notice.context == "sleep 300") {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(level(&last.unwrap()) > 0);
        let names: Vec<&str> = notices
            .iter()
            .map(|notice| notice.context.as_str())
            .collect();
        assert!(names.contains(&"sh -c sleep 300 & wait"), "{names:?}");
        assert!(names.contains(&"sleep 300"), "{names:?}");
        let pids: Vec<u32> = tree.processes.keys().copied().collect();
        child.kill().unwrap();
        child.wait().unwrap();
        // The test's orphaned process is still running and still counted.
        assert!(tree.read().is_ok());
        for pid in pids {
            let _ = std::process::Command::new("kill")
                .arg(pid.to_string())
                .stderr(std::process::Stdio::null())
                .status();
        }
        for _ in 0..6000 {
            if matches!(tree.read(), Err(CollectError::Gone(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("a tree whose processes have ended is gone");
    }

    #[test]
    fn memory_of_forks_counts_once_and_files_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::write(&data, vec![1_u8; 64 << 20]).unwrap();
        let script = format!(
            "import mmap, os, sys, time\n\
             block = bytearray(os.urandom(1 << 20) * 200)\n\
             file = open({:?}, 'rb')\n\
             mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n\
             total = sum(mapped[i] for i in range(0, len(mapped), 4096))\n\
             for _ in range(4):\n    \
                 if os.fork() == 0:\n        time.sleep(300)\n\
             print('ready', flush=True)\n\
             time.sleep(300)\n",
            data.display()
        );
        let mut child = std::process::Command::new("python3")
            .args(["-c", &script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut tree = TreeCollector::new(child.id());
        tree.read().unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        let reading = tree.read().unwrap();
        let pids: Vec<u32> = tree.processes.keys().copied().collect();
        for pid in pids {
            let _ = std::process::Command::new("kill")
                .arg(pid.to_string())
                .status();
        }
        child.wait().unwrap();
        let host = reading
            .metadata
            .get("host_memory")
            .unwrap()
            .as_map()
            .unwrap();
        let part = |name: &str| host.get(name).unwrap().as_int().unwrap() >> 20;
        assert_eq!(
            reading.metadata.get("process_count").unwrap().as_int(),
            Some(5)
        );
        assert!(part("anonymous") > 900, "{host:?}");
        assert!(part("file") >= 64, "{host:?}");
        let level = level(&reading) >> 20;
        assert!((200..300).contains(&level), "{level} MiB");
    }
}
