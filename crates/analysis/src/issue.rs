//! Issues: the same trouble, recognised in many events, sessions and runs.
//!
//! What is found is derived from the artifacts each time; what people say about it
//! (resolved, ignored) is kept in a file beside them, which is all that is ever written.

mod diff;
mod finding;
pub mod fingerprint;
mod from_events;
mod gap;
mod gather;
mod labels;
mod object;
mod sidecar;
mod state;

pub use diff::{Change, ChangedIssue, compare};
pub(crate) use gather::issues_of_findings;
pub use labels::{
    COLLECTOR_DEGRADED_STATUSES, COLLECTOR_TRANSITION_TYPES, backend, is_collector_degradation,
};
pub use object::{EvidenceLink, Issue, IssueFilter, severity_rank};
pub use sidecar::{
    SIDECAR_NAME, SidecarError, change_states, read_states, read_states_of, sidecar_of,
};
pub use state::{DecidedState, Decision, StateError, States};
