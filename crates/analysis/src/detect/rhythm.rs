//! Tells evaluations and checkpoints, which come in a rhythm, from excursions that do not.

use super::excursion::Excursion;
use super::signals::Signals;

/// Fewest excursions that make a rhythm, by definition.
const MIN_BEATS: usize = 3;
/// How far a beat may be off, as a share of the beat and in samples, and at most in all.
const SLACK_SHARE: f64 = 0.05;
const SLACK_SAMPLES: f64 = 2.0;
const MAX_SLACK: f64 = 0.2;
/// How many times as high as the lowest the highest may be: the same work takes the same memory.
const MAX_UNLIKE: f64 = 2.5;
/// A rhythm fills the run: it begins this many beats after the warm-up at the latest, and goes on
/// until this many beats before the end. The last beat may have fallen between samples.
const BEATS_BEFORE: f64 = 1.3;
const BEATS_AFTER: f64 = 1.7;

/// The excursions that are no part of a rhythm; `None` where all are, or where so many are not that
/// nothing can be said. Besides a rhythm one may be odd; without one, up to `most` are.
pub(super) fn without_regular(
    events: &[Excursion],
    most: usize,
    signals: &Signals,
) -> Option<Vec<Excursion>> {
    if is_rhythm(events, signals) {
        return None;
    }
    if events.len() <= most {
        return Some(events.to_vec());
    }
    (0..events.len()).find_map(|odd| {
        let mut rest = events.to_vec();
        let event = rest.remove(odd);
        let is_odd = is_rhythm(&rest, signals) && !is_on_beat(&event, &rest, signals);
        is_odd.then(|| vec![event])
    })
}

fn is_rhythm(events: &[Excursion], signals: &Signals) -> bool {
    if events.len() < MIN_BEATS {
        return false;
    }
    let beat = beat_of(events);
    let slack = (SLACK_SHARE * beat + SLACK_SAMPLES * signals.interval).min(MAX_SLACK * beat);
    // A beat that was not sampled leaves a gap of two.
    let is_even = events.windows(2).all(|w| {
        let gap = w[1].from - w[0].from;
        (gap - beat * (gap / beat).round()).abs() <= slack
    });
    let (first, last) = (events[0].from, events[events.len() - 1].from);
    is_even
        && first - BEATS_BEFORE * beat <= signals.warm_end
        && last + BEATS_AFTER * beat >= signals.end
        && are_alike(events)
}

fn are_alike(events: &[Excursion]) -> bool {
    let heights = events.iter().map(|e| e.height + e.range);
    let (low, high) = heights.fold((f64::INFINITY, 0.0_f64), |(a, b), h| (a.min(h), b.max(h)));
    high <= MAX_UNLIKE * low
}

/// Whether an excursion falls where the others' rhythm has a beat: part of it may have been missed.
fn is_on_beat(event: &Excursion, rest: &[Excursion], signals: &Signals) -> bool {
    let beat = beat_of(rest);
    let length = rest.iter().map(|e| e.to - e.from).fold(0.0, f64::max);
    let since = (event.from - rest[0].from).rem_euclid(beat);
    let slack = 2.0 * SLACK_SHARE * beat + SLACK_SAMPLES * signals.interval;
    since <= length + slack || since >= beat - slack
}

/// The shortest time from one excursion to the next.
fn beat_of(events: &[Excursion]) -> f64 {
    events
        .windows(2)
        .map(|w| w[1].from - w[0].from)
        .fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::super::signals;
    use super::super::sketch::{a_rank, run_of};
    use super::*;

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
        // One was not sampled.
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
    fn many_without_a_rhythm_are_ordinary() {
        assert_eq!(
            odd_ones(&[90.0, 110.0, 200.0, 310.0, 330.0].map(|t| event(t, 5.0))),
            None
        );
    }
}
