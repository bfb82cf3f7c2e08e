//! Infers start, end and status of a session from its events.

use super::SessionStatus;

/// Start, end and status of a session, inferred from its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSpan {
    /// The index of the earliest event, from which the session gets its host, pid and ranks.
    pub first: usize,
    /// The time of the earliest event, in nanoseconds since the Unix epoch.
    pub started_at_ns: i64,
    /// The time of the last stop event, in nanoseconds since the Unix epoch; `None` without stop
    /// events.
    pub ended_at_ns: Option<i64>,
    /// The status: completed if there is a stop event, otherwise the status that the caller gives
    /// as `fallback`.
    pub status: SessionStatus,
}

impl SessionSpan {
    /// Infers start, end and status of a session from its events, each given as its time and
    /// whether it is a stop event. `None` without events.
    pub fn of(
        events: impl IntoIterator<Item = (i64, bool)>,
        fallback: SessionStatus,
    ) -> Option<Self> {
        let mut span: Option<Self> = None;
        for (index, (time, is_stop)) in events.into_iter().enumerate() {
            let span = span.get_or_insert(Self {
                first: index,
                started_at_ns: time,
                ended_at_ns: None,
                status: fallback,
            });
            if time < span.started_at_ns {
                span.first = index;
                span.started_at_ns = time;
            }
            if is_stop {
                span.ended_at_ns = span.ended_at_ns.max(Some(time));
                span.status = SessionStatus::Completed;
            }
        }
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_stop_ends_it() {
        let span = SessionSpan::of(
            [(5, false), (3, false), (9, true), (7, true)],
            SessionStatus::Incomplete,
        );
        assert_eq!(
            span,
            Some(SessionSpan {
                first: 1,
                started_at_ns: 3,
                ended_at_ns: Some(9),
                status: SessionStatus::Completed,
            })
        );
        let running = SessionSpan::of([(5, false), (5, false)], SessionStatus::Incomplete);
        assert_eq!(
            running.map(|span| (span.first, span.status, span.ended_at_ns)),
            Some((0, SessionStatus::Incomplete, None))
        );
        assert_eq!(SessionSpan::of([], SessionStatus::Incomplete), None);
    }
}
