//! The order in which one of several sessions in a recording is selected when the user does not
//! name one.

use std::cmp::Reverse;

use super::SessionStatus;
use crate::text::Text;

/// The sort key by which a session is selected. Sessions are ordered by status (completed,
/// interrupted, incomplete, running, unknown), then by time (the latest first), then by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectionKey<'a> {
    unknown_status: bool,
    status: Option<SessionStatus>,
    latest: Reverse<(i64, i64)>,
    session_id: &'a Text,
}

impl<'a> SelectionKey<'a> {
    /// Makes the sort key of a session; a missing end, or an end of zero, is replaced by the start
    /// of the session.
    pub fn new(
        status: Option<SessionStatus>,
        started_at_ns: i64,
        ended_at_ns: Option<i64>,
        session_id: &'a Text,
    ) -> Self {
        let ended_at_ns = ended_at_ns.filter(|end| *end != 0);
        Self {
            unknown_status: status.is_none(),
            status,
            latest: Reverse((ended_at_ns.unwrap_or(started_at_ns), started_at_ns)),
            session_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_then_latest_then_id() {
        use SessionStatus::{Completed, Running};
        let [a, b] = ["a", "b"].map(Text::from);
        let ordered = [
            SelectionKey::new(Some(Completed), 1, Some(9), &b),
            SelectionKey::new(Some(Completed), 2, Some(5), &a),
            SelectionKey::new(Some(Completed), 1, Some(5), &a),
            SelectionKey::new(Some(Completed), 1, Some(5), &b),
            SelectionKey::new(Some(Completed), 4, None, &a),
            SelectionKey::new(Some(Running), 99, None, &a),
            SelectionKey::new(None, 100, None, &a),
        ];
        assert!(ordered.is_sorted());
    }
}
