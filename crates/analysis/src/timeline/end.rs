//! Determines how a run ended, from the recorded events.

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_format::classify::{self, ExhaustedMemory};
use stormlog_format::{EventType, Map, SessionStatus};

use super::read::is_sample;
use crate::load::LoadedSession;

/// How a process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(into = "EndKeys")]
pub enum End {
    /// The end was not recorded.
    #[default]
    Unknown,
    /// The process was still running when the recording was read.
    StillRunning,
    /// The recorder was stopped before the program ended.
    RecorderStopped,
    /// The process exited. Version 0.4.0 did not record the exit code of a normal end.
    Exit {
        /// The exit code of the process, if known.
        code: Option<i64>,
    },
    /// The recording was not closed, and the reason was not recorded, as after `kill -9`.
    Vanished,
    /// A signal ended the process.
    Signal {
        /// The signal's number.
        number: i64,
    },
    /// An uncaught exception ended the process.
    Exception {
        /// Type and first line of the exception's message.
        text: String,
        /// File, line and function where the exception was raised, as far as known.
        place: Option<String>,
    },
    /// An out-of-memory error ended the process.
    OutOfMemory,
    /// The kernel killed the process because host memory ran out.
    KernelOomKill,
}

/// The JSON object that describes how a process ended.
#[derive(Serialize, JsonSchema)]
struct EndKeys {
    /// The kind of end, such as `exit` or `signal`.
    #[schemars(extend("enum" = ["unknown", "running", "recorder_stopped", "exit", "vanished",
                                "signal", "exception", "out_of_memory", "kernel_oom_kill"]))]
    kind: &'static str,
    /// The exit code, if the process exited and its code was recorded.
    code: Option<i64>,
    /// The number of the signal that ended the process.
    signal: Option<i64>,
    /// The end as a clause of a sentence, such as `ended with exit code 0`.
    text: String,
}

impl From<End> for EndKeys {
    fn from(end: End) -> Self {
        let (code, signal) = match end {
            End::Exit { code } => (code, None),
            End::Signal { number } => (None, Some(number)),
            _ => (None, None),
        };
        Self {
            kind: end.as_str(),
            code,
            signal,
            text: end.clause(),
        }
    }
}

/// How the process of one rank ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankEnd {
    /// The rank.
    pub rank: u32,
    /// The process id.
    pub pid: i64,
    /// The time when the process ended, in nanoseconds since 1970, if known.
    pub at_ns: Option<i64>,
    /// How the process ended.
    pub end: End,
}

/// Longest exception message that is kept, in characters.
const LONGEST_MESSAGE: usize = 160;

impl End {
    /// Whether the program ended by itself without an error.
    #[must_use]
    pub fn is_normal(&self) -> bool {
        matches!(
            self,
            Self::Exit {
                code: None | Some(0)
            }
        )
    }

    /// Whether the process ended because memory ran out.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory | Self::KernelOomKill)
    }

    /// Whether the program may still be running, as far as the recording shows.
    #[must_use]
    pub fn may_go_on(&self) -> bool {
        matches!(
            self,
            Self::Unknown | Self::StillRunning | Self::RecorderStopped
        )
    }

    /// The severity of the end as a number; a higher number is worse. The end of a run is the worst
    /// end of its processes.
    pub(crate) fn gravity(&self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Exit {
                code: None | Some(0),
            } => 1,
            Self::RecorderStopped => 2,
            Self::StillRunning => 3,
            Self::Vanished => 4,
            Self::Signal { .. } => 5,
            Self::Exit { .. } => 6,
            Self::Exception { .. } => 7,
            Self::OutOfMemory => 8,
            Self::KernelOomKill => 9,
        }
    }

    /// The end as a clause of a sentence: `ended with exit code 0`; empty when the end is unknown.
    #[must_use]
    pub fn clause(&self) -> String {
        match self {
            Self::Unknown => String::new(),
            Self::StillRunning => "still running".to_owned(),
            Self::RecorderStopped => "recording stopped before the program ended".to_owned(),
            Self::Exit { code: None } => "ended normally".to_owned(),
            Self::Exit { code: Some(code) } => format!("ended with exit code {code}"),
            Self::Vanished => "ended without closing its recording".to_owned(),
            Self::Signal { number } => match signal_name(*number) {
                Some(name) => format!("ended by {name} (signal {number})"),
                None => format!("ended by signal {number}"),
            },
            Self::Exception { text, place } => match place {
                Some(place) => format!("ended by {text} at {place}"),
                None => format!("ended by {text}"),
            },
            Self::OutOfMemory => "ended by an out-of-memory error".to_owned(),
            Self::KernelOomKill => "killed by the kernel because host memory ran out".to_owned(),
        }
    }

    /// The kind of the end as JSON output spells it, such as `exit` or `signal`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::StillRunning => "running",
            Self::RecorderStopped => "recorder_stopped",
            Self::Exit { .. } => "exit",
            Self::Vanished => "vanished",
            Self::Signal { .. } => "signal",
            Self::Exception { .. } => "exception",
            Self::OutOfMemory => "out_of_memory",
            Self::KernelOomKill => "kernel_oom_kill",
        }
    }
}

fn signal_name(number: i64) -> Option<&'static str> {
    Some(match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        _ => return None,
    })
}

/// What the events and sessions of one process record about its end.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The worst end in any event other than the stop event.
    recorded: Option<Recorded>,
    /// The end in the last stop event. The stop event is written by the command that
    /// started the program. It takes precedence over `recorded`, because a recorded exception may
    /// have ended another process of the run.
    stated: Option<Recorded>,
    /// Three flags: each is set if any session of the process has the status in the flag's name.
    is_running: bool,
    is_interrupted: bool,
    is_completed: bool,
    ended_ns: Option<i64>,
    /// Times of the last out-of-memory error and of the last sample, in nanoseconds since 1970.
    oom_ns: Option<i64>,
    last_sample_ns: Option<i64>,
}

/// The end that an event records.
#[derive(Debug)]
struct Recorded {
    end: End,
    at_ns: i64,
    /// For an end by an exception: what the exception, and those that it was raised from, say about
    /// memory.
    about: AboutMemory,
}

/// What an exception, and the exceptions that it was raised from, say about memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AboutMemory {
    /// This memory ran out.
    RanOut(ExhaustedMemory),
    /// No memory ran out.
    Nothing,
    /// The exception is about something else. Those that it was raised from were not recorded, as
    /// by versions up to 0.5.0.
    Unknown,
}

impl Facts {
    pub(super) fn add(&mut self, session: &LoadedSession) {
        match session.summary.status {
            SessionStatus::Running => self.is_running = true,
            SessionStatus::Interrupted => self.is_interrupted = true,
            SessionStatus::Completed => self.is_completed = true,
            SessionStatus::Incomplete => {}
        }
        self.ended_ns = self.ended_ns.max(session.summary.ended_at_ns);
        for event in session.events.iter() {
            let at_ns = event.timestamp_ns();
            if is_sample(event) {
                self.last_sample_ns = self.last_sample_ns.max(Some(at_ns));
                continue;
            }
            let mut about = AboutMemory::Unknown;
            let end = match EventType::of(event.event_type()) {
                Some(EventType::Stop) => {
                    let metadata = event.metadata();
                    let about = metadata
                        .object("end")
                        .map_or(AboutMemory::Unknown, about_memory);
                    let end = stated_end(&metadata);
                    let stated = end.map(|end| Recorded { end, at_ns, about });
                    self.stated = stated.or(self.stated.take());
                    continue;
                }
                Some(EventType::Exception) => {
                    let metadata = event.metadata();
                    about = about_memory(&metadata);
                    exception(&metadata)
                }
                Some(EventType::Error) => {
                    let metadata = event.metadata();
                    if classify::is_oom(&EventType::Error.into(), &metadata) {
                        self.oom_ns = self.oom_ns.max(Some(at_ns));
                    }
                    recorded_end(&metadata)
                }
                _ => continue,
            };
            let gravity = self.recorded.as_ref().map_or(0, |one| one.end.gravity());
            if let Some(end) = end
                && end.gravity() >= gravity
            {
                self.recorded = Some(Recorded { end, at_ns, about });
            }
        }
    }

    /// Determines how the process ended. If no event records the end and no session is still
    /// running, the status of the sessions shows the end, but only if the recorder runs as long as
    /// the program, as `stormlog run` does (`is_by_run`).
    pub(super) fn end(self, is_by_run: bool) -> Ended {
        // If the stop event gives only a non-zero exit code, but an exception or another kind of
        // end was recorded too, the recorded end is used, because it explains the exit code.
        let stated = self.stated.filter(|stated| {
            let is_open = matches!(stated.end, End::Exit { code: Some(code) } if code != 0);
            !(is_open && self.recorded.is_some())
        });
        let recorded = stated.or(self.recorded);
        let about = recorded
            .as_ref()
            .map_or(AboutMemory::Unknown, |one| one.about);
        let (end, at_ns) = match recorded {
            Some(recorded) => (recorded.end, Some(recorded.at_ns)),
            None if self.is_running => (End::StillRunning, None),
            None if !is_by_run => (End::Unknown, self.ended_ns),
            None if self.is_interrupted => (End::Vanished, self.ended_ns),
            None if self.is_completed => (End::Exit { code: None }, self.ended_ns),
            None => (End::Unknown, self.ended_ns),
        };
        if let (End::Exception { .. }, AboutMemory::RanOut(memory)) = (&end, about) {
            return Ended {
                end: End::OutOfMemory,
                at_ns,
                exhausted: Some(memory),
            };
        }
        // An out-of-memory error ended the program only if the samples stop soon after it.
        let last = self.last_sample_ns;
        let final_oom = self
            .oom_ns
            .filter(|&at| last.is_none_or(|last| is_over(at, last)));
        let may_be_oom = match &end {
            End::Exit { code } => code.is_some_and(|code| code != 0),
            End::Exception { .. } => about == AboutMemory::Unknown,
            End::Vanished | End::Unknown => true,
            _ => false,
        };
        let (end, at_ns) = match final_oom {
            Some(at) if may_be_oom => (End::OutOfMemory, Some(at)),
            _ => (end, at_ns),
        };
        Ended {
            end,
            at_ns,
            exhausted: None,
        }
    }
}

/// How a process ended, and what is known about it.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    /// When it ended, in nanoseconds since 1970, if known.
    pub(super) at_ns: Option<i64>,
    /// The memory that ran out, if an exception about it ended the process.
    pub(super) exhausted: Option<ExhaustedMemory>,
}

/// Longest time between an out-of-memory error that ends the program and the last sample, in
/// nanoseconds. Between the error and the last sample, the exception unwinds and the interpreter
/// shuts down.
const LAST_BREATH_NS: i64 = 3_000_000_000;

/// Whether the recording stopped soon after an error, which means that the error ended the program.
pub(crate) fn is_over(error_ns: i64, last_sample_ns: i64) -> bool {
    last_sample_ns.saturating_sub(error_ns) <= LAST_BREATH_NS
}

/// Number of exceptions that are read of those that an exception was raised from.
const LONGEST_CHAIN: usize = 16;

/// What the exception in the metadata of an event says about memory: whether it is an
/// out-of-memory error, was raised from one, or was raised while one was handled.
fn about_memory(metadata: &Map) -> AboutMemory {
    let Some(exception) = metadata.object("exception") else {
        return AboutMemory::Unknown;
    };
    let text = |key: &str| Some(exception.text(key)?.to_str_lossy().into_owned());
    let own = format!(
        "{}: {}",
        text("type").unwrap_or_default(),
        text("message").unwrap_or_default()
    );
    let chain = exception.list("chain").iter().take(LONGEST_CHAIN);
    let chain = chain.filter_map(|one| Some(one.as_text()?.to_str_lossy().into_owned()));
    let mut texts = std::iter::once(own).chain(chain);
    match texts.find_map(|text| exhausted(&text)) {
        Some(memory) => AboutMemory::RanOut(memory),
        None if exception.get("chain").is_none() => AboutMemory::Unknown,
        None => AboutMemory::Nothing,
    }
}

/// The memory that ran out, if an exception, given as its type and its message, is an out-of-memory
/// error.
fn exhausted(text: &str) -> Option<ExhaustedMemory> {
    let (kind, message) = text.split_once(": ").unwrap_or((text, ""));
    let (module, class) = kind.rsplit_once('.').unwrap_or(("", kind));
    let facts = classify::ExceptionFacts {
        class: class.to_owned(),
        module: module.to_owned(),
        message: message.to_owned(),
        is_torch_oom: false,
    };
    if classify::exhausted_memory(&facts.message) == Some(ExhaustedMemory::Host)
        || facts.class.ends_with("MemoryError") && !facts.class.starts_with("OutOf")
    {
        return classify::oom_reason(&facts).map(|_| ExhaustedMemory::Host);
    }
    let is_host = || classify::oom_reason(&facts).map(|_| ExhaustedMemory::Host);
    let device = classify::device_oom_reason(&facts).map(|_| ExhaustedMemory::Device);
    device.or_else(is_host)
}

fn recorded_end(metadata: &Map) -> Option<End> {
    let end = metadata.object("end")?;
    let whole = |key: &str| end.int(key);
    Some(match end.text("kind")?.as_str()? {
        "exit" => End::Exit {
            code: whole("code"),
        },
        "signal" => End::Signal {
            number: whole("signal").unwrap_or(0),
        },
        "kernel_oom_kill" => End::KernelOomKill,
        "recorder_stopped" => End::RecorderStopped,
        _ => End::Unknown,
    })
}

/// The end in the stop event of a run. If the stop event names an exception behind a non-zero exit
/// code, that exception is the end.
fn stated_end(metadata: &Map) -> Option<End> {
    let end = recorded_end(metadata)?;
    let is_failure = matches!(end, End::Exit { code: Some(code) } if code != 0);
    let named = metadata.object("end").and_then(exception);
    Some(named.filter(|_| is_failure).unwrap_or(end))
}

fn exception(metadata: &Map) -> Option<End> {
    let exception = metadata.object("exception")?;
    let text = |key: &str| {
        let text = exception.text(key)?.to_str_lossy().into_owned();
        (!text.trim().is_empty()).then_some(text)
    };
    let message = text("message").unwrap_or_default();
    let message: String = message
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(LONGEST_MESSAGE)
        .collect();
    let kind = text("type").unwrap_or_else(|| "an exception".to_owned());
    let place = text("file").map(|file| match exception.int("line") {
        Some(line) => format!("{file}:{line}"),
        None => file,
    });
    Some(End::Exception {
        text: if message.is_empty() {
            kind
        } else {
            format!("{kind}: {message}")
        },
        place,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_about_memory(text: &str) -> bool {
        exhausted(text).is_some()
    }

    #[test]
    fn the_exceptions_behind_an_exception_count() {
        let of = |json: &str| {
            let event = format!(r#"{{"exception": {json}}}"#);
            match stormlog_format::json::parse(event.as_bytes()) {
                Ok(stormlog_format::Value::Map(map)) => about_memory(&map),
                other => panic!("{other:?} is no object"),
            }
        };
        let ran_out = AboutMemory::RanOut;
        for (json, expected) in [
            (
                r#"{"type": "RuntimeError", "message": "training failed",
                    "chain": ["torch.OutOfMemoryError: CUDA out of memory."]}"#,
                ran_out(ExhaustedMemory::Device),
            ),
            (
                r#"{"type": "jaxlib.XlaRuntimeError",
                    "message": "RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes."}"#,
                ran_out(ExhaustedMemory::Device),
            ),
            (
                r#"{"type": "ValueError", "message": "x", "chain": ["KeyError: 1", "MemoryError: "]}"#,
                ran_out(ExhaustedMemory::Host),
            ),
            (
                r#"{"type": "numpy._core._exceptions._ArrayMemoryError", "message": "Unable to"}"#,
                ran_out(ExhaustedMemory::Host),
            ),
            (
                r#"{"type": "ValueError", "chain": [7, "KeyError: 1"]}"#,
                AboutMemory::Nothing,
            ),
            (
                r#"{"type": "ValueError", "chain": "MemoryError"}"#,
                AboutMemory::Nothing,
            ),
            (r#"{"type": "ValueError"}"#, AboutMemory::Unknown),
        ] {
            assert_eq!(of(json), expected, "{json}");
        }
    }

    #[test]
    fn exceptions_that_the_recorder_takes_for_oom_errors_are_about_memory() {
        for text in [
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB.",
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM",
            "RuntimeError: std::bad_alloc",
            "RuntimeError: RESOURCE_EXHAUSTED: Attempting to allocate 3.91G.",
            "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB",
            "MemoryError",
        ] {
            assert!(is_about_memory(text), "{text}");
        }
        for text in [
            "ValueError: too many values",
            "RuntimeError: RESOURCE_EXHAUSTED: Shared memory size limit exceeded",
            "google.api_core.exceptions.ResourceExhausted: 429 Resource exhausted.",
        ] {
            assert!(!is_about_memory(text), "{text}");
        }
    }
}
