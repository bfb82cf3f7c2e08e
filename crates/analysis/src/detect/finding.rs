//! A finding: a problem with the memory of a run that a detector found, with its kind and severity.

pub(crate) mod confidence;
pub(crate) mod draft;
mod level;
pub(crate) mod line;
pub(crate) mod words;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
pub use stormlog_format::classify::Severity;
use stormlog_format::json::by_name;

use super::cause::Cause;
pub use super::kind::Kind;
use crate::timeline::{Run, TimeZero};
pub use level::Level;

/// One problem, with the numbers that support it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// The kind of problem.
    pub kind: Kind,
    /// How urgent the problem is.
    pub severity: Severity,
    /// The affected rank; `None` when the problem affects all ranks.
    pub rank: Option<u32>,
    /// The device on which the problem was found.
    pub device_id: i64,
    /// The session in which the problem was found.
    pub session_id: String,
    /// When the problem began, in nanoseconds by the clock of the session. The onset is `None` for
    /// kinds of problems without a beginning.
    pub onset_ns: Option<i64>,
    /// When the problem ended. For a problem that still continues, the time of the last sample.
    pub end_ns: Option<i64>,
    /// The size of the problem in bytes: how much memory grew, jumped or was held in excess.
    pub magnitude_bytes: Option<i64>,
    /// Growth rate at the end of the track, in bytes per second; `None` when nothing grows.
    pub rate_bytes_per_s: Option<f64>,
    /// Seconds from the last sample until the device is full; `None` when growth does not fill the
    /// device.
    pub time_to_full_s: Option<f64>,
    /// Estimated probability that the finding is correct, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
    /// The marked phase in which the problem began.
    pub phase: Option<String>,
    /// The numbers behind the finding, each with its name.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "BTreeMap<String, f64>")]
    pub evidence: Vec<(&'static str, f64)>,
    /// The finding in one line: its level, the holder, the line of code and the size.
    pub headline: String,
    /// Other kinds of problems that this finding includes: growth that fills the memory within the
    /// horizon is also an `oom_risk`.
    pub also: Vec<Kind>,
    /// The size of the problem in a few words, the last part of the headline.
    #[serde(skip)]
    pub size_words: String,
    /// Whose memory it is, where this is not the program's own: `worker 4711 (pt_data_worker)`.
    #[serde(skip)]
    pub whose: String,
    /// Whether the program may still be running, as far as the recording shows.
    #[serde(skip)]
    pub may_go_on: bool,
    /// One sentence that explains the finding with its numbers.
    pub explanation: String,
    /// What the user should do about the problem.
    pub advice: String,
    /// The line of code and the holder that cause the problem, when evidence names them.
    pub cause: Option<Cause>,
}

impl Finding {
    /// The nanoseconds from the start of the run to the onset; `None` if the onset is unknown.
    #[must_use]
    pub fn onset_since_start_ns(&self, run: &Run) -> Option<i64> {
        // A finding of all ranks has the times of one rank, whose track has its session.
        let mut tracks = run.tracks.iter();
        let of_session = tracks.find(|track| track.session_id == self.session_id);
        let rank = self.rank.or(of_session.map(|track| track.rank));
        Some(TimeZero::of(run).since_ns(rank, self.onset_ns?))
    }

    /// Whether the finding is of this kind, or includes a problem of this kind.
    #[must_use]
    pub fn is_a(&self, kind: Kind) -> bool {
        self.kind == kind || self.also.contains(&kind)
    }
}
