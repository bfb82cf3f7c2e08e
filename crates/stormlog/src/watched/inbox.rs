//! The inbox of a run: a directory in which the processes of the run write reports for the
//! `stormlog` command that started them. Reports state whether Stormlog's hook ran, whether a
//! process records a device itself, which exception ended a process, which out-of-memory errors a
//! process caught, and which of its Python containers (such as lists and dicts) hold growing
//! memory. The `stormlog` command writes its requests for reports about containers into the inbox
//! too.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::OFlags;
use serde::Serialize;
use stormlog_capture::oom::requested_bytes;
use stormlog_capture::process::{Looked, look, own_identity};
use stormlog_format::classify::{ExceptionFacts, oom_reason};
use stormlog_format::json::{Layout, Writer, map_of, parse, value_of};
use stormlog_format::{Map, ProcessIdentity, Value, is_library_file, metadata_keys};
use stormlog_redact::redacted_text;

use super::inject::own_directory;

/// The start of the name of an inbox, which is a directory inside the directory of the recording.
const PREFIX: &str = ".inbox-";

/// The name of the file in an inbox that identifies the `stormlog` process that created the inbox.
const OWNER: &str = "owner";

/// The largest number of bytes that are read of a report; a report has only a few lines.
const LONGEST_REPORT: u64 = 1 << 18;

/// The largest number of traceback frames that are recorded; the innermost frames are kept.
const MOST_FRAMES: usize = 24;

/// The largest number of exceptions that are recorded of those that an exception was raised from.
const LONGEST_CHAIN: usize = 16;

/// Exceptions that launchers raise when a process that they started has failed.
const CHILD_FAILURES: [&str; 4] = [
    "ChildFailedError",
    "ProcessRaisedException",
    "ProcessExitedException",
    "CalledProcessError",
];

/// The directory in which the processes of one run write reports for `stormlog`. It is deleted when
/// this value is dropped at the end of the run.
pub(super) struct Inbox {
    directory: PathBuf,
}

impl Inbox {
    /// Creates the inbox below the directory of a run. Ranks that a launcher starts separately have
    /// the same run id and directory; each rank has its own inbox, which is deleted when that rank
    /// ends.
    pub(super) fn create(root: &Path, run_id: &str, rank: i64) -> anyhow::Result<Self> {
        remove_leftovers(root);
        // The id may be any text that the user gave, and must not lead out of the directory.
        let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
        let run: String = run_id.chars().filter(plain).take(8).collect();
        let directory = root.join(format!("{PREFIX}{run}-{rank}-{}", std::process::id()));
        own_directory(&directory)?;
        if let Some(owner) = own_identity() {
            let owner = Writer::new(Layout::Compact).to_string(&value_of(&owner));
            fs::write(directory.join(OWNER), owner)
                .with_context(|| format!("cannot write to '{}'", directory.display()))?;
        }
        Ok(Self { directory })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether Stormlog's hook ran in any Python process of the run.
    pub(super) fn reached_python(&self) -> bool {
        has(&self.directory, "python-")
    }

    /// The exceptions that ended processes of the run, the earliest first.
    pub(super) fn exceptions(&self) -> Vec<Exception> {
        let found = reports(&self.directory, "exception-").into_iter();
        found.map(|(_, exception)| exception).collect()
    }
}

/// The host out-of-memory errors that processes caught, with the files that report them. Errors
/// that ended their process are left out, because they are returned by [`Inbox::exceptions`].
pub(super) fn survived(inbox: &Path) -> Vec<(PathBuf, Exception)> {
    let mut found = reports(inbox, "survived-");
    found.retain(|(_, error)| {
        let end = Exception::read(&inbox.join(format!("exception-{}", error.pid)));
        end.is_none_or(|end| !end.is_from(error))
    });
    found
}

/// The complete reports about exceptions whose names have this prefix, the earliest first.
fn reports(inbox: &Path, prefix: &str) -> Vec<(PathBuf, Exception)> {
    let names = names(inbox).into_iter();
    let names = names.filter(|name| name.starts_with(prefix) && !name.contains('.'));
    let mut found: Vec<_> = names
        .map(|name| inbox.join(name))
        .filter_map(|path| Some((path.clone(), Exception::read(&path)?)))
        .collect();
    found.sort_by_key(|(_, exception)| exception.time_ns);
    found
}

/// Deletes the inboxes that killed commands of this user left in the directory of a run. Inboxes of
/// commands on other machines and in other containers are not deleted, because this process cannot
/// see whether those commands still run.
fn remove_leftovers(root: &Path) {
    let Some(here) = own_identity() else {
        return;
    };
    let user = rustix::process::getuid().as_raw();
    for name in names(root).iter().filter(|name| name.starts_with(PREFIX)) {
        let directory = root.join(name);
        let is_own = fs::symlink_metadata(&directory)
            .is_ok_and(|facts| facts.is_dir() && facts.uid() == user);
        let owner = read(&directory.join(OWNER)).and_then(|text| match parse(text.as_bytes()) {
            Ok(Value::Map(map)) => ProcessIdentity::from_map(&map),
            _ => None,
        });
        let is_abandoned = owner.is_some_and(|owner| {
            owner.shares_ids_with(&here)
                && match look(owner.pid) {
                    Looked::Gone => true,
                    Looked::Found(found) => found != owner,
                    Looked::Unknown => false,
                }
        });
        if is_own && is_abandoned {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

/// Whether a process of the run has reported that it records its device memory itself.
pub(super) fn records_device(inbox: &Path) -> bool {
    has(inbox, "device-")
}

/// Whether the inbox contains a report of this kind by this process, such as `python-<pid>`, which
/// states that Stormlog's hook ran in the process.
pub(super) fn is_marked(inbox: &Path, kind: &str, pid: u32) -> bool {
    fs::symlink_metadata(inbox.join(format!("{kind}-{pid}"))).is_ok()
}

fn has(inbox: &Path, prefix: &str) -> bool {
    let mut names = names(inbox).into_iter();
    names.any(|name| name.starts_with(prefix))
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Reads a report file; `None` for a symbolic link, a pipe or a missing file.
pub(super) fn read(path: &Path) -> Option<String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path)
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LONGEST_REPORT).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// An exception that ended a process, or a host out-of-memory error that the process caught.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exception {
    pub(crate) time_ns: i64,
    pub(crate) pid: u32,
    pub(crate) class: String,
    pub(crate) module: String,
    pub(crate) message: String,
    /// The exceptions that this one was raised from, or that were handled when it was raised: class
    /// and first line of the message of each, the latest first.
    pub(crate) chain: Vec<String>,
    /// The traceback with the outermost frame first.
    pub(crate) frames: Vec<Frame>,
    /// The cause of an out-of-memory error as JSON, if the process itself could determine it.
    pub(crate) cause: Option<String>,
}

/// One frame of a traceback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Frame {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) function: String,
}

impl Frame {
    fn is_library(&self) -> bool {
        is_library_file(&self.file)
    }
}

impl Exception {
    fn read(report: &Path) -> Option<Self> {
        Self::parse(&read(report)?)
    }

    fn parse(report: &str) -> Option<Self> {
        let mut found = Self::default();
        // A report that is longer than what is read of it ends within a line.
        let complete = report.rfind('\n').map_or("", |end| &report[..end]);
        for line in complete.lines() {
            let (key, value) = line.split_once(' ')?;
            match key {
                "time_ns" => found.time_ns = value.parse().ok()?,
                "pid" => found.pid = value.parse().ok()?,
                "type" => found.class = unescaped(value),
                "module" => found.module = unescaped(value),
                "message" => found.message = unescaped(value),
                "chain" if found.chain.len() < LONGEST_CHAIN => found.chain.push(unescaped(value)),
                "cause" => found.cause = Some(unescaped(value)),
                "frame" => {
                    let mut parts = value.splitn(3, ' ');
                    found.frames.push(Frame {
                        line: parts.next()?.parse().ok()?,
                        function: unescaped(parts.next()?),
                        file: unescaped(parts.next()?),
                    });
                }
                _ => {}
            }
        }
        (!found.class.is_empty()).then_some(found)
    }

    /// Whether this exception is an error that the process had caught before, or was raised from it.
    fn is_from(&self, error: &Self) -> bool {
        let first = error.message.lines().next().unwrap_or_default();
        let is_same = |text: &String| {
            let (name, message) = text.split_once(": ").unwrap_or((text, ""));
            let class = name.rsplit_once('.').map_or(name, |(_, class)| class);
            class == error.class && !message.is_empty() && first.starts_with(message)
        };
        (&self.class, &self.message) == (&error.class, &error.message)
            || self.chain.iter().any(is_same)
    }

    /// Whether the class of the exception shows that the process failed only because a process that
    /// it started had failed.
    pub(super) fn is_of_child(&self) -> bool {
        CHILD_FAILURES.contains(&self.class.as_str())
    }

    /// The name of the exception class. The name contains the module of the class, unless the
    /// module is `builtins`.
    pub(crate) fn name(&self) -> String {
        match self.module.as_str() {
            "" | "builtins" => self.class.clone(),
            module => format!("{module}.{}", self.class),
        }
    }

    pub(crate) fn facts(&self) -> ExceptionFacts {
        ExceptionFacts {
            class: self.class.clone(),
            module: self.module.clone(),
            message: self.message.clone(),
            is_torch_oom: false,
        }
    }

    /// The out-of-memory error that ended the process: this exception, or the latest of those that it
    /// was raised from. `None` if memory did not run out.
    pub(crate) fn out_of_memory(&self) -> Option<ExceptionFacts> {
        let chain = self.chain.iter().map(|text| {
            let (name, message) = text.split_once(": ").unwrap_or((text, ""));
            let (module, class) = name.rsplit_once('.').unwrap_or(("", name));
            ExceptionFacts {
                class: class.to_owned(),
                module: module.to_owned(),
                message: message.to_owned(),
                is_torch_oom: false,
            }
        });
        let mut all = std::iter::once(self.facts()).chain(chain);
        all.find(|facts| oom_reason(facts).is_some())
    }

    /// The innermost frame of the traceback that is in the user's own code, not in the standard
    /// library or a package; the innermost frame of all if none is in the user's code.
    pub(crate) fn line(&self) -> Option<&Frame> {
        self.users_frames().next().or(self.frames.last())
    }

    /// The frames in the user's own code, innermost first.
    fn users_frames(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter().rev().filter(|frame| !frame.is_library())
    }

    /// What is known about a failed allocation: its size and its cause. If the process had too
    /// little memory to find the cause itself, the cause is taken from its traceback.
    pub(crate) fn failed_request(&self) -> Map {
        let mut map = Map::new();
        let message = self.out_of_memory().map(|facts| facts.message);
        if let Some(bytes) = requested_bytes(message.as_deref().unwrap_or(&self.message)) {
            map.insert(metadata_keys::REQUESTED_BYTES, bytes);
        }
        let inspected = self.cause.as_ref().map(|text| parse(text.as_bytes()));
        let cause = if let Some(Ok(Value::Map(cause))) = inspected {
            cause
        } else {
            let mut cause = Map::new();
            cause.insert("site", value_of(&self.line()));
            let outer = self.users_frames().skip(1).take(MOST_FRAMES);
            cause.insert("call_path", value_of(&outer.collect::<Vec<_>>()));
            cause
        };
        map.insert("cause", Value::Map(cause));
        map
    }

    /// The exception as an object for the metadata of an event: class, message, source line and
    /// traceback.
    pub(crate) fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("pid", i64::from(self.pid));
        map.insert("type", &*self.name());
        map.insert("message", redacted_text((*self.message).into()));
        let chain = self.chain.iter().map(|one| redacted_text((**one).into()));
        map.insert("chain", Value::List(chain.map(Value::from).collect()));
        if let Some(frame) = self.line() {
            map.extend(map_of(frame));
        }
        let frames = self.frames.iter().rev().take(MOST_FRAMES).rev();
        let frames =
            frames.map(|frame| format!("{}:{} in {}", frame.file, frame.line, frame.function));
        map.insert("traceback", value_of(&frames.collect::<Vec<_>>()));
        map
    }
}

/// Decodes a text in a report: the hook escapes spaces and line ends, so that a text is one word or
/// one line.
pub(super) fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => plain.push('\n'),
                Some('r') => plain.push('\r'),
                Some('s') => plain.push(' '),
                Some(other) => plain.push(other),
                None => {}
            },
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let report = "time_ns 5\npid 7\ntype MemoryError\nmodule builtins\n\
                      message two\\nlines \\\\ here\n\
                      frame 3 <module> /home/ada/train me.py\n\
                      frame 9 load /usr/lib/python3/site-packages/x.py\n";
        let exception = Exception::parse(report).unwrap();
        assert_eq!(exception.name(), "MemoryError");
        assert_eq!(exception.message, "two\nlines \\ here");
        let line = exception.line().unwrap();
        assert_eq!(
            (line.line, line.file.as_str()),
            (3, "/home/ada/train me.py")
        );
        assert_eq!(Exception::parse("time_ns x\n"), None);
        assert_eq!(Exception::parse("garbage"), None);
    }

    #[test]
    fn the_error_behind_an_exception_is_known() {
        let of = |lines: &str| Exception::parse(&format!("pid 7\n{lines}\n")).unwrap();
        let wrapped = of(
            "type ValueError\nmodule builtins\nmessage training failed\n\
             chain builtins.KeyError: 'x'\n\
             chain torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        );
        let facts = wrapped.out_of_memory().unwrap();
        assert_eq!(
            (&*facts.class, &*facts.module),
            ("OutOfMemoryError", "torch")
        );
        let request = wrapped.failed_request();
        assert_eq!(request.int(metadata_keys::REQUESTED_BYTES), Some(2 << 30));
        let map = wrapped.to_map();
        assert_eq!(map.list("chain").len(), 2);
        let caught = of(
            "type OutOfMemoryError\nmodule torch\nmessage CUDA out of memory. Tried to \
             allocate 2.00 GiB.\\nSee the documentation",
        );
        assert!(wrapped.is_from(&caught));
        let other = of("type ValueError\nmodule builtins\nmessage x\nchain builtins.KeyError: 'x'");
        assert_eq!(other.out_of_memory().map(|facts| facts.class), None);
        assert!(!other.is_from(&caught));
        let many = format!(
            "type E\nmodule m\nmessage x{}",
            "\nchain a.B: c".repeat(100)
        );
        assert_eq!(of(&many).chain.len(), LONGEST_CHAIN);
    }

    #[test]
    fn the_inbox_of_a_killed_command_is_deleted_by_the_next() {
        let root = tempfile::tempdir().unwrap();
        let here = own_identity().unwrap();
        let leave = |name: &str, owner: &ProcessIdentity| {
            let directory = root.path().join(format!("{PREFIX}{name}"));
            own_directory(&directory).unwrap();
            let text = Writer::new(Layout::Compact).to_string(&value_of(&owner));
            fs::write(directory.join(OWNER), text).unwrap();
            directory
        };
        let killed = ProcessIdentity {
            start_ticks: here.start_ticks - 1,
            ..here.clone()
        };
        let elsewhere = ProcessIdentity {
            boot_id: "another".into(),
            ..killed.clone()
        };
        let left = leave("left", &killed);
        let running = leave("running", &here);
        let foreign = leave("foreign", &elsewhere);
        drop(Inbox::create(root.path(), "0123456789", 0).unwrap());
        assert!(!left.exists());
        assert!(running.exists() && foreign.exists());
    }

    #[test]
    fn a_failed_request_has_its_size_and_its_cause() {
        let report = "time_ns 5\npid 7\ntype RuntimeError\nmodule builtins\n\
                      message can't allocate memory: you tried to allocate 64 bytes\n\
                      frame 3 <module> /home/ada/train.py\n\
                      frame 8 step /home/ada/train.py\n\
                      frame 9 load /usr/lib/python3/site-packages/x.py\n";
        let request = Exception::parse(report).unwrap().failed_request();
        assert_eq!(request.get("requested_bytes"), Some(&Value::Int(64)));
        let cause = request.get("cause").unwrap().as_map().unwrap();
        let site = cause.get("site").unwrap().as_map().unwrap();
        assert_eq!(site.get("line"), Some(&Value::Int(8)));
        assert!(matches!(cause.get("call_path"), Some(Value::List(calls)) if calls.len() == 1));
        // The cause of the error that the process itself found is used, unless it is incomplete
        // JSON.
        let found = format!("{report}cause {{\"operation\": \"a\\\\nb\"}}\n");
        let request = Exception::parse(&found).unwrap().failed_request();
        let cause = request.get("cause").unwrap().as_map().unwrap();
        assert_eq!(cause.get("operation"), Some(&Value::text("a\nb")));
        let invalid = format!("{report}cause {{\"operation\"\n");
        let request = Exception::parse(&invalid).unwrap().failed_request();
        let cause = request.get("cause").unwrap().as_map().unwrap();
        assert!(cause.get("site").is_some());
    }

    #[test]
    fn a_torn_last_line_of_a_report_is_left_out() {
        let report = "time_ns 5\npid 7\ntype RuntimeError\nmodule builtins\nmessage too big\n\
                      frame 3 <module> /home/ada/train.py\n";
        let whole = Exception::parse(report).unwrap();
        for torn in ["frame", "frame 8 step", "frame 8 step /home/ad", "cause {"] {
            let found = Exception::parse(&format!("{report}{torn}"));
            assert_eq!(found.as_ref(), Some(&whole), "{torn}");
        }
    }

    #[test]
    fn a_run_id_does_not_lead_out_of_the_directory() {
        let root = tempfile::tempdir().unwrap();
        for id in ["../../x", "/tmp/x", "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}", ""] {
            let inbox = Inbox::create(root.path(), id, 0).unwrap();
            assert_eq!(inbox.directory().parent(), Some(root.path()), "{id}");
            drop(inbox);
            assert_eq!(names(root.path()), <[&str; 0]>::default(), "{id}");
        }
    }

    #[test]
    fn links_and_pipes_in_the_inbox_are_not_read() {
        let root = tempfile::tempdir().unwrap();
        let inbox = Inbox::create(root.path(), "0123456789", 0).unwrap();
        let other = Inbox::create(root.path(), "0123456789", 1).unwrap();
        assert_ne!(inbox.directory(), other.directory());
        let directory = inbox.directory().to_path_buf();
        std::os::unix::fs::symlink("/etc/passwd", directory.join("exception-1")).unwrap();
        let pipe = directory.join("exception-2");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert!(inbox.exceptions().is_empty());
        drop(inbox);
        assert!(!directory.exists());
    }
}
