//! Directories on NFS and Lustre, without locks and with a slow disk. A library in front of the C
//! library simulates them on the local disk.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use stormlog_analysis::{LoadOptions, load_sessions};
use stormlog_capture::store::Sink;
use stormlog_format::SessionStatus;

use crate::events::session;
use crate::process::{child, given_directory, kill};
use crate::thinning::{busy_sample, config};

const SAMPLES: i64 = 3000;

/// How long the library makes a call that syncs to disk take.
pub(crate) const DISK: Duration = Duration::from_millis(400);

/// Recorders of another test at the same time would make appends wait for the processor.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A process that records on such a file system; it prints the directory and its longest append.
#[test]
fn recorder() {
    let Some(directory) = given_directory() else {
        return;
    };
    let id = format!("session-{}", std::process::id());
    let sink = Sink::open(config(&directory)).unwrap();
    sink.start_session(Some(session(&id))).unwrap();
    let mut longest = Duration::ZERO;
    for number in 0..SAMPLES {
        let event = busy_sample(&id, number);
        let started = Instant::now();
        sink.append(&event).unwrap();
        longest = longest.max(started.elapsed());
        if number % 20 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    sink.flush(true).unwrap();
    println!(
        "\n@{}\n@{}",
        sink.directory().display(),
        longest.as_millis()
    );
    std::io::stdin().lines().next();
    sink.close(SessionStatus::Completed).unwrap();
}

/// Compiles the library with this name; `None` without a C compiler.
pub(crate) fn library(folder: &Path, name: &str) -> Option<PathBuf> {
    let library = folder.join(name).with_extension("so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/{name}.c"));
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    compiled
        .is_ok_and(|status| status.success())
        .then_some(library)
}

fn launch(directory: &Path, library: &Path, error: &str) -> Child {
    let mut command = child("no_locks::recorder", directory);
    command
        .env("LD_PRELOAD", library)
        .env("STORMLOG_TEST_FLOCK", error);
    command.spawn().unwrap()
}

/// The directory of a recorder once everything is recorded, and its longest append in milliseconds.
fn has_recorded(recorder: &mut Child) -> (PathBuf, u128) {
    let out = BufReader::new(recorder.stdout.as_mut().unwrap());
    let mut output = out
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix('@').map(str::to_owned));
    let used = output.next().expect("where it records").into();
    (used, output.next().unwrap().parse().unwrap())
}

/// Starts a recorder; returns it with its directory, and adds its longest append.
fn start(
    directory: &Path,
    library: &Path,
    error: &str,
    longest: &mut Vec<u128>,
) -> (Child, PathBuf) {
    let mut recorder = launch(directory, library, error);
    let (used, own) = has_recorded(&mut recorder);
    longest.push(own);
    (recorder, used)
}

fn end(mut recorder: Child) {
    recorder.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(recorder.wait().unwrap().success());
}

fn recorded(directory: &Path) -> Vec<(SessionStatus, i64)> {
    let loaded = load_sessions(directory, &LoadOptions::default()).unwrap();
    assert_eq!(loaded.damage, []);
    // Samples come faster than such a disk can be thinned, so some of them are deleted.
    let removed = loaded.removed;
    let thinned = removed.thinned.unwrap_or_default().samples_dropped;
    let pruned = removed.pruned.and_then(|pruned| pruned.events).unwrap_or(0);
    let kept: usize = loaded.sessions.iter().map(|one| one.events.len()).sum();
    let sessions = i64::try_from(loaded.sessions.len()).unwrap();
    assert_eq!(
        i64::try_from(kept).unwrap() + thinned + pruned,
        sessions * SAMPLES
    );
    let mut sessions: Vec<_> = loaded
        .sessions
        .iter()
        .map(|session| (session.summary.status, session.summary.pid))
        .collect();
    sessions.sort();
    sessions
}

#[test]
fn a_directory_without_locks_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library(folder.path(), "no_locks") else {
        println!("skipped: there is no C compiler");
        return;
    };
    let _alone = ONE_AT_A_TIME.lock();
    let mut longest = Vec::new();
    for error in ["ENOLCK", "ENOSYS"] {
        let directory = folder.path().join(error);
        let (first, used) = start(&directory, &library, error, &mut longest);
        assert_eq!(used, directory);
        let (second, sibling) = start(&directory, &library, error, &mut longest);
        let expected = format!("{error}-pid{}", second.id());
        assert_eq!(sibling, folder.path().join(expected));
        end(second);
        end(first);
        assert_eq!(recorded(&directory), [(SessionStatus::Completed, 1)]);
        assert_eq!(recorded(&sibling), [(SessionStatus::Completed, 1)]);
        assert!(!directory.join(".stormlog-owner").exists());

        // The next recorder is killed; its directory is free for the one after it.
        let (third, used) = start(&directory, &library, error, &mut longest);
        assert_eq!(used, directory);
        kill(third);
        assert!(directory.join(".stormlog-owner").exists());
        let (fourth, used) = start(&directory, &library, error, &mut longest);
        assert_eq!(used, directory);
        end(fourth);
        let statuses: Vec<SessionStatus> = recorded(&directory).iter().map(|one| one.0).collect();
        assert_eq!(
            statuses,
            [
                SessionStatus::Completed,
                SessionStatus::Completed,
                SessionStatus::Interrupted
            ]
        );
    }
    // The best of several attempts: a busy machine is sometimes late, code that waits always is.
    let best = longest.iter().min().copied().unwrap();
    assert!(
        best < DISK.as_millis(),
        "appends waited for the disk: {longest:?} ms"
    );
}

#[test]
fn several_writers_that_start_at_once_share_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library(folder.path(), "no_locks") else {
        println!("skipped: there is no C compiler");
        return;
    };
    let directory = folder.path().join("run");
    let _alone = ONE_AT_A_TIME.lock();
    let mut recorders: Vec<Child> = (0..4)
        .map(|_| launch(&directory, &library, "ENOLCK"))
        .collect();
    let mut used: Vec<PathBuf> = recorders
        .iter_mut()
        .map(|recorder| has_recorded(recorder).0)
        .collect();
    recorders.into_iter().for_each(end);
    used.sort();
    used.dedup();
    assert_eq!(used.len(), 4, "{used:?}");
    assert_eq!(used[0], directory);
    for own in &used {
        assert_eq!(recorded(own), [(SessionStatus::Completed, 1)]);
    }
    assert!(!directory.join(".stormlog-owner").exists());
}
