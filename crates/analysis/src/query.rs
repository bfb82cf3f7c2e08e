//! Questions over many artifacts: what there is, what happened, and what belongs together.
//!
//! The catalog looks at manifests and envelopes first; a segment is opened only by a
//! question that its manifest and rollup cannot answer. Nothing is written and no clock is
//! read: what a question needs to know of the machine comes in as [`Surroundings`].

mod about;
mod attachments;
mod catalog;
mod correlate;
mod envelope;
mod events;
mod evidence;
mod iso_time;
mod liveness;
mod marker_evidence;
mod ooms;
mod payload;
mod rollups;
mod runs;
mod scan;
mod sessions;
mod sidecar;
mod sightings;
mod store;
mod stream;
mod summary;
mod uncounted_events;

pub use attachments::{RunAttachmentFilter, RunAttachmentRow};
pub use catalog::{Catalog, CatalogWarning, Source, SourceKind};
pub use correlate::{
    Confidence, CorrelationError, CorrelationFilter, CorrelationResult, DEFAULT_WINDOW_NS, Scope,
};
pub(crate) use envelope::FILE_NAME as RUN_FILE;
pub use envelope::{RunAttachment, RunEnvelope, RunSessionRef};
pub(crate) use events::source_path;
pub use events::{EventFilter, EventRow, EventRows};
pub use evidence::{EVIDENCE_KINDS, Evidence};
pub use iso_time::iso_to_ns;
pub use liveness::{Process, Surroundings, effective_status};
pub use ooms::{OomBundle, OomFilter, OomRow};
pub(crate) use payload::path_text;
pub use runs::{RunContext, RunFilter, RunRow};
pub use sessions::{SessionFilter, SessionRow};
pub(crate) use sidecar::FILE_NAME as ATTACHMENTS_FILE;
pub use sidecar::{AttachmentFilter, ExternalAttachment};
pub use sightings::{Sighting, Watch};
pub use store::{Store, StoreParts};
pub use stream::EventStream;
pub use summary::{GroupBy, Metric, SummaryRow};
