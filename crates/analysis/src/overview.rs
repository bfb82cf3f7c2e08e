//! A short overview of an artifact: sessions, ranks, time span and peaks.

use std::collections::BTreeSet;

use crate::load::LoadedSession;
use crate::timeline::{RankCoverage, run_of};

/// The highest value of a counter, and the rank with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The value in bytes.
    pub bytes: i64,
    /// The rank.
    pub rank: i64,
}

/// The overview of some sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// Number of events.
    pub events: usize,
    /// Number of samples among the events.
    pub samples: usize,
    /// Timestamps of the first and the last event.
    pub span_ns: Option<(i64, i64)>,
    /// The recorded ranks.
    pub ranks: BTreeSet<i64>,
    /// The largest world size that any event declares.
    pub world_size: i64,
    /// The job ids.
    pub jobs: BTreeSet<String>,
    /// The host names.
    pub hosts: BTreeSet<String>,
    /// Highest allocated bytes; `None` when never known.
    pub allocated: Option<Peak>,
    /// Highest reserved bytes.
    pub reserved: Option<Peak>,
    /// Highest bytes in use on the device.
    pub used: Option<Peak>,
    /// The largest reported size of the device.
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
            let (first, last) = self.span_ns.unwrap_or((time, time));
            self.span_ns = Some((first.min(time), last.max(time)));
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

/// Keeps the higher value. On a tie, the first value stays.
fn raise(highest: &mut Option<Peak>, seen: Option<Peak>) {
    if let Some(seen) = seen
        && highest.is_none_or(|highest| seen.bytes > highest.bytes)
    {
        *highest = Some(seen);
    }
}
