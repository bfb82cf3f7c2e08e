//! Reads one process of a process tree. The memory of the process, by kind, is read through files
//! that the kernel ties to the process.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stormlog_format::Map;

use super::super::cgroup::kilobytes;
use super::super::process_tree::parent_of;
use crate::kept_file::KeptFile;
use stormlog_redact::redacted_words;

/// The longest time that a walk of a process's page tables may take. During a walk of the page
/// tables, the kernel holds a lock that the process needs to map and unmap memory.
const LONGEST_WALK: Duration = Duration::from_millis(5);

/// The cost of a walk of the page tables that is assumed before the first walk was measured. With
/// this cost, the page tables of a process with more than 85 MiB of resident memory are not walked.
const ASSUMED_WALK_PER_GIB: Duration = Duration::from_millis(60);

/// The least time between two walks of a process's page tables.
const WALK_PERIOD: Duration = Duration::from_secs(1);

/// The longest time that is expected between a fork and the child's `exec` of its own program.
const YOUTH: Duration = Duration::from_secs(1);

/// The largest number of characters of a command line that are recorded as the name of a process.
const LONGEST_NAME: usize = 160;

/// The resident memory of a process by kind, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Anonymous memory: private to the process, or shared with its parent until one of them
    /// writes.
    pub anonymous: u64,
    /// Shared memory: `/dev/shm`, System V, anonymous shared mappings.
    pub shared: u64,
    /// Pages of files, which the kernel can drop and read again from disk.
    pub file: u64,
}

impl Parts {
    /// Bytes that the kernel cannot reclaim: anonymous and shared memory.
    pub fn unreclaimable(self) -> u64 {
        self.anonymous.saturating_add(self.shared)
    }
}

/// How a process relates to its parent process in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The root of the tree, which is the watched program itself.
    Program,
    /// A forked process that runs its parent's program, or a worker of Python's `multiprocessing`.
    Worker,
    /// A process that runs another program than its parent.
    Subprocess,
}

impl Role {
    /// The role of a process as records spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Worker => "worker",
            Self::Subprocess => "subprocess",
        }
    }
}

/// The state of one process of the tree, from its first reading to its last.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) role: Role,
    pub(super) name: String,
    pub(super) parts: Parts,
    /// Anonymous memory that a forked process inherited from its parent, which is already counted
    /// for the parent.
    inherited: u64,
    directory: PathBuf,
    command: Vec<u8>,
    status: KeptFile,
    opened: Instant,
    walk: Option<Walk>,
    walked_at: Option<Instant>,
}

/// The result of a walk of a process's page tables, which the kernel makes when `smaps_rollup` is
/// read.
#[derive(Clone, Copy, Debug)]
struct Walk {
    /// `unreclaimable` is the memory of the process that the kernel could not reclaim at the time
    /// of the walk. `share` is the proportional share of the process in this memory: of a page that
    /// n processes map, each counts one n-th.
    unreclaimable: u64,
    share: u64,
    per_byte: f64,
}

/// The command and the anonymous memory of a process's parent. A process with the same command as
/// its parent is taken for a fork of it, and has inherited at most the parent's anonymous memory.
pub(super) struct Ancestor<'a> {
    pub(super) command: &'a [u8],
    pub(super) anonymous: u64,
}

impl Process {
    /// Opens the kernel's files of a process; `None` when the process has ended or is a zombie.
    pub(super) fn open(proc: &Path, pid: u32, root: u32) -> Option<Self> {
        let directory = proc.join(pid.to_string());
        let status = KeptFile::new(File::open(directory.join("status")).ok()?).ok()?;
        let parts = read_parts(&status)?;
        let command = fs::read(directory.join("cmdline")).unwrap_or_default();
        Some(Self {
            pid,
            parent: parent_of(proc, pid).unwrap_or(0),
            role: if pid == root {
                Role::Program
            } else {
                Role::Subprocess
            },
            name: name_of(&directory, &command),
            parts,
            inherited: 0,
            directory,
            command,
            status,
            opened: Instant::now(),
            walk: None,
            walked_at: None,
        })
    }

    pub(super) fn as_ancestor(&self) -> Ancestor<'_> {
        Ancestor {
            command: &self.command,
            anonymous: self.parts.anonymous,
        }
    }

    /// Sets the role of the process and the amount of memory that it inherited from its parent. A
    /// process that was just forked shares all of its parent's memory.
    pub(super) fn relate(&mut self, parent: Option<&Ancestor<'_>>) {
        if self.role == Role::Program {
            return;
        }
        let fork_of = parent.filter(|parent| parent.command == self.command);
        self.inherited = fork_of.map_or(0, |parent| parent.anonymous.min(self.parts.anonymous));
        let is_worker = fork_of.is_some() || is_multiprocessing(&self.command);
        self.role = if is_worker {
            Role::Worker
        } else {
            Role::Subprocess
        };
    }

    /// Reads the memory of the process again; returns false when the process has ended.
    pub(super) fn update(&mut self) -> bool {
        match read_parts(&self.status) {
            Some(parts) => {
                self.parts = parts;
                self.inherited = self.inherited.min(parts.anonymous);
                true
            }
            None => false,
        }
    }

    /// Whether the process was started so recently that it may not have executed its own program
    /// yet.
    pub(super) fn is_young(&self) -> bool {
        self.opened.elapsed() < YOUTH
    }

    /// Whether the process runs another program than at the last check.
    pub(super) fn has_changed_program(&mut self) -> bool {
        let command = fs::read(self.directory.join("cmdline")).unwrap_or_default();
        if command.is_empty() || command == self.command {
            return false;
        }
        self.name = name_of(&self.directory, &command);
        self.command = command;
        self.walk = None;
        true
    }

    /// The bytes that this process adds to the tree's total, and whether they are its proportional
    /// share. If its share is not known, they are its anonymous memory without the part that it
    /// inherited from its parent; its shared memory is not included then.
    pub(super) fn counted_once(&mut self) -> (u64, bool) {
        self.walk_when_affordable();
        let now = self.parts.unreclaimable();
        match self.walk {
            Some(walk) => {
                let grown = i128::from(now) - i128::from(walk.unreclaimable);
                let share = i128::from(walk.share) + grown;
                (u64::try_from(share.max(0)).unwrap_or(now).min(now), true)
            }
            None => (self.parts.anonymous - self.inherited, false),
        }
    }

    fn walk_when_affordable(&mut self) {
        let is_due = self
            .walked_at
            .is_none_or(|walked| walked.elapsed() >= WALK_PERIOD);
        if !is_due {
            return;
        }
        self.walked_at = Some(Instant::now());
        let resident = self.parts.unreclaimable() + self.parts.file;
        let per_byte = self.walk.map_or_else(
            || ASSUMED_WALK_PER_GIB.as_secs_f64() / f64::from(1 << 30),
            |walk| walk.per_byte,
        );
        if resident as f64 * per_byte > LONGEST_WALK.as_secs_f64() {
            self.walk = None;
            return;
        }
        let start = Instant::now();
        let text = fs::read_to_string(self.directory.join("smaps_rollup"));
        let cost = start.elapsed().as_secs_f64();
        let share = text.ok().and_then(|text| {
            let anonymous = kilobytes(&text, "Pss_Anon:")?;
            Some(anonymous + kilobytes(&text, "Pss_Shmem:")?)
        });
        self.walk = share.map(|share| Walk {
            unreclaimable: self.parts.unreclaimable(),
            share,
            per_byte: cost / resident.max(1) as f64,
        });
    }

    /// The pid, parent, name and role of the process, for the metadata of events about the process.
    pub(super) fn describe(&self) -> Map {
        let mut map = Map::new();
        map.insert("pid", i64::from(self.pid));
        map.insert("parent_pid", i64::from(self.parent));
        map.insert("name", &*self.name);
        map.insert("role", self.role.as_str());
        map
    }
}

/// Parses the lines of the kernel's file `status` that contain resident memory. The `status` of a
/// zombie has no such lines; then the function returns `None`.
fn read_parts(status: &KeptFile) -> Option<Parts> {
    let mut buffer = [0_u8; 4096];
    let length = status.get().ok()?.read_at(&mut buffer, 0).ok()?;
    let text = String::from_utf8_lossy(&buffer[..length]);
    Some(Parts {
        anonymous: kilobytes(&text, "RssAnon:")?,
        shared: kilobytes(&text, "RssShmem:")?,
        file: kilobytes(&text, "RssFile:")?,
    })
}

fn is_multiprocessing(command: &[u8]) -> bool {
    let text = String::from_utf8_lossy(command);
    text.contains("multiprocessing.spawn") || text.contains("multiprocessing.forkserver")
}

/// The command line of any process, with secrets removed; `None` where the command is not known.
pub(super) fn name_of_process(proc: &Path, pid: u32) -> Option<String> {
    let directory = proc.join(pid.to_string());
    let command = fs::read(directory.join("cmdline")).ok()?;
    Some(name_of(&directory, &command)).filter(|name| !name.is_empty())
}

/// The command line with secrets removed, shortened for a record; for a process without a command
/// line, the kernel's name of the process.
fn name_of(directory: &Path, command: &[u8]) -> String {
    let words = command
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
    let words: Vec<String> = words.collect();
    let name = if words.is_empty() {
        let name = fs::read_to_string(directory.join("comm")).unwrap_or_default();
        name.trim().to_owned()
    } else {
        redacted_words(&words)
    };
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_does_not_count_what_its_parent_has() {
        let mut process = Process::open(Path::new("/proc"), std::process::id(), 0).unwrap();
        let own = process.parts.anonymous;
        let command = process.command.clone();
        process.relate(Some(&Ancestor {
            command: &command,
            anonymous: own / 2,
        }));
        assert_eq!(process.role, Role::Worker);
        assert_eq!(process.inherited, own / 2);
        process.relate(Some(&Ancestor {
            command: b"another",
            anonymous: own,
        }));
        assert_eq!((process.role, process.inherited), (Role::Subprocess, 0));
    }

    #[test]
    fn a_process_has_a_name_while_it_lives() {
        let proc = Path::new("/proc");
        assert!(name_of_process(proc, std::process::id()).is_some());
        assert_eq!(name_of_process(proc, u32::MAX), None);
    }

    #[test]
    fn names_hide_secrets_and_are_short() {
        let folder = Path::new("/proc/self");
        let command = b"python\0train.py\0--api-key\0abcdef123456\0";
        assert_eq!(
            name_of(folder, command),
            "python train.py --api-key [redacted]"
        );
        assert!(name_of(folder, &[b'x'; 900]).chars().count() <= LONGEST_NAME + 1);
    }
}
