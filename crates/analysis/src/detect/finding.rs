//! A finding: a problem with the memory of a run that a detector found, with its kind and severity.

pub(crate) mod confidence;
pub(crate) mod draft;
pub(crate) mod words;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
pub use stormlog_format::classify::Severity;
use stormlog_format::json::by_name;

use super::cause::Cause;
pub use super::kind::Kind;

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
    /// One sentence that explains the finding with its numbers.
    pub explanation: String,
    /// What the user should do about the problem.
    pub advice: String,
    /// The line of code and the holder that cause the problem, when evidence names them.
    pub cause: Option<Cause>,
}
