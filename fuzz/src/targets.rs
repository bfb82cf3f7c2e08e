//! The targets of the fuzzer: each takes any bytes and panics when something is wrong. Compiled
//! into the fuzzer and into the test that replays the corpus.

use std::cell::OnceCell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use stormlog_analysis::allocator_snapshot::{Account, Owners, Snapshot};
use stormlog_analysis::{Events, LoadOptions, OnError, load_sessions, stream_events};
use stormlog_format::json::{Layout, NonFinite, Reader, Writer, parse};
use stormlog_format::{Manifest, RecordDefaults, Text, Value, event_from_record, validate};
use stormlog_redact::{LineFilter, redacted, redacted_text, redacted_words};

/// A target's function.
pub type Target = fn(&[u8]);

/// Every target with its name.
pub const TARGETS: [(&str, Target); 6] = [
    ("json", json),
    ("record", record),
    ("loaders", loaders),
    ("pickle", pickle),
    ("pack", pack),
    ("secrets", secrets),
];

/// What the JSON reader accepts can be written, and is read again as the same.
pub fn json(input: &[u8]) {
    let _ = Reader::new(input).skip_value();
    let Ok(value) = parse(input) else {
        return;
    };
    let bare = Writer::new(Layout::Indented).non_finite(NonFinite::Bare);
    let text = bare.to_string(&value);
    let again = parse(text.as_bytes()).map(|value| bare.to_string(&value));
    // Bytes that are not UTF-8 are replaced when they are written.
    assert!(std::str::from_utf8(input).is_err() || again == Ok(text));
    let _ = Manifest::from_value(&value);
}

/// An event made from a record is a valid record again, and the same event.
pub fn record(input: &[u8]) {
    let Ok(Value::Map(record)) = parse(input) else {
        return;
    };
    let _ = validate(&record);
    let Ok(event) = event_from_record(&record, &RecordDefaults::default()) else {
        return;
    };
    let written = event.to_record();
    validate(&written).expect("the record of an event is valid");
    let again = event_from_record(&written, &RecordDefaults::default());
    let again = again.expect("the record of an event is an event");
    assert_eq!(again.to_line(), event.to_line());
}

/// An artifact of any kind is loaded or refused, and streaming it shows the same events as
/// loading it. The first byte selects the kind and whether damage is skipped or an error; an
/// artifact of two files is split at the first byte 0xff, which is in no text.
pub fn loaders(input: &[u8]) {
    let Some((kind, input)) = input.split_first() else {
        return;
    };
    let on_error = match kind / KINDS % 2 {
        0 => OnError::Skip,
        _ => OnError::Raise,
    };
    let kind = kind % KINDS;
    let folder = scratch(kind);
    let first_end = input.iter().position(|byte| *byte == 0xff);
    let first = &input[..first_end.unwrap_or(input.len())];
    let second = first_end.map_or(&b"{\"timestamp\": 1}\n"[..], |end| &input[end + 1..]);
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).expect("a file in the scratch folder");
        path
    };
    let both = |names: [&str; 2]| {
        file(names[0], first);
        file(names[1], second);
        folder.clone()
    };
    let path = match kind {
        0 => file("x.jsonl", input),
        1 => file("x.json", input),
        2 => file("x.csv", input),
        3 => file("telemetry_timeline.json", input),
        4 => {
            let cell = String::from_utf8_lossy(input).replace('"', "\"\"");
            let table = format!("timestamp,metadata\n1,\"{cell}\"\n");
            file("x.csv", table.as_bytes())
        }
        5 => both(["manifest.json", "segment-000001.jsonl"]),
        6 => both(["manifest.json", "events.json"]),
        7 => both(["manifest.json", "telemetry_timeline.json"]),
        8 => both(["host.json", "segment-000001.ndjson"]),
        9 => file("x.jsonl", &gzip(input)),
        10 => file("x.csv", &zstd::bulk::compress(input, 1).unwrap_or_default()),
        _ => file("x.jsonl", &packed(input)),
    };
    load(&path, on_error);
}

/// The kinds of artifacts of the target `loaders`.
const KINDS: u8 = 12;

/// A folder for inputs of one kind. It stays with its files, which the next input of the kind
/// overwrites: making and deleting them takes longer than reading most inputs. Each thread has its
/// own, because tests replay side by side.
fn scratch(kind: u8) -> PathBuf {
    thread_local! {
        static ROOT: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
    }
    let make_root = || {
        let root = tempfile::tempdir().expect("a scratch folder");
        for kind in 0..KINDS {
            fs::create_dir(root.path().join(format!("run-{kind}"))).expect("a scratch folder");
        }
        root
    };
    ROOT.with(|root| {
        let root = root.get_or_init(make_root).path();
        // The loaders resolve paths, one call of the system for each part. `run.py` starts fuzzers
        // in their temporary folder.
        let here = std::env::current_dir().unwrap_or_default();
        let root = root.strip_prefix(here).unwrap_or(root);
        root.join(format!("run-{kind}"))
    })
}

fn gzip(input: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let written = encoder.write_all(input);
    written.and_then(|()| encoder.finish()).unwrap_or_default()
}

/// The input as it is, behind the first bytes of a compressed file.
fn packed(input: &[u8]) -> Vec<u8> {
    let start: &[u8] = match input.first() {
        Some(0) => b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
        Some(1) => b"\x28\xb5\x2f\xfd",
        _ => b"",
    };
    [start, input.get(1..).unwrap_or_default()].concat()
}

/// Streams and loads an artifact, and compares.
fn load(path: &Path, on_error: OnError) {
    let options = LoadOptions {
        on_error,
        ..LoadOptions::default()
    };
    let mut streamed: Vec<String> = Vec::new();
    let stream = stream_events(path, &options, &mut |events: &Events| {
        streamed.extend(events.iter().map(|event| event.to_event().to_line()));
    });
    let loaded = load_sessions(path, &options);
    match (stream, loaded) {
        (Ok(_), Ok(loaded)) => {
            let sessions = loaded.sessions.iter();
            let mut found: Vec<String> = sessions
                .flat_map(|session| session.events.iter())
                .map(|event| event.to_event().to_line())
                .collect();
            found.sort();
            streamed.sort();
            assert_eq!(found, streamed, "streaming and loading differ");
        }
        (Err(stream), Err(loaded)) => assert_eq!(stream.to_string(), loaded.to_string()),
        (stream, loaded) => {
            let stream = stream.map(|damage| damage.len());
            let loaded = loaded.map(|loaded| loaded.damage.len());
            panic!("streaming gives {stream:?}, loading {loaded:?}");
        }
    }
}

/// A pack is unpacked into its folder or refused. The first byte selects what the input is: the
/// pack, its archive before compression, or the names and contents of its files, separated by 0xff.
pub fn pack(input: &[u8]) {
    let Some((kind, input)) = input.split_first() else {
        return;
    };
    let compressed = |archive: &[u8]| zstd::bulk::compress(archive, 1).unwrap_or_default();
    let bytes = match kind % 3 {
        0 => input.to_vec(),
        1 => compressed(input),
        _ => compressed(&archive(input)),
    };
    let file = scratch(0).join("pack.stormlog");
    fs::write(&file, bytes).expect("a file in the scratch folder");
    let checked = stormlog_analysis::pack::check(&file);
    let unpacked = stormlog_analysis::pack::unpacked(&file);
    if let Ok(path) = &unpacked {
        assert!(checked.is_ok(), "opened, but not checked: {checked:?}");
        assert!(path.starts_with(std::env::temp_dir().canonicalize().expect("it exists")));
        let _ = stormlog_analysis::find_artifacts(&file);
    }
    drop(unpacked);
    // Other threads of a test have opened no pack.
    stormlog_analysis::pack::close_all();
    fs::remove_file(file).expect("written above");
}

/// The archive of a pack whose header declares its content.
fn archive(input: &[u8]) -> Vec<u8> {
    let mut parts = input.split(|byte| *byte == 0xff);
    let mut files = Vec::new();
    while let (Some(name), Some(content)) = (parts.next(), parts.next()) {
        files.push((name, content));
    }
    let bytes = files.iter().map(|(_, content)| content.len() as u64).sum();
    let files_count = files.len() as u64;
    let content = stormlog_analysis::pack::Content {
        files: files_count,
        bytes,
    };
    let header = stormlog_analysis::pack::header(content, "fuzz");
    let first = (
        stormlog_analysis::pack::HEADER.as_bytes(),
        header.as_bytes(),
    );
    let mut archive = Vec::new();
    for (name, content) in std::iter::once(first).chain(files) {
        push_entry(&mut archive, name, content);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

/// Appends a regular file in the format of `tar`.
fn push_entry(archive: &mut Vec<u8>, name: &[u8], content: &[u8]) {
    let mut entry = [0; 512];
    let length = name.len().min(100);
    entry[..length].copy_from_slice(&name[..length]);
    entry[100..107].copy_from_slice(b"0000644");
    let size = format!("{:011o}", content.len());
    entry[124..135].copy_from_slice(size.as_bytes());
    entry[136..147].copy_from_slice(b"00000000000");
    entry[148..156].copy_from_slice(b"        ");
    entry[156] = b'0';
    entry[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = entry.iter().map(|byte| u32::from(*byte)).sum();
    entry[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    entry[154] = 0;
    archive.extend_from_slice(&entry);
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

/// A snapshot of PyTorch's allocator is accounted for or refused.
pub fn pickle(input: &[u8]) {
    let Ok(snapshot) = Snapshot::parse(input) else {
        return;
    };
    for device in snapshot.devices() {
        let account = Account::of(&snapshot, &Owners::default(), device);
        assert!(account.name_at(usize::MAX).is_none());
    }
}

/// A token and a password in lines of their own are hidden whatever stands before and after them.
pub fn secrets(input: &[u8]) {
    let plain = String::from_utf8_lossy(input);
    let words: Vec<String> = plain.split('\0').map(str::to_owned).collect();
    let _ = redacted_words(&words);
    // Lines that it remembers make no difference.
    let mut filter = LineFilter::default();
    let lines = filter.redacted(&plain);
    assert_eq!(filter.redacted(&plain), lines);
    // Within a longer word neither is a secret, and the fuzzer puts them there.
    if plain.contains(TOKEN) || plain.contains(PASSWORD) {
        return;
    }
    let text = format!("{plain}\n{TOKEN}\npassword={PASSWORD}\n{plain}");
    let hidden = redacted_text(Text::from(&*text));
    let hidden = hidden.to_str_lossy();
    assert!(!hidden.contains(TOKEN) && !hidden.contains(PASSWORD));
    if let Ok(value) = parse(input) {
        let once = redacted(value);
        let line = Writer::new(Layout::Line).to_string(&once);
        parse(line.as_bytes()).expect("what is written can be read");
    }
}

/// No token of anybody; long enough that no input has it by accident.
const TOKEN: &str = concat!("ghp", "_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX");
const PASSWORD: &str = "f0rTheFuzzer0nly+77";
