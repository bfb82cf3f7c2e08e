//! Which samples of a track count, and in which order.

use super::stats::quantile;
use crate::timeline::Track;
use crate::timeline::float;

/// Training is over when allocation has fallen below this share of its floor for good,
const TEARDOWN_LEVEL: f64 = 0.5;
/// unless that takes more than one sample in this many: then something else has happened.
const TEARDOWN_PART: usize = 8;

/// Indices of the samples that count, by time.
pub(super) fn of(track: &Track) -> Vec<usize> {
    without_teardown(track, by_time(track))
}

/// The samples by time; of those that share a timestamp only the last counts.
fn by_time(track: &Track) -> Vec<usize> {
    let t = &track.t_ns;
    let mut order: Vec<usize> = (0..t.len()).collect();
    if !t.is_sorted() {
        order.sort_by_key(|&i| t[i]);
    }
    order.dedup_by(|later, earlier| {
        let same = t[*later] == t[*earlier];
        if same {
            *earlier = *later;
        }
        same
    });
    order
}

/// The samples up to the end of training. A recorder that outlives it sees the model being freed;
/// that is not training giving memory back.
fn without_teardown(track: &Track, mut order: Vec<usize>) -> Vec<usize> {
    let allocated = |i: usize| track.allocated.get(i).map(float);
    let later = &order[order.len() / 4..];
    let levels: Vec<f64> = later.iter().filter_map(|&i| allocated(i)).collect();
    let gone = TEARDOWN_LEVEL * quantile(&levels, 0.05);
    let last = order
        .iter()
        .rposition(|&i| allocated(i).is_none_or(|bytes| bytes >= gone));
    let kept = last.map_or(order.len(), |k| k + 1);
    if kept > order.len() - order.len() / TEARDOWN_PART {
        order.truncate(kept);
    }
    order
}
