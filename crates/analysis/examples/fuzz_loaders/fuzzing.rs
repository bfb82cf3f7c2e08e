//! Mutates files and gives them to the loaders; shared by the example and the test.

use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use stormlog_analysis::{Events, LoadOptions, OnError, load_sessions, stream_events};
use stormlog_format::json::{Layout, NonFinite, Reader, Writer, parse};
use stormlog_format::{Manifest, RecordDefaults, Value, event_from_record, validate};

/// Files to start from.
pub(crate) struct Corpus(Vec<(String, Vec<u8>)>);

impl Corpus {
    /// Every file under some folders, and a few texts that no fixture holds.
    pub(crate) fn read(folders: &[&Path]) -> std::io::Result<Self> {
        let mut files = Vec::new();
        let mut open: Vec<PathBuf> = folders.iter().map(|folder| folder.to_path_buf()).collect();
        while let Some(folder) = open.pop() {
            let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)?
                .map(|entry| Ok(entry?.path()))
                .collect::<std::io::Result<_>>()?;
            entries.sort();
            for path in entries {
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_none_or(|extension| extension != "md") {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    files.push((name.into_owned(), plain(std::fs::read(&path)?)));
                }
            }
        }
        files.extend(
            [
                (
                    "x.literal",
                    &b"{'a': None, 'b': [1, (2,), {'c': \"it's\"}], 'd': nan, 'e': '\\x41\\u00e9'}"
                        [..],
                ),
                (
                    "x.csv",
                    b"timestamp,memory_allocated,metadata\n1,2,\"{'a': 1}\"\n",
                ),
            ]
            .map(|(name, bytes)| (name.to_owned(), bytes.to_vec())),
        );
        // Small inputs are mutated faster and no less interesting.
        files.retain(|(_, file)| file.len() < 16 << 10);
        Ok(Self(files))
    }

    /// A file, mostly one of the kind that the target is made for.
    fn pick(&self, target: Target, random: &mut Random) -> &[u8] {
        let ends = match target {
            Target::Lines | Target::Sink => ".jsonl",
            Target::Table => ".csv",
            Target::Timeline => "timeline.json",
            Target::OomBundle => "events.json",
            Target::Diagnose => "manifest.json",
            Target::Literal => ".literal",
            Target::Document | Target::Compressed | Target::Json | Target::Record => ".json",
        };
        for _ in 0..random.below(60) {
            let (name, file) = random.pick(&self.0);
            if name.ends_with(ends) {
                return file;
            }
        }
        &random.pick(&self.0).1
    }
}

/// What a file holds once decompressed; the compressed form is made anew where it is wanted.
fn plain(bytes: Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut gzip = flate2::read::GzDecoder::new(&bytes[..]);
    if std::io::Read::read_to_end(&mut gzip, &mut out).is_ok() {
        return out;
    }
    zstd::decode_all(&bytes[..]).unwrap_or(bytes)
}

/// Random numbers (`SplitMix64`), the same for the same seed everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).unwrap_or(1);
        usize::try_from(self.next() % limit).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Pieces of text that loaders look at.
const TOKENS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\n",
    b"\r",
    b"\r\n",
    b"'",
    b"(",
    b")",
    b" ",
    b"null",
    b"true",
    b"NaN",
    b"-Infinity",
    b"None",
    b"True",
    b"nan",
    b"-0",
    b"1e400",
    b"0.5",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"1e308",
    b"-1",
    b"3",
    b"\\ud800",
    b"\\udfff",
    b"\\u0000",
    b"\\x41",
    b"\\U0010ffff",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\xef\xbb\xbf",
    b"\0",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\"schema_version\"",
    b"\"session_id\"",
    b"\"metadata\"",
    b"\"rank\"",
    b"\"world_size\"",
    b"\"events\"",
    b"\"segments\"",
    b"\"sessions\"",
    b"\"filename\"",
    b"\"timestamp\"",
    b"\"segment-000001.jsonl\"",
    b"\"../x\"",
    b"\"/etc/hostname\"",
    b"\"status\"",
    b"\"session\"",
    b"\"bundle_name\"",
    b"\"event_count\"",
    b"\"command_line\"",
    b"\"risk_detected\"",
    b"\"rank\": 9e18",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":",
];

/// What an execution exercises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Lines,
    Document,
    Table,
    Timeline,
    OomBundle,
    Diagnose,
    Sink,
    Compressed,
    Json,
    Record,
    Literal,
}

const TARGETS: [Target; 11] = [
    Target::Lines,
    Target::Document,
    Target::Table,
    Target::Timeline,
    Target::OomBundle,
    Target::Diagnose,
    Target::Sink,
    Target::Compressed,
    Target::Json,
    Target::Record,
    Target::Literal,
];

/// How often a target was reached, and how it went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) loaded: u64,
    pub(crate) refused: u64,
}

/// Runs executions one after the other.
pub(crate) struct Fuzzer {
    corpus: Corpus,
    random: Random,
    folder: tempfile::TempDir,
    counts: BTreeMap<Target, Count>,
    pub(crate) failures: u64,
    last: (Target, Vec<u8>),
}

impl Fuzzer {
    /// The same seed makes the same inputs.
    pub(crate) fn new(corpus: Corpus, seed: u64) -> std::io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            tempfile::tempdir_in(memory)?
        } else {
            tempfile::tempdir()?
        };
        Ok(Self {
            corpus,
            random: Random(seed),
            folder,
            counts: BTreeMap::new(),
            failures: 0,
            last: (Target::Lines, Vec::new()),
        })
    }

    /// How often each target was reached.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (String, Count)> {
        let counts = self.counts.iter();
        counts.map(|(target, count)| (format!("{target:?}"), *count))
    }

    /// The last input, for people.
    pub(crate) fn last(&self) -> String {
        let (target, input) = &self.last;
        format!("{target:?}: {}", input.escape_ascii())
    }

    /// Makes one input and gives it to one target; tells what went wrong, if anything.
    pub(crate) fn execute(&mut self) -> Option<String> {
        let target = *self.random.pick(&TARGETS);
        let input = self.mutated(target);
        self.last = (target, input.clone());
        let folder = self.folder.path().join("run");
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            run(target, &input, &folder, &mut self.random)
        }));
        let count = self.counts.entry(target).or_default();
        let failure = match outcome {
            Ok(Ok(true)) => {
                count.loaded += 1;
                return None;
            }
            Ok(Ok(false)) => {
                count.refused += 1;
                return None;
            }
            Ok(Err(difference)) => difference,
            Err(_) => "a panic".to_owned(),
        };
        self.failures += 1;
        Some(format!("{failure} in {}", self.last()))
    }

    fn mutated(&mut self, target: Target) -> Vec<u8> {
        let random = &mut self.random;
        let mut input = self.corpus.pick(target, random).to_vec();
        for _ in 0..random.below(6) {
            let place = random.below(input.len() + 1);
            let end = place + random.below((input.len() - place).min(64) + 1);
            match random.below(9) {
                0 => input.truncate(place),
                1 => drop(input.drain(place..end)),
                2 | 3 => drop(input.splice(place..place, random.pick(TOKENS).iter().copied())),
                4 => drop(input.splice(place..end, random.pick(TOKENS).iter().copied())),
                5 => {
                    let copy = input[place..end].to_vec();
                    let to = random.below(input.len() + 1);
                    drop(input.splice(to..to, copy));
                }
                6 => {
                    let other = &random.pick(&self.corpus.0).1;
                    let from = random.below(other.len() + 1);
                    let to = from + random.below(other.len() - from + 1);
                    drop(input.splice(place..end, other[from..to].iter().copied()));
                }
                _ => {
                    if let Some(byte) = input.get_mut(place) {
                        *byte ^= 1 << random.below(8);
                    }
                }
            }
            input.truncate(64 << 10);
        }
        input
    }
}

/// Gives an input to a target: whether it was loaded, or how two answers differ.
fn run(target: Target, input: &[u8], folder: &Path, random: &mut Random) -> Result<bool, String> {
    match target {
        Target::Json => return Ok(json(input)),
        Target::Record => return record(input),
        _ => {}
    }
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
        Ok::<PathBuf, String>(path)
    };
    let path = match target {
        Target::Lines => put("x.jsonl", input)?,
        Target::Document => put("x.json", input)?,
        Target::Table => put("x.csv", input)?,
        Target::Timeline => put("telemetry_timeline.json", input)?,
        Target::Literal => {
            let cell = String::from_utf8_lossy(input).replace('"', "\"\"");
            put(
                "x.csv",
                format!("timestamp,metadata\n1,\"{cell}\"\n").as_bytes(),
            )?
        }
        Target::OomBundle => {
            let manifest =
                br#"{"bundle_name": "b", "reason": "r", "backend": "cuda", "event_count": 1}"#;
            put("manifest.json", manifest)?;
            put("events.json", input)?;
            folder.to_path_buf()
        }
        Target::Diagnose => {
            put("manifest.json", input)?;
            let timeline = br#"{"timestamps": [1], "allocated": [1], "reserved": [1]}"#;
            put("telemetry_timeline.json", timeline)?;
            folder.to_path_buf()
        }
        Target::Sink => {
            let lines = br#"{"timestamp": 1}"#;
            let (manifest, segment) = if random.below(2) == 0 {
                (input, &lines[..])
            } else {
                (
                    &br#"{"segments": [{"filename": "segment-000001.jsonl"}]}"#[..],
                    input,
                )
            };
            put("manifest.json", manifest)?;
            put("segment-000001.jsonl", segment)?;
            folder.to_path_buf()
        }
        Target::Compressed => {
            let name = *random.pick(&["x.jsonl", "x.json", "x.csv"]);
            put(name, &compressed(input, random))?
        }
        Target::Json | Target::Record => return Ok(false),
    };
    load(&path)
}

/// Loads and streams, with and without skipping: both see the same.
fn load(path: &Path) -> Result<bool, String> {
    for on_error in [OnError::Skip, OnError::Raise] {
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
                if found != streamed {
                    return Err("streaming and loading differ".into());
                }
                if on_error == OnError::Raise {
                    return Ok(true);
                }
            }
            (Err(stream), Err(loaded)) if stream.to_string() == loaded.to_string() => {}
            (stream, loaded) => {
                let stream = stream.map(|damage| damage.len());
                let loaded = loaded.map(|loaded| loaded.damage.len());
                return Err(format!("streaming {stream:?}, loading {loaded:?}"));
            }
        }
    }
    Ok(false)
}

/// The input packed, and now and then damaged again.
fn compressed(input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut packed = if random.below(2) == 0 {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let written = encoder.write_all(input);
        written.and_then(|()| encoder.finish()).unwrap_or_default()
    } else {
        zstd::bulk::compress(input, 1).unwrap_or_default()
    };
    match random.below(4) {
        0 => packed.truncate(random.below(packed.len() + 1)),
        1 => {
            let place = random.below(packed.len());
            if let Some(byte) = packed.get_mut(place) {
                *byte ^= 1 << random.below(8);
            }
        }
        _ => {}
    }
    packed
}

/// What is read can be written and read again.
fn json(input: &[u8]) -> bool {
    let _ = Reader::new(input).skip_value();
    match parse(input) {
        Ok(value) => {
            let bare = Writer::new(Layout::Indented).non_finite(NonFinite::Bare);
            let text = bare.to_string(&value);
            let again = parse(text.as_bytes()).map(|value| bare.to_string(&value));
            // Bytes that are no text are replaced when they are written.
            assert!(std::str::from_utf8(input).is_err() || again == Ok(text));
            let _ = Manifest::from_value(&value);
            true
        }
        Err(_) => false,
    }
}

/// An event from a record is a valid record again, and the same event.
fn record(input: &[u8]) -> Result<bool, String> {
    let first = input
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let value = match parse(input).or_else(|_| parse(first)) {
        Ok(Value::List(items)) => items.into_iter().next(),
        Ok(value) => Some(value),
        Err(_) => None,
    };
    let Some(Value::Map(record)) = value else {
        return Ok(false);
    };
    let _ = validate(&record);
    let Ok(event) = event_from_record(&record, &RecordDefaults::default()) else {
        return Ok(false);
    };
    let written = event.to_record();
    validate(&written).map_err(|error| format!("the event's record is invalid: {error}"))?;
    let again = event_from_record(&written, &RecordDefaults::default());
    match again {
        Ok(again) if again.to_line() == event.to_line() => Ok(true),
        other => Err(format!("the event's record gives {other:?}")),
    }
}
