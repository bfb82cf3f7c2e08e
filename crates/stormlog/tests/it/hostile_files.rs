//! Runs every reading command against special files: FIFOs, devices, sockets, links out of the
//! artifact. Each command ends in time, names the file, and shows nothing from outside.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use assert_cmd::cargo::CommandCargoExt as _;

use crate::support::{folder, root};

/// What replaces a file of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trap {
    Fifo,
    Device,
    Socket,
    LinkToFifo,
    Outside,
}

const TRAPS: [Trap; 5] = [
    Trap::Fifo,
    Trap::Device,
    Trap::Socket,
    Trap::LinkToFifo,
    Trap::Outside,
];

/// A text that must not appear in any output.
const SECRET: &str = "outside-5e3d";

impl Trap {
    /// Replaces a file by the trap; returns what must stay alive meanwhile.
    fn set(self, file: &Path, outside: &Path) -> Option<UnixListener> {
        let _ = fs::remove_file(file);
        let fifo = |path: &Path| {
            let made = Command::new("mkfifo").arg(path).status().expect("mkfifo");
            assert!(made.success());
        };
        match self {
            Self::Fifo => fifo(file),
            Self::Device => symlink("/dev/zero", file).expect("a link"),
            Self::Socket => return Some(UnixListener::bind(file).expect("a socket")),
            Self::LinkToFifo => {
                let target = file.with_extension("pipe");
                let _ = fs::remove_file(&target);
                fifo(&target);
                symlink(target, file).expect("a link");
            }
            Self::Outside => symlink(outside, file).expect("a link"),
        }
        None
    }
}

/// Runs a command, which must end by itself within a generous time and little memory.
fn call(directory: &Path, arguments: &[&str]) -> Output {
    let program = Command::cargo_bin("stormlog").expect("the program is built");
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v 4000000; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(arguments)
        .current_dir(directory)
        .env("NO_COLOR", "1");
    let mut command = assert_cmd::Command::from_std(command);
    let output = command.timeout(Duration::from_mins(2)).output();
    let output = output.expect("it starts");
    assert!(
        output.status.code().is_some(),
        "{arguments:?} did not end: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a fixture").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).expect("a file");
        }
    }
}

/// An artifact, and its files that readers open.
struct Artifact {
    fixture: &'static str,
    files: &'static [&'static str],
}

const ARTIFACTS: [Artifact; 3] = [
    Artifact {
        fixture: "two_ranks",
        files: &[
            "manifest.json",
            "segment-000001.jsonl",
            "rollups.json",
            "issues.json",
            "stormlog_run.json",
            "stormlog_attachments.json",
            "host.json",
        ],
    },
    Artifact {
        fixture: "oom_bundle",
        files: &["manifest.json", "events.json", "metadata.json"],
    },
    Artifact {
        fixture: "diagnose_bundle",
        files: &["manifest.json", "telemetry_timeline.json"],
    },
];

const COMMANDS: [&[&str]; 13] = [
    &["show", "artifact"],
    &["validate", "artifact"],
    &["analyze", "artifact"],
    &["compare", "artifact", "artifact"],
    &["convert", "artifact", "converted.jsonl", "--force"],
    &["plot", "artifact", "--output", "plot.svg"],
    &["query", "sessions", "artifact", "--json"],
    &["query", "events", "artifact", "--jsonl"],
    &["query", "ooms", "artifact", "--json"],
    &["query", "summary", "artifact", "--metric", "alert_count"],
    &["query", "watch", "artifact", "--from-start", "--for", "0.1"],
    &["issues", "list", "artifact"],
    &["issues", "check", "artifact"],
];

/// A file outside of the artifact with the secret text.
fn secret(folder: &Path) -> PathBuf {
    let file = folder.join("secret.json");
    let record = format!(
        r#"{{"schema_version": 1, "format": "stormlog.append_only_telemetry_sink",
            "segments": [], "sessions": [], "bundle_name": "{SECRET}", "reason": "{SECRET}",
            "backend": "{SECRET}", "event_count": 1, "exception_type": "{SECRET}",
            "timestamp": 1.0, "context": "{SECRET}", "session_id": "{SECRET}"}}"#
    );
    fs::write(&file, record.replace('\n', " ") + "\n").expect("a file");
    file
}

#[test]
fn no_reading_command_waits_or_leaves_the_artifact() {
    let calls: Vec<(&Artifact, &str, Trap)> = ARTIFACTS
        .iter()
        .flat_map(|artifact| artifact.files.iter().map(move |file| (artifact, *file)))
        .flat_map(|(artifact, file)| TRAPS.map(|trap| (artifact, file, trap)))
        .collect();
    std::thread::scope(|scope| {
        for part in calls.chunks(calls.len().div_ceil(4)) {
            scope.spawn(move || {
                for (artifact, file, trap) in part {
                    try_commands(artifact, file, *trap);
                }
            });
        }
    });
}

fn try_commands(artifact: &Artifact, file: &str, trap: Trap) {
    let folder = folder();
    let outside = secret(folder.path());
    let at = folder.path().join("artifact");
    copy(&root().join("fixtures/runs").join(artifact.fixture), &at);
    let is_there = at.join(file).exists();
    let _socket = trap.set(&at.join(file), &outside);
    for command in COMMANDS {
        let output = call(folder.path(), command);
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        let text = String::from_utf8_lossy(&text);
        let case = format!(
            "{command:?} of {} with {trap:?} as {file}",
            artifact.fixture
        );
        assert!(!text.contains(SECRET), "{case}: {text}");
        assert!(!text.contains("panicked"), "{case}: {text}");
        // A file that a command needs and cannot read is named, with its type.
        if command[0] == "validate" && is_there && file != "metadata.json" {
            assert_ne!(output.status.code(), Some(0), "{case}: {text}");
            assert!(text.contains(file), "{case}: {text}");
            let kind = match trap {
                Trap::Fifo | Trap::LinkToFifo => "a FIFO, not a regular file",
                Trap::Device => "a character device, not a regular file",
                Trap::Socket => "a socket, not a regular file",
                Trap::Outside => "outside the",
            };
            assert!(text.contains(kind), "{case}: {text}");
        }
    }
}

#[test]
fn what_the_user_names_may_be_a_link() {
    let folder = folder();
    let real = folder.path().join("elsewhere/sink");
    copy(&root().join("fixtures/runs/two_ranks"), &real);
    symlink(&real, folder.path().join("link")).expect("a link");
    let segment = real.join("segment-000001.jsonl");
    symlink(&segment, folder.path().join("events.jsonl")).expect("a link");
    symlink(
        real.join("manifest.json"),
        folder.path().join("manifest.json"),
    )
    .expect("a link");
    // A link inside the artifact is followed too.
    fs::rename(&segment, real.join("first.dat")).expect("a rename");
    symlink("first.dat", &segment).expect("a link");
    for path in ["link", "events.jsonl", "manifest.json"] {
        for command in [
            &["validate", path][..],
            &["show", path],
            &["query", "events", path, "--jsonl"],
        ] {
            let output = call(folder.path(), command);
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{command:?}: {text}");
            assert!(!output.stdout.is_empty(), "{command:?}");
        }
    }
}

#[test]
fn a_folder_with_traps_is_read_around_them() {
    let folder = folder();
    let runs = folder.path().join("runs");
    copy(&root().join("fixtures/runs/two_ranks"), &runs.join("sink"));
    let outside = secret(folder.path());
    let _ = Trap::Outside.set(&runs.join("events.json"), &outside);
    let _ = Trap::Fifo.set(&runs.join("telemetry.jsonl"), &outside);
    let shown = call(folder.path(), &["analyze", "runs"]);
    let text = String::from_utf8_lossy(&shown.stderr);
    assert_eq!(shown.status.code(), Some(0), "{text}");
    assert!(text.contains("leads outside the artifact"), "{text}");
    assert!(text.contains("a FIFO, not a regular file"), "{text}");
    let checked = call(folder.path(), &["issues", "check", "runs"]);
    let text = String::from_utf8_lossy(&checked.stderr);
    assert_eq!(checked.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot check"), "{text}");
}
