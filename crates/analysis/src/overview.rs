//! A short overview of an artifact: sessions, ranks, time span and peaks.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::load::LoadedSession;
use crate::timeline::{RankCoverage, run_of};

/// The highest value of a counter, and the rank that had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The highest value in bytes.
    pub bytes: i64,
    /// The rank that had the highest value.
    pub rank: i64,
}

/// JSON documents contain the highest value without its rank.
impl Serialize for Peak {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.bytes)
    }
}

/// The overview of the given sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Overview {
    /// Number of events.
    pub events: usize,
    /// Number of samples among the events.
    pub samples: usize,
    /// The timestamp of the first event.
    pub first_timestamp_ns: Option<i64>,
    /// The timestamp of the last event.
    pub last_timestamp_ns: Option<i64>,
    /// The recorded ranks.
    pub ranks: BTreeSet<i64>,
    /// The largest world size that any event declares.
    pub world_size: i64,
    /// The job ids.
    #[serde(skip)]
    pub jobs: BTreeSet<String>,
    /// The host names.
    #[serde(skip)]
    pub hosts: BTreeSet<String>,
    /// Highest number of allocated bytes; `None` when no event has the counter.
    #[serde(rename = "peak_allocated_bytes")]
    #[schemars(with = "Option<i64>")]
    pub allocated: Option<Peak>,
    /// Highest number of reserved bytes; `None` when no event has the counter.
    #[serde(rename = "peak_reserved_bytes")]
    #[schemars(with = "Option<i64>")]
    pub reserved: Option<Peak>,
    /// Highest number of bytes in use on the device; `None` when no event has the counter.
    #[serde(rename = "peak_used_bytes")]
    #[schemars(with = "Option<i64>")]
    pub used: Option<Peak>,
    /// The largest device size that any event reports, in bytes.
    #[serde(rename = "device_total_bytes")]
    pub total_bytes: Option<i64>,
}

impl Overview {
    /// Summarizes sessions: their events and the tracks of their devices, or of host memory if no
    /// device was recorded.
    pub fn of<'a>(sessions: impl IntoIterator<Item = &'a LoadedSession>) -> Self {
        let mut overview = Self::default();
        let sessions: Vec<&LoadedSession> = sessions.into_iter().collect();
        for session in &sessions {
            overview.add(session);
        }
        for rank in run_of(&sessions).by_rank() {
            overview.add_rank(&rank);
        }
        overview
    }

    fn add(&mut self, session: &LoadedSession) {
        self.events += session.events.len();
        self.ranks.insert(session.summary.rank);
        self.world_size = self.world_size.max(session.summary.world_size);
        self.jobs
            .extend(session.summary.job_id.iter().map(ToString::to_string));
        self.hosts.insert(session.summary.host.to_string());
        for event in session.events.iter() {
            let time = event.timestamp_ns();
            let first = self.first_timestamp_ns.unwrap_or(time);
            self.first_timestamp_ns = Some(first.min(time));
            self.last_timestamp_ns = self.last_timestamp_ns.max(Some(time));
            let origin = event.origin();
            self.ranks.insert(origin.rank);
            self.world_size = self.world_size.max(origin.world_size);
        }
    }

    fn add_rank(&mut self, recorded: &RankCoverage) {
        self.samples += recorded.samples;
        let rank = recorded.rank;
        let peak = |bytes: Option<i64>| bytes.map(|bytes| Peak { bytes, rank });
        raise(&mut self.allocated, peak(recorded.peaks.allocated));
        raise(&mut self.reserved, peak(recorded.peaks.reserved));
        raise(&mut self.used, peak(recorded.peaks.used));
        self.total_bytes = self.total_bytes.max(recorded.device_total_bytes);
    }
}

/// Keeps the higher of two peaks; when both are equal, the first stays.
fn raise(highest: &mut Option<Peak>, seen: Option<Peak>) {
    if let Some(seen) = seen
        && highest.is_none_or(|highest| seen.bytes > highest.bytes)
    {
        *highest = Some(seen);
    }
}
