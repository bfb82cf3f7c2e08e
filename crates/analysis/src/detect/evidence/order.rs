//! Selects the samples of a track that detectors use, and sorts them by time. Samples taken after
//! the end of training are left out.

use crate::stats::quantile;
use crate::timeline::{Track, float};

/// Training is over when allocated memory stays below this share of its floor until the end of the
/// track.
const TEARDOWN_LEVEL: f64 = 0.5;
/// Low samples at the end of a track are removed only when they are less than one eighth of the
/// track's samples. A longer time at a low level is not taken for the end of training.
const TEARDOWN_PART: usize = 8;

/// The indices in the track's columns of the samples that detectors use, in order of time.
pub(crate) fn of(track: &Track) -> Vec<usize> {
    without_teardown(track, by_time(track))
}

/// Indices of the samples in order of time. Of samples with equal timestamps, only the last is
/// kept.
fn by_time(track: &Track) -> Vec<usize> {
    let t = &track.t_ns;
    let mut order = track.in_time_order();
    order.dedup_by(|later, earlier| {
        let same = t[*later] == t[*earlier];
        if same {
            *earlier = *later;
        }
        same
    });
    order
}

/// Removes samples after the end of training from the end of a track. A recorder that runs longer
/// than the training sees the model being freed, which must not look like memory freed during
/// training.
fn without_teardown(track: &Track, mut order: Vec<usize>) -> Vec<usize> {
    let allocated = |i: usize| track.allocated.get(i).map(float);
    let later = &order[order.len() / 4..];
    let levels: Vec<f64> = later.iter().filter_map(|&i| allocated(i)).collect();
    let teardown_bytes = TEARDOWN_LEVEL * quantile(&levels, 0.05);
    let last = order
        .iter()
        .rposition(|&i| allocated(i).is_none_or(|bytes| bytes >= teardown_bytes));
    let kept = last.map_or(order.len(), |k| k + 1);
    if kept > order.len() - order.len() / TEARDOWN_PART {
        order.truncate(kept);
    }
    order
}
