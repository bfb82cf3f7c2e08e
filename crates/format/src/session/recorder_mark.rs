//! The mark of a recorder: an extended attribute of a sink's directory that identifies the process
//! that records a session. A sink in the format of stormlog 0.3.9 needs the mark: its manifest and
//! its files must be the same as those that stormlog 0.3.9 writes, so neither can name the
//! recorder.

use super::{ProcessIdentity, SessionStatus, SessionSummary};
use crate::json::{Layout, Writer, parse_object, value_of};
use crate::text::Text;
use crate::value::{Map, Value};

/// The name of the extended attribute that contains the mark of a recorder.
pub const RECORDER_MARK: &str = "user.stormlog.recorder";

/// The longest mark that is written and read, in bytes. Most file systems have no room for an
/// extended attribute that is longer.
pub const LONGEST_RECORDER_MARK: usize = 2048;

/// The mark that identifies the recorder of a session; `None` when the mark would be too long.
pub fn recorder_mark(session_id: &Text, recorder: &ProcessIdentity) -> Option<String> {
    let mut map = Map::new();
    map.insert("session_id", session_id.clone());
    map.insert("recorder", value_of(recorder));
    let mark = Writer::new(Layout::Line).to_string(&Value::Map(map));
    (mark.len() <= LONGEST_RECORDER_MARK).then_some(mark)
}

/// Sets the recorder of the session that a mark names, if this session is running and its recorder
/// is not known yet. A mark of another session was left by an earlier recorder, and a mark that
/// cannot be parsed identifies no recorder; both are ignored.
pub fn apply_recorder_mark(sessions: &mut [SessionSummary], mark: &[u8]) {
    let Some(map) = parse_object(mark) else {
        return;
    };
    let named = map.text("session_id");
    let Some(Value::Map(recorder)) = map.get("recorder") else {
        return;
    };
    let marked = sessions.iter_mut().find(|session| {
        session.status == SessionStatus::Running
            && session.recorder.is_none()
            && Some(&session.session_id) == named
    });
    if let Some(session) = marked {
        session.recorder = ProcessIdentity::from_map(recorder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str, status: SessionStatus) -> SessionSummary {
        SessionSummary {
            session_id: id.into(),
            status,
            started_at_ns: 1,
            ended_at_ns: None,
            host: "here".into(),
            pid: 7,
            job_id: None,
            rank: 0,
            local_rank: 0,
            world_size: 1,
            source: "test".into(),
            recorder: None,
        }
    }

    fn identity() -> ProcessIdentity {
        ProcessIdentity {
            pid: 7,
            start_ticks: 100,
            pid_namespace: 1,
            boot_id: "boot".into(),
        }
    }

    #[test]
    fn only_the_running_session_that_is_named_gets_a_recorder() {
        let mark = recorder_mark(&"b".into(), &identity()).unwrap();
        let running = ["a", "b"].map(|id| session(id, SessionStatus::Running));
        let mut sessions = running.clone();
        apply_recorder_mark(&mut sessions, mark.as_bytes());
        assert_eq!(sessions[0], running[0]);
        assert_eq!(sessions[1].recorder, Some(identity()));
        let mut ended = [session("b", SessionStatus::Completed)];
        apply_recorder_mark(&mut ended, mark.as_bytes());
        assert_eq!(ended[0].recorder, None);
        // A recorder that the manifest already names is not replaced by the recorder of a mark.
        let other = ProcessIdentity {
            pid: 8,
            ..identity()
        };
        sessions[1].recorder = Some(other.clone());
        apply_recorder_mark(&mut sessions, mark.as_bytes());
        assert_eq!(sessions[1].recorder, Some(other));
    }

    #[test]
    fn a_mark_that_cannot_be_parsed_identifies_nothing() {
        let whole = recorder_mark(&"a".into(), &identity()).unwrap();
        let mut sessions = [session("a", SessionStatus::Running)];
        for length in 0..whole.len() {
            apply_recorder_mark(&mut sessions, &whole.as_bytes()[..length]);
        }
        let deep = "[".repeat(LONGEST_RECORDER_MARK);
        for hostile in [
            &b"\xff\0"[..],
            b"{}",
            b"[]",
            br#"{"session_id": "a", "recorder": []}"#,
            br#"{"session_id": "a", "recorder": {"pid": "x", "start_ticks": 1e999}}"#,
            br#"{"session_id": null, "recorder": {"pid": 1}}"#,
            deep.as_bytes(),
        ] {
            apply_recorder_mark(&mut sessions, hostile);
        }
        assert_eq!(sessions[0].recorder, None);
        let long = "a".repeat(LONGEST_RECORDER_MARK);
        assert_eq!(recorder_mark(&long.as_str().into(), &identity()), None);
    }
}
