//! Determines the rank of a timeline: from its contents, otherwise from its path, otherwise the
//! lowest free rank.

use std::collections::BTreeSet;
use std::path::Path;

use stormlog_analysis::{LoadedSession, rank_in_name};
use stormlog_format::whole;
use stormlog_format::{Map, Value};

/// The ranks that sessions loaded so far already have. A timeline without a rank gets the lowest
/// rank that is still free.
#[derive(Default)]
pub(super) struct RankChoice {
    taken: BTreeSet<i64>,
    world_size: i64,
}

/// The rank, local rank and world size that a diagnose bundle's timeline gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankContext {
    pub(super) rank: i64,
    pub(super) local_rank: i64,
    pub(super) world_size: i64,
    /// Where the rank comes from: the contents of the file (`payload`), its path (`path`), or the
    /// lowest free rank (`allocator`).
    pub(super) source: &'static str,
}

impl RankChoice {
    /// Marks the ranks of loaded sessions as used, and remembers their largest world size.
    pub(super) fn observe(&mut self, sessions: &[(LoadedSession, Vec<String>)]) {
        for event in sessions
            .iter()
            .flat_map(|(session, _)| session.events.iter())
        {
            let origin = event.origin();
            self.taken.insert(origin.rank);
            self.world_size = self.world_size.max(origin.world_size);
        }
    }

    /// Determines the rank of the timeline in `file`, whose contents are `payload`, and marks the
    /// rank as used.
    pub(super) fn choose(&mut self, file: &Path, payload: &Map) -> RankContext {
        let nested = |key: &str| payload.object(key);
        let maps = [
            Some(payload),
            nested("metadata"),
            nested("distributed_identity"),
        ];
        let number_in_file = |key: &str, least: i64| {
            let values = maps.iter().flatten().filter_map(|map| map.get(key));
            values.filter_map(integer).find(|value| *value >= least)
        };
        let (rank, source) = if let Some(rank) = number_in_file("rank", 0) {
            (rank, "payload")
        } else if let Some(rank) = rank_in_path(file) {
            (rank, "path")
        } else {
            (self.free(), "allocator")
        };
        let local_rank = number_in_file("local_rank", 0).unwrap_or(rank);
        let world_size = number_in_file("world_size", 1)
            .unwrap_or(1)
            .max(self.world_size)
            .max(rank.saturating_add(1))
            .max(local_rank.saturating_add(1));
        self.taken.insert(rank);
        self.world_size = world_size;
        RankContext {
            rank,
            local_rank,
            world_size,
            source,
        }
    }

    fn free(&self) -> i64 {
        // The search covers one more number than there are used ranks, so at least one is free.
        let enough = i64::try_from(self.taken.len()).unwrap_or(i64::MAX);
        let mut ranks = 0..=enough;
        ranks.find(|rank| !self.taken.contains(rank)).unwrap_or(0)
    }
}

/// The integer that a JSON value gives: an integer, a float without a fraction, or a text with an
/// integer.
fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int(value) => Some(*value),
        Value::Text(text) => stormlog_format::integer_of_text(text),
        Value::Float(value) if value.fract() == 0.0 && value.abs() < 9e18 => Some(whole(*value)),
        _ => None,
    }
}

/// The rank named in a path, taken from the last part of the path that names one.
fn rank_in_path(file: &Path) -> Option<i64> {
    let parts = file.components().rev();
    parts
        .filter_map(|part| part.as_os_str().to_str())
        .find_map(rank_in_name)
}
