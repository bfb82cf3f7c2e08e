//! Separates excursions that recur regularly (a rhythm), such as evaluations and checkpoints, from
//! excursions that do not. The beats of a rhythm are the times at which its excursions are
//! expected.

use super::excursion::Excursion;
use crate::detect::evidence::signals::Signals;

/// Minimum number of excursions that recur at regular intervals to count as a rhythm.
const MIN_BEATS: usize = 3;
/// Largest distance of an excursion from a beat of the rhythm: a share of the time between beats
/// plus a number of samples, and at most `MAX_SLACK` of the time between beats.
const SLACK_SHARE: f64 = 0.05;
const SLACK_SAMPLES: f64 = 2.0;
const MAX_SLACK: f64 = 0.2;
/// Largest ratio between the highest and the lowest excursion of a rhythm; excursions of a rhythm
/// are similar, because the same work takes the same memory.
const MAX_UNLIKE: f64 = 2.5;
/// An excursion at least this many times as high as those of a rhythm does not belong to the
/// rhythm.
const MIN_UNLIKE: f64 = 1.3;
/// A rhythm covers the whole run: it begins at most `BEATS_BEFORE` beats after the warm-up and
/// continues until at most `BEATS_AFTER` beats before the end. `BEATS_AFTER` is larger, because the
/// last beat may have fallen between samples.
const BEATS_BEFORE: f64 = 1.3;
const BEATS_AFTER: f64 = 1.7;

/// The irregular excursions, which do not belong to a rhythm; `None` when there are none or too
/// many.
///
/// After the warm-up, up to `most` irregular excursions are allowed when there is no rhythm, or
/// when each of them is much higher than the excursions of the rhythm. Otherwise only one is
/// allowed, because a badly sampled rhythm looks irregular. In addition, one irregular excursion is
/// allowed during the warm-up.
pub(super) fn without_regular(
    events: &[Excursion],
    most: usize,
    signals: &Signals,
) -> Option<Vec<Excursion>> {
    let regular = largest_rhythm(events, signals);
    let odd: Vec<Excursion> = events
        .iter()
        .filter(|e| !is_on_beat(e, &regular, signals))
        .copied()
        .collect();
    let settled = odd.iter().filter(|e| e.from >= signals.warm_end).count();
    let highest = regular.iter().map(Excursion::top).fold(0.0, f64::max);
    let stand_out = odd.iter().all(|e| e.height > MIN_UNLIKE * highest);
    let allowed = if regular.is_empty() || stand_out {
        most
    } else {
        1
    };
    let one_in_warm_up = odd.len() <= settled + 1;
    (!odd.is_empty() && settled <= allowed && one_in_warm_up).then_some(odd)
}

/// The largest set of excursions that forms a rhythm; empty when none does. Each pair of excursions
/// is tried as the first two beats of a rhythm.
fn largest_rhythm(events: &[Excursion], signals: &Signals) -> Vec<Excursion> {
    let mut largest = Vec::new();
    for (k, first) in events.iter().enumerate() {
        for second in &events[k + 1..] {
            let beat = second.from - first.from;
            let slack = slack_of(beat, signals);
            let mut beats = vec![*first];
            let mut last = first.from;
            for event in &events[k + 1..] {
                if off_beat(event.from - last, beat) <= slack {
                    beats.push(*event);
                    last = event.from;
                }
            }
            if beats.len() > largest.len() && is_rhythm(&beats, signals) {
                largest = beats;
            }
        }
    }
    largest
}

/// How far a time lies from the nearest multiple of `beat` (the time between two beats of a
/// rhythm); `since` is the time since a beat. All in seconds.
fn off_beat(since: f64, beat: f64) -> f64 {
    (since - beat * (since / beat).round()).abs()
}

/// How far from a beat an excursion may start and still count as regular, in seconds.
fn slack_of(beat: f64, signals: &Signals) -> f64 {
    (SLACK_SHARE * beat + SLACK_SAMPLES * signals.interval).min(MAX_SLACK * beat)
}

fn is_rhythm(events: &[Excursion], signals: &Signals) -> bool {
    if events.len() < MIN_BEATS {
        return false;
    }
    let beat = beat_of(events);
    let slack = slack_of(beat, signals);
    // When no sample falls into an excursion of the rhythm, the excursions before and after it are
    // two beats apart, so every multiple of the beat is accepted.
    let is_even = events.windows(2).all(|w| {
        let gap = w[1].from - w[0].from;
        off_beat(gap, beat) <= slack
    });
    let (first, last) = (events[0].from, events[events.len() - 1].from);
    is_even
        && first - BEATS_BEFORE * beat <= signals.warm_end
        && last + BEATS_AFTER * beat >= signals.end
        && are_alike(events)
}

fn are_alike(events: &[Excursion]) -> bool {
    let heights = events.iter().map(Excursion::top);
    let (low, high) = heights.fold((f64::INFINITY, 0.0_f64), |(a, b), h| (a.min(h), b.max(h)));
    high <= MAX_UNLIKE * low
}

/// Whether an excursion belongs to a rhythm, or falls on one of its beats; an excursion on a beat
/// counts as regular, because samples may have missed a part of it. The beats of a rhythm drift, so
/// the nearest beats before and after the excursion are both checked.
fn is_on_beat(event: &Excursion, regular: &[Excursion], signals: &Signals) -> bool {
    if regular.is_empty() {
        return false;
    }
    let beat = beat_of(regular);
    let length = regular.iter().map(|e| e.to - e.from).fold(0.0, f64::max);
    let slack = 2.0 * SLACK_SHARE * beat + SLACK_SAMPLES * signals.interval;
    let after = regular.partition_point(|e| e.from <= event.from);
    let falls_on = |since: f64| {
        let since = since.rem_euclid(beat);
        since <= length + slack || since >= beat - slack
    };
    let before = after.checked_sub(1).map(|k| regular[k].from);
    let next = regular.get(after).map(|e| e.from);
    [before, next]
        .into_iter()
        .flatten()
        .any(|at| falls_on(event.from - at))
}

/// The time between two beats of a rhythm in seconds: the shortest time between the starts of
/// neighbouring excursions.
fn beat_of(events: &[Excursion]) -> f64 {
    events
        .windows(2)
        .map(|w| w[1].from - w[0].from)
        .fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::evidence::signals;
    use crate::detect::tests::sketch::{a_rank, run_of};

    fn event(from: f64, height: f64) -> Excursion {
        let (to, level) = (from + 4.0, height);
        Excursion {
            from,
            to,
            height,
            level,
            range: 0.0,
            samples: 5,
            is_over: true,
        }
    }

    fn odd_ones(events: &[Excursion]) -> Option<Vec<f64>> {
        let run = run_of([a_rank(0)]);
        let signals = signals::read(&run);
        let odd = without_regular(events, 3, &signals[0])?;
        Some(odd.iter().map(|e| e.from).collect())
    }

    #[test]
    fn even_distances_over_the_run_are_a_rhythm() {
        assert_eq!(
            odd_ones(&[60.0, 140.0, 221.0, 300.0, 380.0].map(|t| event(t, 5.0))),
            None
        );
        // One excursion of the rhythm is missing, because no sample fell into it.
        assert_eq!(
            odd_ones(&[60.0, 140.0, 300.0, 380.0].map(|t| event(t, 5.0))),
            None
        );
    }

    #[test]
    fn even_distances_in_a_part_of_the_run_are_chance() {
        let events = [200.0, 240.0, 280.0].map(|t| event(t, 5.0));
        assert_eq!(odd_ones(&events), Some(vec![200.0, 240.0, 280.0]));
    }

    #[test]
    fn unlike_heights_are_no_rhythm() {
        let events = [event(100.0, 2.0), event(200.0, 9.0), event(300.0, 4.0)];
        assert_eq!(odd_ones(&events), Some(vec![100.0, 200.0, 300.0]));
    }

    #[test]
    fn one_may_be_odd_besides_a_rhythm() {
        let events = [60.0, 140.0, 185.0, 220.0, 300.0, 380.0].map(|t| event(t, 5.0));
        assert_eq!(odd_ones(&events), Some(vec![185.0]));
    }

    #[test]
    fn several_may_be_odd_besides_a_rhythm_if_they_stand_out() {
        let beats = [60.0, 140.0, 222.0, 300.0, 381.0];
        let with = |height: f64| {
            let odd = [185.0, 262.0].map(|t| event(t, height));
            let mut all: Vec<Excursion> = beats.map(|t| event(t, 5.0)).into();
            all.extend(odd);
            all.sort_by(|a, b| a.from.total_cmp(&b.from));
            odd_ones(&all)
        };
        assert_eq!(with(9.0), Some(vec![185.0, 262.0]));
        assert_eq!(with(5.0), None);
    }

    #[test]
    fn a_peak_of_the_warm_up_is_not_counted() {
        let events = [60.0, 150.0, 210.0, 340.0].map(|t| event(t, 5.0));
        assert_eq!(odd_ones(&events).map(|odd| odd.len()), Some(4));
    }

    #[test]
    fn many_without_a_rhythm_are_ordinary() {
        assert_eq!(
            odd_ones(&[90.0, 110.0, 200.0, 310.0, 330.0].map(|t| event(t, 5.0))),
            None
        );
    }
}
