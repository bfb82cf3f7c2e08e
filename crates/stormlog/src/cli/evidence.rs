//! `stormlog evidence`: requests evidence windows from a running job, in which its allocations are
//! traced, and prints the result.
//!
//! The command writes a request file into the directory of each sink of the job. The recorder
//! inside the program checks for the request file about once a second and writes its answer to a
//! second file in the same directory.

use std::borrow::Cow;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::catalog::last_event_ns;
use stormlog_analysis::detect::SiteRole;
use stormlog_analysis::query::effective_status;
use stormlog_analysis::timeline::{EvidenceWindow, Site, WindowEvidence};
use stormlog_analysis::{read_manifest, sinks_of_run};
use stormlog_format::json::parse;
use stormlog_format::{Map, SessionStatus, SinkNames, Value, counted, session_sources};
use stormlog_report::bytes;
use stormlog_report::escape::{for_terminal, path_for_terminal};

use crate::Exit;
use crate::console::Console;
use crate::failure::hinted;
use crate::machine::on_this_machine;
use crate::recording::seconds;

/// The names of the request file and the answer file; the recorder uses the same names.
const REQUEST: &str = "evidence.request";
const ANSWER: &str = "evidence.answer";
/// How often the command checks for the answer, and the largest size of an answer in bytes.
const PAUSE: Duration = Duration::from_millis(200);
const LARGEST_BYTES: u64 = 4 << 20;
/// The version of the JSON document that `--json` prints.
const SCHEMA_VERSION: u32 = 1;
/// The largest number of lines of code, and of holders of memory, printed for one device.
const MOST_LINES: usize = 5;

/// Ask a running job which lines of code allocate memory that stays in use
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The recorder opens a few short evidence windows at the ends of steps. They
cost the program at most 300 ms in any minute. Only the owner of the recording
can request them.

Examples:
  stormlog evidence run
  stormlog evidence --timeout 120 run
  stormlog evidence --json run | jq '.devices[].evidence.stacks[0]'"
)]
pub(crate) struct Arguments {
    /// The folder that 'stormlog run' records into
    #[arg(value_name = "RUN_DIR")]
    run: PathBuf,
    /// How long to wait for the answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "90", value_parser = seconds)]
    timeout: f64,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// The folder of a recording (a sink) into which a request was written, and the answer of its
/// recorder; `None` until it answers.
struct AskedSink {
    directory: PathBuf,
    answer: Option<Map>,
}

impl AskedSink {
    fn is_ended(&self) -> bool {
        let state = self.answer.as_ref().and_then(|answer| answer.get("state"));
        state
            .and_then(Value::as_text)
            .is_some_and(|state| *state == "ended")
    }
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let patience = Duration::try_from_secs_f64(arguments.timeout)
        .map_err(|_| anyhow::anyhow!("'--timeout' must be a number of seconds"))?;
    let sinks = running_sinks(&arguments.run)?;
    let id = stormlog_format::new_session_id().to_string();
    let id: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
    let mut asked = Vec::new();
    for directory in sinks {
        leave_request(&directory, &id)?;
        let answer = None;
        asked.push(AskedSink { directory, answer });
    }
    let deadline = Instant::now() + patience;
    let mut shown = None;
    while !asked.iter().all(AskedSink::is_ended) && Instant::now() < deadline {
        sleep(PAUSE);
        for one in &mut asked {
            one.answer = read_answer(&one.directory, &id).or(one.answer.take());
        }
        let windows: usize = asked.iter().map(|one| windows(one.answer.as_ref())).sum();
        if console.err_is_terminal && shown != Some(windows) {
            shown = Some(windows);
            write!(console.err, "\r{windows} evidence windows so far ")?;
        }
    }
    if shown.is_some() {
        writeln!(console.err)?;
    }
    // Requests without an answer are removed; otherwise a process could still answer them long
    // after this command has ended.
    for one in asked.iter().filter(|one| one.answer.is_none()) {
        let _ = std::fs::remove_file(one.directory.join(REQUEST));
    }
    if asked.iter().all(|one| one.answer.is_none()) {
        let error = anyhow::anyhow!(
            "no answer from '{}' within {} s",
            arguments.run.display(),
            arguments.timeout
        );
        let hint = "evidence windows open only in a PyTorch program that uses a CUDA device and \
                    runs steps or allocates memory; if its steps are slow, give a longer \
                    '--timeout'";
        return Err(hinted(error, hint));
    }
    if arguments.json {
        print_json(&asked, console)?;
    } else {
        print_text(&asked, console)?;
    }
    Ok(Exit::Fine)
}

/// Finds the device sinks below a run's folder that `stormlog run` is still recording. Fails if
/// there are none.
fn running_sinks(run: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut ended = 0;
    let mut sinks = Vec::new();
    std::fs::read_dir(run)
        .map_err(|error| anyhow::anyhow!("cannot read '{}': {error}", run.display()))?;
    for (directory, names) in sinks_of_run(run) {
        let manifest = read_manifest(&directory.join(names.manifest()));
        let Some(manifest) = manifest.filter(|_| names == SinkNames::Ordinary) else {
            continue;
        };
        let sessions = manifest.sessions.iter();
        let sessions = sessions.filter(|session| session.source == session_sources::RUN);
        let statuses = sessions.map(|session| {
            let last_event_ns = || last_event_ns(&directory, &manifest, &session.session_id);
            on_this_machine(|here| effective_status(session, last_event_ns, Some(here)))
        });
        let statuses: Vec<SessionStatus> = statuses.collect();
        if statuses.contains(&SessionStatus::Running) {
            sinks.push(directory);
        } else {
            ended += statuses.len();
        }
    }
    if !sinks.is_empty() {
        return Ok(sinks);
    }
    let (what, hint) = if ended > 0 {
        (
            "the run has ended",
            "'stormlog analyze' names the cause if evidence windows opened during the run",
        )
    } else {
        (
            "no PyTorch process records into this folder now",
            "evidence needs a program under 'stormlog run' that uses a CUDA device",
        )
    };
    let error = anyhow::anyhow!("cannot request evidence in '{}': {what}", run.display());
    Err(hinted(error, hint))
}

/// Writes the request file with access for its owner only, so that the recorder can trust the
/// request.
fn leave_request(directory: &Path, id: &str) -> anyhow::Result<()> {
    let owner = std::fs::metadata(directory)?.uid();
    if rustix::process::geteuid().as_raw() != owner {
        let error = anyhow::anyhow!("'{}' belongs to another user", directory.display());
        return Err(hinted(
            error,
            "run the command as the user that runs the job",
        ));
    }
    let path = directory.join(REQUEST);
    // Removes an old request that was never answered. The new request is created with `create_new`,
    // which never follows a symbolic link.
    let _ = std::fs::remove_file(&path);
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| file.write_all(id.as_bytes()));
    written.map_err(|error| anyhow::anyhow!("cannot write '{}': {error}", path.display()))
}

/// Reads the evidence from the answer file; returns `None` if the file does not answer the request
/// with this id.
fn read_answer(directory: &Path, id: &str) -> Option<Map> {
    let mut options = std::fs::OpenOptions::new();
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).ok()?;
    let file = options.read(true).custom_flags(flags);
    let file = file.open(directory.join(ANSWER)).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    file.take(LARGEST_BYTES).read_to_end(&mut text).ok()?;
    let answer = parse(&text).ok()?;
    let answer = answer.as_map()?;
    let evidence = answer.object("evidence")?;
    (*answer.text("request")? == id).then(|| evidence.clone())
}

fn windows(answer: Option<&Map>) -> usize {
    answer.map_or(0, |answer| answer.list("windows").len())
}

/// What evidence windows found on the devices of a run.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    /// The version of the evidence document.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    schema_version: u32,
    devices: Vec<Device<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct Device<'a> {
    /// The directory of the device's sink.
    directory: Cow<'a, str>,
    /// Whether the search for evidence has ended; otherwise more windows may follow.
    is_complete: bool,
    /// The answer of the recorder, in the form of the event `memory_evidence`; null if the recorder
    /// has not answered.
    evidence: Option<&'a Map>,
}

fn print_json(asked: &[AskedSink], console: &mut Console<'_>) -> anyhow::Result<()> {
    let devices = asked.iter().map(|one| Device {
        directory: one.directory.to_string_lossy(),
        is_complete: one.is_ended(),
        evidence: one.answer.as_ref(),
    });
    Ok(console.print_json(&Document {
        schema_version: SCHEMA_VERSION,
        devices: devices.collect(),
    })?)
}

fn print_text(asked: &[AskedSink], console: &mut Console<'_>) -> anyhow::Result<()> {
    for one in asked {
        let Some(answer) = &one.answer else {
            let directory = path_for_terminal(&one.directory);
            writeln!(console.out, "{directory}: no answer")?;
            continue;
        };
        for line in lines(answer) {
            writeln!(console.out, "{}", for_terminal(&line))?;
        }
    }
    Ok(())
}

/// Describes the answer of a recorder as lines of text: a summary of the evidence windows, the
/// lines of code whose allocations stayed in use, and the holders of this memory.
fn lines(answer: &Map) -> Vec<String> {
    let evidence = WindowEvidence::of_evidence(answer);
    let total = |bytes: fn(&EvidenceWindow) -> i64| {
        let windows = evidence.windows.iter().map(bytes);
        bytes::human(windows.fold(0, i64::saturating_add))
    };
    let device = answer.int("device");
    let mut lines = vec![format!(
        "GPU {device}: {count}; of the memory allocated in windows, \
         {survivors} stayed in use; memory in use changed by {growth}",
        device = device.map_or_else(|| "?".to_owned(), |device| device.to_string()),
        count = counted(evidence.windows.len(), "evidence window"),
        survivors = total(|window| window.survivor_bytes),
        growth = total(|window| window.growth_bytes),
    )];
    if let Some(reason) = &evidence.reason {
        lines.push(format!("  no further windows: {reason}"));
    }
    let stacks = evidence.survivors_by_stack().into_iter().take(MOST_LINES);
    lines.extend(stacks.filter_map(|(stack, held)| {
        let Site { file, line, .. } = stack.first()?;
        let source = stack.first()?.source_text.as_deref().unwrap_or_default();
        let line = format!("  {} at {file}:{line} {source}", bytes::human(held));
        Some(line.trim_end().to_owned())
    }));
    let holders = evidence.holders.iter().take(MOST_LINES);
    lines.extend(holders.map(|one| {
        let kept = one.keeping.line.as_ref();
        let kept = kept.map_or_else(String::new, |(role, site)| {
            format!(
                ", {} at {}",
                SiteRole::from(*role).participle(),
                site.place()
            )
        });
        format!("  {} held by {}{kept}", bytes::human(one.bytes), one.name)
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(answer: &str) -> Vec<String> {
        lines(parse(answer.as_bytes()).unwrap().as_map().unwrap())
    }

    #[test]
    fn an_answer_lists_lines_and_holders_by_their_bytes() {
        let window = r#"{"survivor_bytes": 3145728, "growth_bytes": 2097152, "sites": [
            {"stack": 0, "bytes": 1048576}, {"stack": 1, "bytes": 2097152},
            {"stack": 2, "bytes": 4194304}, {"stack": 3, "bytes": -7}]}"#;
        let frame = |line: i64| {
            format!(r#"[{{"file": "/u/a.py", "line": {line}, "function": "f", "source": "x"}}]"#)
        };
        let lines = lines_of(&format!(
            r#"{{"mode": "steps", "device": 1, "reason": null, "windows": [{window}, {window}],
            "stacks": [{}, {}, [], {}], "holders": [{{"holder": "`kept`", "bytes": 4194304,
            "kept_role": "adds_items", "kept_at": {{"file": "/u/b.py", "line": 3, "function": "g"}}}}]}}"#,
            frame(5),
            frame(9),
            frame(11),
        ));
        assert!(
            lines[0]
                .starts_with("GPU 1: 2 evidence windows; of the memory allocated in windows, 6.0"),
            "{lines:?}"
        );
        assert!(lines[1].ends_with("at /u/a.py:9 x"), "{lines:?}");
        // Stacks without lines and negative numbers of bytes are left out, as in `analyze`.
        assert!(lines[2].ends_with("at /u/a.py:5 x"), "{lines:?}");
        assert!(
            lines[3].ends_with("held by `kept`, items added at b.py:3"),
            "{lines:?}"
        );
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn an_answer_of_nonsense_is_no_failure() {
        let windows = r#"[{"sites": [{"stack": -4, "bytes": "x"}]}]"#;
        let answer = format!(r#"{{"mode": "time", "windows": {windows}, "stacks": 3}}"#);
        assert!(lines_of(&answer)[0].starts_with("GPU ?: 0 evidence windows"));
        // The answer of a recorder that failed before.
        let failed = lines_of(r#"{"state": "ended", "reason": "no memory"}"#);
        assert_eq!(failed[1], "  no further windows: no memory");
    }

    #[test]
    fn a_request_replaces_a_link_and_only_its_own_answer_counts() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        std::fs::write(&other, "keep").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join(REQUEST)).unwrap();
        leave_request(folder.path(), "abc").unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "keep");
        let metadata = std::fs::symlink_metadata(folder.path().join(REQUEST)).unwrap();
        assert_eq!((metadata.is_file(), metadata.mode() & 0o777), (true, 0o600));
        let answer = folder.path().join(ANSWER);
        std::fs::write(
            &answer,
            r#"{"request": "abc", "evidence": {"state": "ended"}}"#,
        )
        .unwrap();
        assert_eq!(read_answer(folder.path(), "abd"), None);
        let answer = read_answer(folder.path(), "abc");
        let asked = AskedSink {
            directory: folder.path().to_path_buf(),
            answer,
        };
        assert!(asked.is_ended());
    }
}
