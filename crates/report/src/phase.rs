//! Phases of a run: named time spans, reconstructed from the events that record the beginning and
//! the end of each phase.

use stormlog_analysis::LoadedSession;
use stormlog_analysis::phases::{PhaseReplay, ScopeSpan, path_text};
use stormlog_format::Text;

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

/// The phases of several sessions, ordered by start and depth.
pub fn phases_of(sessions: &[&LoadedSession]) -> Vec<Phase> {
    let mut phases = Vec::new();
    for session in sessions {
        let replay = PhaseReplay::of_events(&session.events);
        for (_, spans) in replay.groups() {
            phases.extend(spans.iter().map(phase));
        }
    }
    phases.sort_by_key(|phase| (phase.start_ns, phase.depth));
    phases
}

fn phase(span: &ScopeSpan) -> Phase {
    let name = span.path.last().map(Text::to_str_lossy);
    Phase {
        start_ns: span.start_ns,
        end_ns: span.end_ns,
        rank: span.rank,
        depth: span.path.len().saturating_sub(1),
        name: clean(&name.unwrap_or_default()),
        path: clean(&path_text(&span.path).to_str_lossy()),
    }
}
