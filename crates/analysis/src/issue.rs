//! Issues: the same problem, recognized in many events, sessions and runs.
//!
//! Issues are not stored: they are computed from the artifacts whenever they are needed. Only the
//! decisions of people about them (resolved, ignored) are stored, in a file beside the artifacts.

mod diff;
pub(crate) mod finding;
pub mod fingerprint;
mod from_events;
mod gather;
mod labels;
mod object;
mod sidecar;
mod state;

pub use diff::{Change, ChangedIssue, compare};
pub(crate) use from_events::{of_bundle, of_event};
pub(crate) use gather::{Gathering, issues_of_findings};
pub use gather::{Hit, issues_of_hits};
pub use labels::{
    COLLECTOR_DEGRADED_STATUSES, COLLECTOR_TRANSITION_TYPES, backend, is_collector_degradation,
};
pub use object::{EvidenceLink, Issue, IssueFilter, StateInfo, severity_rank};
pub use sidecar::{
    SIDECAR_NAME, SidecarError, change_states, read_states, read_states_of, sidecar_of,
    store_decision,
};
pub use state::{DecidedState, Decision, StateError, States};
