//! Computes the time spans of phases, and the phase of an event.
//!
//! *Replay* computes the time spans of phases from the events that mark where a phase is entered
//! and left. *Attribution* determines the phase of an event from these spans. When several threads
//! were in phases at the time of the event, attribution also determines how certain the phase is.

mod attribution;
mod boundary;

use hashbrown::HashMap;
use stormlog_analysis::{EventRef, Events};
use stormlog_format::json::value_of;
use stormlog_format::{Map, Text, Value};

pub use attribution::{
    PhaseAttribution, PhaseOrigin, PhaseSource, Resolution, attribute, merge, path_text,
    resolution_label,
};
pub use boundary::{Action, Boundary, ScopeRecord};

/// One pass of a thread through a phase: the time between entering the phase and leaving it, in the
/// model of stormlog 0.3.9. Detectors read [`stormlog_analysis::timeline::PhaseSpan`] instead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct ScopeSpan {
    pub session_id: Text,
    pub rank: i64,
    pub thread_id: i64,
    pub thread_name: Text,
    pub scope_id: Text,
    pub path: Vec<Text>,
    pub start_ns: i64,
    pub end_ns: i64,
    pub sequence: i64,
    /// Whether the phase was never left, so that the span ends at the last event.
    pub synthetic_end: bool,
}

impl ScopeSpan {
    /// The metadata of the marker that shows this span.
    pub fn metadata(&self) -> Map {
        let mut metadata = Map::new();
        metadata.insert("phase_path", value_of(&self.path));
        metadata.insert("scope_id", self.scope_id.clone());
        metadata.insert("thread_id", self.thread_id);
        metadata.insert("thread_name", self.thread_name.clone());
        metadata.insert("sequence", self.sequence);
        metadata.insert("synthetic_end", Value::Bool(self.synthetic_end));
        metadata
    }
}

/// Phase spans in groups, one group for each session and rank.
pub type SpanGroups = Vec<((Text, i64), Vec<ScopeSpan>)>;

/// All phases in the given events, grouped by session and rank.
#[derive(Clone, Debug, Default)]
pub struct PhaseReplay {
    groups: SpanGroups,
}

/// The part of an event that phase replay needs: session, rank, time and boundary.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The session.
    pub session_id: Text,
    /// The rank.
    pub rank: i64,
    /// The timestamp.
    pub timestamp_ns: i64,
    /// The boundary of a phase that the event marks, if any.
    pub boundary: Option<Boundary>,
}

impl PhaseReplay {
    /// Computes the time spans of all phases in loaded events.
    pub fn of_events(events: &Events) -> Self {
        // Most sessions have no phases, and searching the events for boundaries of phases costs
        // less than the replay below.
        if events.of_type(Boundary::is_one).next().is_none() {
            return Self::default();
        }
        let mut replay = Replay::default();
        let mut groups: Vec<Option<usize>> = vec![None; events.origin_count()];
        for (_, event, origin) in events.of_type(|_| true) {
            let group = *groups[origin].get_or_insert_with(|| {
                let origin = event.origin();
                replay.group(&origin.session_id, origin.rank)
            });
            replay.add(group, event.timestamp_ns(), Boundary::of_event(event));
        }
        Self {
            groups: replay.finish(),
        }
    }

    /// Computes the time spans of all phases in `moments`, which may be in any order.
    pub fn of_moments(moments: impl IntoIterator<Item = Moment>) -> Self {
        let mut replay = Replay::default();
        for moment in moments {
            let group = replay.group(&moment.session_id, moment.rank);
            replay.add(group, moment.timestamp_ns, moment.boundary);
        }
        Self {
            groups: replay.finish(),
        }
    }

    /// Creates a `PhaseReplay` from spans that were computed elsewhere.
    pub fn from_groups(groups: SpanGroups) -> Self {
        Self { groups }
    }

    /// The phase spans, grouped by session and rank.
    pub fn groups(&self) -> &SpanGroups {
        &self.groups
    }

    /// Whether there are no phases.
    pub fn is_empty(&self) -> bool {
        self.groups.iter().all(|(_, spans)| spans.is_empty())
    }

    /// The phase spans of a session, for one rank or all ranks.
    pub fn spans_for(&self, session_id: &Text, rank: Option<i64>) -> Vec<&ScopeSpan> {
        let wanted = self.groups.iter().filter(|((session, of_rank), _)| {
            session == session_id && rank.is_none_or(|rank| rank == *of_rank)
        });
        wanted.flat_map(|(_, spans)| spans).collect()
    }

    /// The phase spans that contain a time.
    pub fn active_spans(
        &self,
        timestamp_ns: i64,
        session_id: &Text,
        rank: Option<i64>,
    ) -> Vec<&ScopeSpan> {
        let mut spans = self.spans_for(session_id, rank);
        spans.retain(|span| span.start_ns <= timestamp_ns && timestamp_ns <= span.end_ns);
        spans
    }

    /// The phase of a session and rank at a time.
    pub fn resolve(
        &self,
        timestamp_ns: i64,
        session_id: &Text,
        rank: Option<i64>,
        origin: &PhaseOrigin,
    ) -> Option<PhaseAttribution> {
        attribute(&self.active_spans(timestamp_ns, session_id, rank), origin)
    }

    /// The phase of an event.
    pub fn resolve_event(&self, event: EventRef<'_>) -> Option<PhaseAttribution> {
        // Without phases, the metadata need not be parsed.
        if self.groups.is_empty() {
            return None;
        }
        let origin = event.origin();
        let by = PhaseOrigin::of_metadata(&event.metadata());
        self.resolve(
            event.timestamp_ns(),
            &origin.session_id,
            Some(origin.rank),
            &by,
        )
    }
}

/// Collects the boundaries of phases and converts them to spans.
#[derive(Default)]
struct Replay {
    places: HashMap<(Text, i64), usize>,
    groups: Vec<Group>,
}

struct Group {
    session_id: Text,
    rank: i64,
    last_ns: i64,
    boundaries: Vec<(i64, Boundary)>,
}

impl Replay {
    fn group(&mut self, session_id: &Text, rank: i64) -> usize {
        let key = (session_id.clone(), rank);
        *self.places.entry(key).or_insert_with(|| {
            self.groups.push(Group {
                session_id: session_id.clone(),
                rank,
                last_ns: i64::MIN,
                boundaries: Vec::new(),
            });
            self.groups.len() - 1
        })
    }

    fn add(&mut self, group: usize, timestamp_ns: i64, boundary: Option<Boundary>) {
        let group = &mut self.groups[group];
        group.last_ns = group.last_ns.max(timestamp_ns);
        if let Some(boundary) = boundary {
            group.boundaries.push((timestamp_ns, boundary));
        }
    }

    /// The spans of each group (session and rank). Groups with at least one phase that has an exit
    /// event come first, as in stormlog 0.3.9. The order matters when spans of several groups have
    /// the same sequence number: attribution then prefers the span of the earlier group.
    fn finish(self) -> SpanGroups {
        let mut groups: Vec<((Text, i64), Vec<ScopeSpan>)> = self
            .groups
            .into_iter()
            .filter(|group| !group.boundaries.is_empty())
            .map(|group| ((group.session_id.clone(), group.rank), group.spans()))
            .filter(|(_, spans)| !spans.is_empty())
            .collect();
        groups.sort_by(|(a, a_spans), (b, b_spans)| {
            let only_open = |spans: &[ScopeSpan]| spans.iter().all(|span| span.synthetic_end);
            (only_open(a_spans), a).cmp(&(only_open(b_spans), b))
        });
        groups
    }
}

impl Group {
    fn spans(mut self) -> Vec<ScopeSpan> {
        self.boundaries.sort_by(|(a_ns, a), (b_ns, b)| {
            (a_ns, a.scope.sequence, &a.scope.scope_id).cmp(&(
                b_ns,
                b.scope.sequence,
                &b.scope.scope_id,
            ))
        });
        let mut open: Vec<(i64, Vec<(i64, ScopeRecord)>)> = Vec::new();
        let mut spans = Vec::new();
        let (session_id, rank, last_ns) = (self.session_id, self.rank, self.last_ns);
        let span = |(start_ns, scope): (i64, ScopeRecord), end_ns: i64, synthetic_end| ScopeSpan {
            session_id: session_id.clone(),
            rank,
            thread_id: scope.thread_id,
            thread_name: scope.thread_name,
            scope_id: scope.scope_id,
            path: scope.path,
            start_ns,
            end_ns,
            sequence: scope.sequence,
            synthetic_end,
        };
        for (at_ns, boundary) in self.boundaries {
            let thread = boundary.scope.thread_id;
            let known = open.iter().position(|(of_thread, _)| *of_thread == thread);
            let index = known.unwrap_or_else(|| {
                open.push((thread, Vec::new()));
                open.len() - 1
            });
            let stack = &mut open[index].1;
            match boundary.action {
                Action::Enter => stack.push((at_ns, boundary.scope)),
                Action::Exit => {
                    let matches =
                        |(_, top): &(i64, ScopeRecord)| top.scope_id == boundary.scope.scope_id;
                    if stack.last().is_some_and(matches)
                        && let Some(mut entered) = stack.pop()
                    {
                        entered.1.thread_name = boundary.scope.thread_name;
                        spans.push(span(entered, at_ns, false));
                    }
                }
            }
        }
        for entered in open.into_iter().flat_map(|(_, stack)| stack) {
            let end_ns = last_ns.max(entered.0);
            spans.push(span(entered, end_ns, true));
        }
        spans.sort_by_key(|span| (span.start_ns, span.end_ns));
        spans
    }
}
