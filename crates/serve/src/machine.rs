//! What the pages need to know of the machine: the time and its processes. The program passes it
//! in, so that everything else depends on files alone.

use stormlog_analysis::LoadedSession;
use stormlog_format::{SessionStatus, SessionSummary};

/// The machine that the server runs on.
pub trait Machine: Send + Sync {
    /// The time.
    fn now_ns(&self) -> i64;
    /// Who decides about issues here.
    fn user(&self) -> String;
    /// The status of a session as it is now.
    fn status(&self, summary: &SessionSummary, last_write_ns: Option<i64>) -> SessionStatus;
    /// Gives sessions their statuses as they are now.
    fn settle(&self, sessions: &mut [LoadedSession]);
}
