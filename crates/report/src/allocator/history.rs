//! Turns the history of allocator events in a snapshot into a [`Story`] that can be drawn: one
//! point per event, with a description of the event.

use stormlog_analysis::allocator_snapshot::{Account, Action, AllocatorMoment};
use stormlog_analysis::detect::Severity;

use super::AllocatorLimits;
use crate::bytes::human;
use crate::label::clean;
use crate::mark::{Mark, MarkKind};
use crate::phase::Phase;
use crate::story::Story;
use crate::track::DrawnTrack;

/// The distance between two drawn points is at most the whole time divided by this number; a longer
/// pause between allocator events is filled with points that repeat the last values.
const STEPS: i64 = 500;

pub(super) fn story(account: &Account, limits: &AllocatorLimits) -> Story {
    let mut points: Vec<(i64, i64, i64, String)> = Vec::new();
    let whole = account.moments.first().zip(account.moments.last());
    let length = whole.map_or(0, |(first, last)| {
        last.time_ns.saturating_sub(first.time_ns)
    });
    let step = (length / STEPS).max(1);
    for index in kept(&account.moments, limits.timeline_points) {
        let moment = &account.moments[index];
        if let Some((time, held, total, _)) = points.last() {
            // Nothing is allocated in a pause, so the last values are repeated until the pause
            // ends.
            let (mut time, held, total) = (*time, *held, *total);
            while moment.time_ns.saturating_sub(time) > step {
                time = time.saturating_add(step);
                points.push((time, held, total, String::new()));
            }
        }
        let (held, total) = (moment.allocated_bytes, moment.reserved_bytes);
        points.push((moment.time_ns, held, total, event_text(account, index)));
    }
    let mut story = Story::of_tracks(vec![DrawnTrack::from_points(points)]);
    story.title = Some(super::title(account));
    story.is_history = true;
    story.phases = account
        .spans
        .iter()
        .map(|span| Phase {
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            rank: 0,
            depth: span.depth,
            name: clean(&span.name),
            path: clean(&span.name),
        })
        .collect();
    story.add_marks(marks(account, limits.marks));
    story
}

/// The indices of the allocator events to draw: all of them, or, if there are more than `most`,
/// those with the most and the least allocated memory of each interval.
fn kept(moments: &[AllocatorMoment], most: usize) -> Vec<usize> {
    if moments.len() <= most {
        return (0..moments.len()).collect();
    }
    let stretch = moments.len().div_ceil((most / 2).max(1));
    let mut kept = Vec::new();
    for start in (0..moments.len()).step_by(stretch) {
        let range = start..(start + stretch).min(moments.len());
        let level = |index: &usize| moments[*index].allocated_bytes;
        let (low, high) = (range.clone().min_by_key(level), range.max_by_key(level));
        kept.extend(low);
        kept.extend(high);
    }
    // The last allocator event is always drawn, because the tables on the page describe the state
    // after it.
    kept.push(moments.len() - 1);
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// Creates marks on the timeline for the peak, for at most `most` out-of-memory errors, and for the
/// `most` largest allocations.
fn marks(account: &Account, most: usize) -> Vec<Mark> {
    let mark = |index: usize, severity, kind, label: String| Mark {
        time_ns: account.moments[index].time_ns,
        end_ns: None,
        rank: Some(0),
        severity,
        label,
        detail: None,
        kind,
        on_host: false,
    };
    let moments = || account.moments.iter().enumerate();
    let mut marks: Vec<Mark> = moments()
        .filter(|(_, moment)| moment.action == Action::Oom)
        .map(|(index, _)| {
            mark(
                index,
                Severity::Critical,
                MarkKind::Oom,
                event_text(account, index),
            )
        })
        .take(most)
        .collect();
    let peak = account.totals.peak_requested_bytes;
    if let Some((index, _)) = moments().find(|(_, one)| Some(one.allocated_bytes) == peak) {
        let label = format!("peak: {}", human(account.moments[index].allocated_bytes));
        marks.push(mark(index, Severity::Warning, MarkKind::Finding, label));
    }
    let mut largest: Vec<usize> = moments()
        .filter(|(_, moment)| moment.action == Action::Alloc)
        .map(|(index, _)| index)
        .collect();
    largest.sort_by_key(|index| (std::cmp::Reverse(account.moments[*index].bytes), *index));
    let largest = largest.into_iter().take(most);
    marks.extend(largest.map(|index| {
        mark(
            index,
            Severity::Info,
            MarkKind::Alert,
            event_text(account, index),
        )
    }));
    marks
}

/// Describes an allocator event in one line: `+8.00 MiB fc.weight, step (train.py:26)`.
fn event_text(account: &Account, index: usize) -> String {
    let moment = &account.moments[index];
    let size = human(moment.bytes);
    let mut text = match moment.action {
        Action::Alloc => format!("+{size}"),
        Action::Free => format!("−{size}"),
        Action::Grow => format!("{size} reserved from the device"),
        Action::Shrink => format!("{size} returned to the device"),
        Action::Oom => format!("out of memory: {size} requested"),
    };
    let known = [account.name_at(index), account.place_at(moment)];
    for (index, known) in known.into_iter().flatten().enumerate() {
        text.push_str(if index == 0 { " " } else { ", " });
        text.push_str(known);
    }
    clean(&text)
}
