//! Disks that accept no writes: full, read-only, removed, forbidden.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use stormlog_analysis::{EventRef, LoadOptions};
use stormlog_capture::store::{BackgroundSink, SinkConfig, SinkStatus};
use stormlog_format::SessionStatus;

use crate::events::{sample, session};
use crate::process::{child, given_directory};

const PATIENCE: Duration = Duration::from_mins(1);

/// A small file system, which is unmounted when this is dropped.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` where mounting is not possible; the reason is printed.
    fn mount(size: &str) -> Option<Self> {
        let disk = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let options = format!("size={size},mode=0755");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none"])
            .arg(disk.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(disk),
            Ok(output) => {
                let reason = String::from_utf8_lossy(&output.stderr).into_owned();
                println!(
                    "skipped: a small disk cannot be mounted here: {}",
                    reason.trim()
                );
                None
            }
            Err(error) => {
                println!("skipped: a small disk cannot be mounted here: {error}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn remount(&self, how: &str) {
        let done = Command::new("mount")
            .args(["-o", &format!("remount,{how}")])
            .arg(self.path())
            .status();
        assert!(done.unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn wait_until(sink: &BackgroundSink, is_so: impl Fn(&SinkStatus) -> bool) -> SinkStatus {
    let end = Instant::now() + PATIENCE;
    loop {
        let status = sink.status();
        if is_so(&status) {
            return status;
        }
        assert!(Instant::now() < end, "still {status:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn loaded(directory: &Path) -> stormlog_analysis::LoadedSession {
    let loaded = stormlog_analysis::load_sessions(directory, &LoadOptions::default()).unwrap();
    assert_eq!(loaded.sessions.len(), 1);
    loaded.sessions.into_iter().next().unwrap()
}

/// A program that records more than its disk can hold, and ends with its own exit code.
#[test]
fn program_on_a_small_disk() {
    let Some(directory) = given_directory() else {
        return;
    };
    let sink = BackgroundSink::start(SinkConfig::new(directory.join("sink")), session("one"));
    let mut slow = 0;
    for number in 0..20_000 {
        let started = Instant::now();
        sink.record(sample("one", number));
        slow += u32::from(started.elapsed() > Duration::from_millis(1));
        if number % 100 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    // A busy machine delays a call now and then; a disk would delay every call.
    assert!(slow < 200, "recording waited {slow} times");
    let ending = Instant::now();
    let end = sink.finish(SessionStatus::Completed, PATIENCE);
    assert_eq!(end.session_status, SessionStatus::Incomplete);
    assert!(end.dropped_events > 0 && end.problem.is_some(), "{end:?}");
    let took = ending.elapsed();
    assert!(took < Duration::from_millis(1900), "the end took {took:?}");
    std::process::exit(23);
}

#[test]
fn a_program_on_a_full_disk_goes_on_and_its_session_is_incomplete() {
    let Some(disk) = SmallDisk::mount("512k") else {
        return;
    };
    let mut program = child("full_disk::program_on_a_small_disk", disk.path());
    assert_eq!(
        program.status().unwrap().code(),
        Some(23),
        "its own exit code"
    );
    let session = loaded(&disk.path().join("sink"));
    assert_eq!(session.summary.status, SessionStatus::Incomplete);
    assert!(
        session.events.len() > 100,
        "{} events",
        session.events.len()
    );
    let times: Vec<i64> = session.events.iter().map(EventRef::timestamp_ns).collect();
    assert!(
        times.windows(2).all(|pair| pair[0] < pair[1]),
        "in order, none twice"
    );
    let manifest = std::fs::read_to_string(disk.path().join("sink/manifest.json")).unwrap();
    assert!(manifest.contains("dropped_event_count"), "{manifest}");
}

#[test]
fn a_disk_that_has_room_again_gets_everything() {
    let Some(disk) = SmallDisk::mount("1m") else {
        return;
    };
    let directory = disk.path().join("sink");
    let config = SinkConfig {
        flush_every: Duration::from_millis(20),
        ..SinkConfig::new(&directory)
    };
    let sink = BackgroundSink::start(config, session("one"));
    sink.record(sample("one", 0));
    assert!(sink.flush(PATIENCE));
    let filler = disk.path().join("filler");
    // This fails when nothing more fits, which is intended.
    let _ = std::fs::write(&filler, vec![0; 2 << 20]);
    for number in 1..500 {
        assert!(sink.record(sample("one", number)));
    }
    let failing = wait_until(&sink, |status| status.problem.is_some());
    assert_eq!(failing.session_status, SessionStatus::Incomplete);
    assert!(failing.problem.unwrap().contains("No space left"));
    std::fs::remove_file(filler).unwrap();
    let well = wait_until(&sink, |status| status.problem.is_none());
    assert_eq!(
        (well.session_status, well.dropped_events),
        (SessionStatus::Running, 0)
    );
    let end = sink.finish(SessionStatus::Completed, PATIENCE);
    assert_eq!(end.session_status, SessionStatus::Completed);
    let session = loaded(&directory);
    assert_eq!(session.summary.status, SessionStatus::Completed);
    assert_eq!(session.events.len(), 500);
}

#[test]
fn a_disk_that_is_read_only_for_a_while() {
    let Some(disk) = SmallDisk::mount("4m") else {
        return;
    };
    disk.remount("ro");
    let directory = disk.path().join("sink");
    let sink = BackgroundSink::start(SinkConfig::new(&directory), session("one"));
    for number in 0..100 {
        assert!(sink.record(sample("one", number)));
    }
    let failing = wait_until(&sink, |status| status.problem.is_some());
    assert!(failing.problem.unwrap().contains("Read-only"));
    disk.remount("rw");
    let end = {
        wait_until(&sink, |status| status.problem.is_none());
        sink.finish(SessionStatus::Completed, PATIENCE)
    };
    assert_eq!(
        (end.session_status, end.dropped_events),
        (SessionStatus::Completed, 0)
    );
    assert_eq!(loaded(&directory).events.len(), 100);
}

#[test]
fn a_directory_taken_away_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("sink");
    let config = SinkConfig {
        flush_every_events: 1,
        ..SinkConfig::new(&directory)
    };
    let sink = BackgroundSink::start(config, session("one"));
    for number in 0..10 {
        sink.record(sample("one", number));
    }
    assert!(sink.flush(PATIENCE));
    // The manifest may be written a moment after the events. A file that appears while the
    // directory is being emptied would keep it from being removed.
    crate::scripted::wait_until("the manifest counts them", || {
        let manifest = std::fs::read_to_string(directory.join("manifest.json"));
        manifest.is_ok_and(|text| text.contains("\"event_count\": 10"))
    });
    std::fs::remove_dir_all(&directory).unwrap();
    for number in 10..20 {
        sink.record(sample("one", number));
    }
    let end = sink.finish(SessionStatus::Completed, PATIENCE);
    // The content of the directory is gone, and the session is marked accordingly.
    assert_eq!(
        (end.session_status, end.dropped_events),
        (SessionStatus::Incomplete, 10)
    );
    let session = loaded(&directory);
    assert_eq!(session.summary.status, SessionStatus::Incomplete);
    assert_eq!(session.events.len(), 10);
}

/// A program that may not write to its directory.
#[test]
fn program_without_permission() {
    let Some(directory) = given_directory() else {
        return;
    };
    let sink = BackgroundSink::start(SinkConfig::new(directory.join("sink")), session("one"));
    for number in 0..100 {
        sink.record(sample("one", number));
    }
    let failing = wait_until(&sink, |status| status.problem.is_some());
    assert!(failing.problem.unwrap().contains("Permission denied"));
    let end = sink.finish(SessionStatus::Completed, PATIENCE);
    assert_eq!(
        (end.session_status, end.dropped_events),
        (SessionStatus::Incomplete, 100)
    );
    std::process::exit(23);
}

#[test]
fn a_program_without_permission_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    if !rustix::process::getuid().is_root() {
        println!("skipped: only root can become a user without permission");
        return;
    }
    // The binary itself must be reachable for other users.
    let binary: PathBuf = folder.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let other_user = 65_534;
    let mut program = Command::new(&binary);
    program
        .args(["--exact", "full_disk::program_without_permission"])
        .env("STORMLOG_TEST_DIRECTORY", folder.path())
        .current_dir("/")
        .uid(other_user)
        .gid(other_user);
    let ended = loop {
        match program.output() {
            // A child of another test may hold the fresh copy open for a moment.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(20));
            }
            ended => break ended.unwrap(),
        }
    };
    assert_eq!(ended.status.code(), Some(23), "{ended:?}");
}
