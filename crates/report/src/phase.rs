//! Phases of a run: named time spans of its program, as pictures show them.

use stormlog_analysis::timeline::{PhaseSpan, Run, Track};

use crate::label::clean;

/// A phase of a run: a time span that the program has given a name, such as `train`. Phases can be
/// nested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// When the phase begins, in nanoseconds on the clock of its rank.
    pub start_ns: i64,
    /// When the phase ends, in nanoseconds on the clock of its rank.
    pub end_ns: i64,
    /// The rank that was in the phase.
    pub rank: i64,
    /// The nesting depth; the outermost phase has 0.
    pub depth: usize,
    /// The name of this phase, without the names of the phases that contain it.
    pub name: String,
    /// The names of all phases that contain this one, the outermost first, and then its own name,
    /// separated by ` / `.
    pub path: String,
}

/// The phases of a run, which its detectors read too, ordered by start and depth.
pub(crate) fn phases_of(run: &Run) -> Vec<Phase> {
    let mut phases: Vec<Phase> = run
        .tracks
        .iter()
        .filter(|track| !track.phases.is_empty())
        .flat_map(|track| {
            let last_ns = last_sample_ns(run, track);
            let phase = move |span| phase(span, track, last_ns);
            track.phases.iter().map(phase)
        })
        .collect();
    phases.sort_by_key(|phase| (phase.start_ns, phase.depth));
    phases
}

/// The time of the last sample that the session of a track has of its rank.
fn last_sample_ns(run: &Run, track: &Track) -> Option<i64> {
    let is_same = |one: &&Track| one.rank == track.rank && one.session_id == track.session_id;
    let tracks = run.tracks.iter().filter(is_same);
    tracks.filter_map(|one| one.t_ns.last().copied()).max()
}

fn phase(span: &PhaseSpan, track: &Track, last_ns: Option<i64>) -> Phase {
    let path: Vec<&str> = span.outer.iter().map(String::as_str).collect();
    let path = [path, vec![&span.name]].concat().join(" / ");
    Phase {
        start_ns: span.start_ns,
        // A phase that was never left lasts to the end of the recording.
        end_ns: span.end_ns.or(last_ns).unwrap_or(0).max(span.start_ns),
        rank: track.rank.into(),
        depth: span.outer.len(),
        name: clean(&span.name),
        path: clean(&path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_of_the_detectors_are_drawn_also_one_that_was_never_left() {
        let track = Track {
            rank: 3,
            t_ns: vec![1, 100],
            phases: vec![
                PhaseSpan {
                    name: "train".into(),
                    start_ns: 10,
                    ..PhaseSpan::default()
                },
                PhaseSpan {
                    name: "evaluation".into(),
                    outer: vec!["train".into()],
                    start_ns: 20,
                    end_ns: Some(30),
                },
            ],
            ..Track::default()
        };
        let run = Run {
            tracks: vec![track],
            ..Run::default()
        };
        let phases = phases_of(&run);
        let drawn = phases.iter().map(|phase| {
            let times = (phase.start_ns, phase.end_ns);
            (times, phase.rank, phase.depth, phase.path.as_str())
        });
        assert_eq!(
            drawn.collect::<Vec<_>>(),
            [
                ((10, 100), 3, 0, "train"),
                ((20, 30), 3, 1, "train / evaluation")
            ]
        );
    }
}
