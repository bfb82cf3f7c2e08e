//! Queries over many artifacts: which recordings exist, what happened in them, and which of them
//! belong together.
//!
//! The catalog of a query reads only manifests, run envelopes (`stormlog_run.json`) and attachment
//! sidecars (`stormlog_attachments.json`). A segment is opened only when the manifest and the
//! rollups of its sink cannot answer a query. Queries write nothing and read no clock; the caller
//! passes the state of the machine as [`Surroundings`].

mod about;
mod attachments;
mod catalog;
mod envelope;
mod events;
mod filter;
mod iso_time;
mod ooms;
mod payload;
mod recorded_runs;
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
mod warnings;

pub use about::is_alert;
pub use attachments::{RunAttachmentFilter, RunAttachmentRow};
pub use catalog::{Catalog, CatalogWarning, Source, SourceKind};
pub use envelope::{RunAttachment, RunEnvelope, RunSessionRef};
pub use events::{EventFilter, EventRow, EventRows, source_path};
pub use filter::fits;
pub use iso_time::{iso_to_ns, parse_time};
pub use ooms::{OomBundle, OomFilter};
pub use payload::path_text;
pub use runs::{RunContext, RunFilter, RunRow};
pub use sessions::{SessionFilter, SessionRow};
pub use sidecar::{AttachmentFilter, ExternalAttachment};
pub use sightings::{Sighting, Watch};
pub use store::{Store, StoreParts};
pub use stream::EventStream;
pub use summary::{GroupBy, Metric, SummaryRow};

pub use crate::liveness::{Process, Surroundings, effective_status, settle_statuses};
