//! One run: its tracks, its processes, its program and how the run ended.

use std::collections::{BTreeMap, BTreeSet};

use super::end::{End, RankEnd};
use super::process::Process;
use super::track::{Column, RecordedBy, Track};

/// The recorded program, as described in the events that begin the sessions of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// The program's name, such as `train.py`.
    pub name: Option<String>,
    /// The name that the user gave the run.
    pub run_name: Option<String>,
    /// The command line of the program, with secrets removed.
    pub command: Vec<String>,
    /// The git commit that was checked out when the program started.
    pub commit: Option<String>,
}

impl Program {
    /// The name to show for a run: the one that the user gave it, or else that of its program.
    pub fn shown_name(&self) -> Option<&str> {
        self.run_name.as_deref().or(self.name.as_deref())
    }
}

/// One run of a training job, built from all of its recorded sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// The id of the run ([`id_of_run`](super::id_of_run)); `None` for a run without sessions.
    pub id: Option<String>,
    /// The samples: one track for each session, rank and device. The tracks are in any order.
    pub tracks: Vec<Track>,
    /// The processes whose host memory was recorded separately.
    pub processes: Vec<Process>,
    /// How each recorded process ended, if known.
    pub ends: Vec<RankEnd>,
    /// The program that was run, as far as it was recorded.
    pub program: Program,
}

impl Run {
    /// Whether only the memory in use on devices was recorded, and no counter of an allocator.
    #[must_use]
    pub fn is_from_outside(&self) -> bool {
        let knows = |column: fn(&Track) -> &Column| {
            let mut columns = self.tracks.iter().map(column);
            columns.any(|column| column.known() > 0)
        };
        knows(|track| &track.used)
            && !knows(|track| &track.allocated)
            && !knows(|track| &track.reserved)
    }

    /// Whether `stormlog run` recorded host memory also after the start-up of the program.
    #[must_use]
    pub fn has_host(&self) -> bool {
        let mut hosts = self.tracks.iter().filter(|track| track.is_host_of_run());
        hosts.any(|track| !self.is_start_up_only(track))
    }

    /// Whether the tracks of the run are of more than one rank.
    #[must_use]
    pub fn has_several_ranks(&self) -> bool {
        let mut ranks = self.tracks.iter().map(|track| track.rank);
        let first = ranks.next();
        ranks.any(|rank| Some(rank) != first)
    }

    /// How the run ended: the worst end of its processes.
    #[must_use]
    pub fn end(&self) -> End {
        let worst = self.ends.iter().max_by_key(|one| one.end.gravity());
        worst.map_or(End::Unknown, |one| one.end.clone())
    }

    /// The times of the first and the last sample of the run, in nanoseconds since 1970.
    #[must_use]
    pub fn span_ns(&self) -> Option<(i64, i64)> {
        let spans = self.tracks.iter().filter_map(Track::span_ns);
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Whether a host track covers only the start-up of a program that then used a device. Version
    /// 0.4.0 stopped recording host memory when the program first used a device.
    #[must_use]
    pub fn is_start_up_only(&self, track: &Track) -> bool {
        if !track.is_host() {
            return false;
        }
        let Some((_, last)) = track.span_ns() else {
            return false;
        };
        let half = |span: (i64, i64)| span.0.saturating_add(span.1.saturating_sub(span.0) / 2);
        self.tracks.iter().any(|other| {
            !other.is_host()
                && other.rank == track.rank
                && other.pid == track.pid
                && other.host == track.host
                && other.recorder == RecordedBy::Run
                && other.span_ns().is_some_and(|span| last < half(span))
        })
    }
}

/// The devices used by several recorded processes. On a device with several processes, memory
/// outside one process's allocator may belong to another process.
#[derive(Debug, Default)]
pub struct CrowdedDevices<'a>(BTreeSet<(&'a str, i64)>);

impl<'a> CrowdedDevices<'a> {
    /// Finds the devices used by several processes among the given tracks.
    #[must_use]
    pub fn of(tracks: impl IntoIterator<Item = &'a Track>) -> Self {
        let mut users: BTreeMap<(&str, i64), BTreeSet<i64>> = BTreeMap::new();
        for track in tracks {
            let device = (track.host.as_str(), track.device_id);
            users.entry(device).or_default().insert(track.pid);
        }
        let crowded = users.into_iter().filter(|(_, pids)| pids.len() > 1);
        Self(crowded.map(|(device, _)| device).collect())
    }

    /// Whether the hidden memory of a track (device memory in use outside the allocator) can be
    /// attributed to its own process: either no other recorded process uses the device, or the
    /// process's share of the device is known.
    #[must_use]
    pub fn knows_hidden(&self, track: &Track) -> bool {
        !self.0.contains(&(track.host.as_str(), track.device_id)) || track.knows_own()
    }
}
