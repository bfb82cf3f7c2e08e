//! Saves one side of a comparison as `baseline.json`, so that later comparisons do not need the
//! run's recording.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_format::json::{JsonError, Layout, Writer, parse, value_of};
use stormlog_format::{Map, Value};

use super::profile::{KnownFinding, Profile};
use super::side::Side;
use crate::detect::{Levels, Measure, Metric, PhaseLevels, TrackLevels};

/// The value of the key `format` in a baseline, by which the file is recognized.
pub const BASELINE_FORMAT: &str = "stormlog.baseline";
/// The version of the baseline format that is written, which is also the newest version that can be
/// read.
const SCHEMA_VERSION: i64 = 1;
/// Largest baseline that is read, in bytes. A baseline of 4,096 ranks with phases takes a few
/// megabytes.
const LARGEST: u64 = 64 << 20;

/// Why a baseline cannot be read; every error message names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum BaselineError {
    #[error("cannot read '{}': {cause}", .file.display())]
    Read {
        file: PathBuf,
        cause: std::io::Error,
    },
    #[error("'{}' is a damaged baseline: {reason}", .file.display())]
    Damaged { file: PathBuf, reason: String },
    #[error(
        "'{}' is a baseline of version {version}, which is newer than this program's version {SCHEMA_VERSION}",
        .file.display()
    )]
    TooNew { file: PathBuf, version: i64 },
}

/// The numbers of a run, saved for later comparisons. Unknown metrics are left out, and readers
/// ignore keys that they do not know.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Baseline<'a> {
    #[schemars(extend("const" = BASELINE_FORMAT))]
    format: &'static str,
    #[schemars(extend("const" = SCHEMA_VERSION))]
    schema_version: i64,
    #[serde(flatten)]
    side: &'a Side,
}

/// The JSON text of a baseline file, which saves one side of a comparison.
#[must_use]
pub fn baseline_text(side: &Side) -> String {
    let baseline = Baseline {
        format: BASELINE_FORMAT,
        schema_version: SCHEMA_VERSION,
        side,
    };
    let value = value_of(&baseline);
    Writer::new(Layout::Indented).to_string(&value) + "\n"
}

/// Reads a baseline, the saved side of a comparison, from a file; `None` when the file is missing,
/// too large or not a baseline.
pub fn read_baseline(file: &Path) -> Result<Option<Side>, BaselineError> {
    let is_small = std::fs::metadata(file).is_ok_and(|it| it.is_file() && it.len() <= LARGEST);
    if !is_small {
        return Ok(None);
    }
    let bytes = crate::regular_file::read(file, LARGEST).map_err(|cause| BaselineError::Read {
        file: file.into(),
        cause,
    })?;
    parse_baseline(file, &bytes)
}

/// Parses the content of a baseline file; `None` when the bytes are not a baseline. The path is
/// used only in errors.
pub fn parse_baseline(file: &Path, bytes: &[u8]) -> Result<Option<Side>, BaselineError> {
    // A truncated baseline must be reported as a damaged baseline, not as a file of another format,
    // so the bytes are searched for the format's name before parsing.
    if memchr::memmem::find(bytes, BASELINE_FORMAT.as_bytes()).is_none() {
        return Ok(None);
    }
    let damaged = |reason: String| BaselineError::Damaged {
        file: file.into(),
        reason,
    };
    let document = match parse(bytes) {
        Ok(document) => document,
        Err(error) if starts_as_baseline(bytes) => return Err(damaged(not_json(&error))),
        // The file is another artifact that contains the name of the baseline format, for example
        // in its metadata.
        Err(_) => return Ok(None),
    };
    let Some(map) = document.as_map() else {
        return Ok(None);
    };
    let format = map.text("format");
    if format.is_none_or(|format| *format != BASELINE_FORMAT) {
        return Ok(None);
    }
    match map.int("schema_version") {
        Some(1..=SCHEMA_VERSION) => {}
        Some(version) if version > SCHEMA_VERSION => {
            return Err(BaselineError::TooNew {
                file: file.into(),
                version,
            });
        }
        _ => {
            return Err(damaged(
                "'schema_version' must be a whole number of 1 or more".into(),
            ));
        }
    }
    Object { map, place: "" }.side().map(Some).map_err(damaged)
}

fn not_json(error: &JsonError) -> String {
    format!("not JSON, {error}")
}

/// Whether the bytes begin like a baseline: as a JSON object whose first key is `format`, with the
/// value [`BASELINE_FORMAT`].
fn starts_as_baseline(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(256)];
    let head: Vec<u8> = head
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let start = format!("{{\"format\":\"{BASELINE_FORMAT}\"");
    head.starts_with(start.as_bytes())
}

/// A JSON object within a baseline, with its path in the document for error messages.
struct Object<'a> {
    map: &'a Map,
    place: &'a str,
}

type Read<T> = Result<T, String>;

impl<'a> Object<'a> {
    fn of(value: &'a Value, place: &'a str) -> Read<Self> {
        let map = value.as_map();
        let map = map.ok_or_else(|| format!("a JSON object is expected in '{place}'"))?;
        Ok(Self { map, place })
    }

    fn wrong(&self, key: &str, what: &str) -> String {
        format!("{} must be {what}", self.path_of(key))
    }

    /// The path of a key from the top of the document, in quotes.
    fn path_of(&self, key: &str) -> String {
        let dot = if self.place.is_empty() { "" } else { "." };
        format!("'{}{dot}{key}'", self.place)
    }

    fn required(&self, key: &str) -> Read<&'a Value> {
        let missing = || format!("{} is missing", self.path_of(key));
        self.map.get(key).ok_or_else(missing)
    }

    fn text(&self, key: &str) -> Read<String> {
        let text = self.required(key)?.as_text();
        let text = text.ok_or_else(|| self.wrong(key, "a string"))?;
        Ok(text.to_str_lossy().into_owned())
    }

    fn optional_text(&self, key: &str) -> Read<Option<String>> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.text(key).map(Some),
        }
    }

    fn integer(&self, key: &str) -> Read<i64> {
        let integer = self.required(key)?.as_int();
        integer.ok_or_else(|| self.wrong(key, "an integer"))
    }

    fn count<T: TryFrom<i64>>(&self, key: &str) -> Read<T> {
        T::try_from(self.integer(key)?).map_err(|_| self.wrong(key, "0 or more"))
    }

    fn number(&self, key: &str) -> Read<f64> {
        let number = self.required(key)?.as_number();
        let number = number.filter(|number| number.is_finite());
        number.ok_or_else(|| self.wrong(key, "a finite number"))
    }

    fn optional<T>(&self, key: &str, read: fn(&Self, &str) -> Read<T>) -> Read<Option<T>> {
        if self.required(key)?.is_null() {
            return Ok(None);
        }
        read(self, key).map(Some)
    }

    fn items<T>(&self, key: &str, one: impl Fn(&'a Value) -> Read<T>) -> Read<Vec<T>> {
        match self.required(key)? {
            Value::List(items) => items.iter().map(one).collect(),
            _ => Err(self.wrong(key, "a list")),
        }
    }

    fn texts(&self, key: &str) -> Read<Vec<String>> {
        self.items(key, |item| match item.as_text() {
            Some(text) => Ok(text.to_str_lossy().into_owned()),
            None => Err(self.wrong(key, "a list of strings")),
        })
    }

    fn side(&self) -> Read<Side> {
        let mut profile = Profile {
            job_id: self.optional_text("job_id")?,
            ranks: self.items("ranks", |item| Object::of(item, "ranks")?.rank())?,
            findings: self.items("findings", |item| Object::of(item, "findings")?.finding())?,
            holders: Vec::new(),
            sessions: Vec::new(),
            unanswered: self.texts("unanswered")?,
            notes: self.texts("notes")?,
        };
        profile.ranks.sort_by_key(|one| (one.rank, one.device_id));
        let twice = profile
            .ranks
            .windows(2)
            .find(|pair| (pair[0].rank, pair[0].device_id) == (pair[1].rank, pair[1].device_id));
        if let Some(pair) = twice {
            return Err(format!(
                "'ranks' lists rank {} twice with the same device",
                pair[0].rank
            ));
        }
        Ok(Side {
            source: self.text("source")?,
            profile,
        })
    }

    fn rank(&self) -> Read<TrackLevels> {
        Ok(TrackLevels {
            rank: self.count("rank")?,
            device_id: self.integer("device_id")?,
            samples: self.count("samples")?,
            seconds: self.number("seconds")?,
            device_total_bytes: self.optional("device_total_bytes", Self::integer)?,
            levels: self.levels()?,
            phases: self.items("phases", |item| Object::of(item, "phases")?.phase())?,
            phases_left_out: 0,
        })
    }

    fn phase(&self) -> Read<PhaseLevels> {
        Ok(PhaseLevels {
            name: self.text("name")?,
            visits: self.count("visits")?,
            samples: self.count("samples")?,
            levels: self.levels()?,
        })
    }

    /// The metrics of a rank or phase; metrics unknown to this version are skipped.
    fn levels(&self) -> Read<Levels> {
        let of_metrics = Object::of(self.required("levels")?, "levels")?;
        let mut levels = Levels::default();
        for metric in Metric::ALL {
            let Some(value) = of_metrics.map.get(metric.as_str()) else {
                continue;
            };
            let measure = Object::of(value, metric.as_str())?;
            let noise = measure.optional("noise", Object::number)?;
            if noise.is_some_and(|noise| noise < 0.0) {
                return Err(measure.wrong("noise", "0 or more"));
            }
            let value = measure.number("value")?;
            levels.set(metric, Some(Measure { value, noise }));
        }
        Ok(levels)
    }

    fn finding(&self) -> Read<KnownFinding> {
        Ok(KnownFinding {
            kind: self.text("kind")?,
            rank: self.optional("rank", Self::count)?,
            severity: self.text("severity")?,
            confidence: self.number("confidence")?,
            explanation: self.text("explanation")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side() -> Side {
        let mut levels = Levels::default();
        let peak = Measure {
            value: 1.5e9,
            noise: Some(1024.25),
        };
        levels.set(Metric::PeakUsed, Some(peak));
        let gap = Measure {
            value: 0.0,
            noise: None,
        };
        levels.set(Metric::Gap, Some(gap));
        Side {
            source: "runs/\u{1b}main".into(),
            profile: Profile {
                job_id: Some("job".into()),
                ranks: vec![TrackLevels {
                    rank: 3,
                    device_id: -1,
                    samples: 12,
                    seconds: 1.25,
                    device_total_bytes: None,
                    levels,
                    phases: vec![PhaseLevels {
                        name: "evaluation".into(),
                        visits: 2,
                        samples: 5,
                        levels,
                    }],
                    phases_left_out: 0,
                }],
                findings: vec![KnownFinding {
                    kind: "allocator_leak".into(),
                    rank: None,
                    severity: "warning".into(),
                    confidence: 0.75,
                    explanation: "it grows".into(),
                }],
                holders: Vec::new(),
                sessions: Vec::new(),
                unanswered: vec!["oom_risk".into()],
                notes: vec!["a note".into()],
            },
        }
    }

    fn read(text: &str) -> Result<Option<Side>, BaselineError> {
        parse_baseline(Path::new("b.json"), text.as_bytes())
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read(&baseline_text(&side())).unwrap(), Some(side()));
        let empty = Side {
            source: String::new(),
            profile: Profile::default(),
        };
        assert_eq!(read(&baseline_text(&empty)).unwrap(), Some(empty));
    }

    #[test]
    fn huge_numbers_of_samples_do_not_overflow() {
        let mut huge = side();
        huge.profile.ranks[0].samples = usize::try_from(i64::MAX).unwrap();
        huge.profile.ranks = vec![huge.profile.ranks[0].clone(); 3];
        for (device_id, rank) in (0..).zip(&mut huge.profile.ranks) {
            rank.device_id = device_id;
        }
        let read = read(&baseline_text(&huge)).unwrap().unwrap();
        assert_eq!(read.profile.samples(), usize::MAX);
    }

    #[test]
    fn keys_of_a_later_program_are_tolerated() {
        let text = baseline_text(&side());
        let text = text.replacen("\"levels\": {", "\"levels\": {\"mood\": 3, ", 1);
        let text = text.replacen('{', "{\"later\": [1], ", 1);
        assert_eq!(read(&text).unwrap(), Some(side()));
    }

    #[test]
    fn damage_is_named() {
        let text = baseline_text(&side());
        let half = &text[..text.len() / 2];
        let cases = [
            (half.to_owned(), "not JSON"),
            (
                text.replace("\"rank\": 3", "\"rank\": -3"),
                "'ranks.rank' must be 0 or more",
            ),
            (
                text.replace("\"samples\": 12,", ""),
                "'ranks.samples' is missing",
            ),
            (
                text.replace("1024.25", "-1"),
                "'peak_used.noise' must be 0 or more",
            ),
            (
                text.replace("1024.25", "NaN"),
                "'peak_used.noise' must be a finite number",
            ),
            (
                text.replace("1500000000.0", "\"x\""),
                "'peak_used.value' must be a finite number",
            ),
            (
                text.replace("\"schema_version\": 1", "\"schema_version\": 2"),
                "version 2",
            ),
            (
                text.replace("\"schema_version\": 1", "\"schema_version\": null"),
                "schema_version",
            ),
            (
                text.replace("\"a note\"", "7"),
                "'notes' must be a list of strings",
            ),
        ];
        for (text, reason) in cases {
            let error = read(&text).expect_err(reason).to_string();
            assert!(error.contains("b.json"), "{error}");
            assert!(error.contains(reason), "{error} does not say {reason}");
        }
    }

    #[test]
    fn artifacts_are_no_baselines() {
        for text in [
            "",
            "[]",
            "{\"events\": []}",
            "{\"note\": \"stormlog.baseline\"}",
            "{\"session_id\": \"stormlog.baseline\"}\n{\"session_id\": \"x\"}\n",
        ] {
            assert_eq!(read(text).unwrap(), None, "{text}");
        }
    }
}
