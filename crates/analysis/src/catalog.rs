//! Finds artifacts below the given paths, and decides what each path is and which artifacts belong
//! to one run: the only code that walks directories.
//!
//! # The rule
//!
//! Below a directory given by the user, every entry is looked at, at most 64 levels deep, except
//! hidden entries and links to directories. A link to a file is followed only when its target lies
//! within the given paths.
//!
//! - The manifest decides whether a directory is a sink, a diagnose bundle or an OOM bundle
//!   ([`Shape`]); a directory without a manifest is a sink when it has segments, and a diagnose
//!   bundle when it has a file `telemetry_timeline.json`.
//! - Two kinds of files may hold events: `.jsonl` files, unless the first line is a JSON object
//!   without any key of an event, and `.json` or `.csv` files whose name contains `event`, `track`,
//!   `telemetry` or a rank (`rank3`). A compressed file is classified by its name without `.gz` or
//!   `.zst`.
//! - A sink and the sinks directly in it form one recording (`host/`, `gpu-1/`, `rank-0001/`).
//!   Other files below a sink or in a bundle are not part of the recording: loading it does not
//!   read them, but queries list them.
//!
//! Of these files, those of other programs are skipped: files whose text is intact and has none of
//! the keys of events.
//!
//! A file given by the user is read whatever its name and content.

mod artifact;
mod directory;
mod files_state;
mod first_events;
mod follow;
mod foreign;
mod names;
mod shape;
mod sink;
mod walk;

pub use artifact::Artifact;
pub use files_state::FilesState;
pub use follow::{FollowFrom, Followed, Follower, event_of_line};
pub use names::tidy;
pub use sink::{last_event_ns, manifest_path, read_manifest, segment_paths, sink_names};
pub use walk::{Artifacts, artifacts_at, device_artifacts_at, find_artifacts, sinks_of_run};

pub(crate) use directory::{Directory, holds_other_records};
pub(crate) use first_events::first_events;
pub(crate) use names::{
    FileKind, directory_of, holding_folder, names_of_manifest, plain_name, plain_or_compressed,
    resolve, resolved_manifest,
};
pub(crate) use shape::Shape;
pub(crate) use sink::{
    last_time_in, manifest_document, newest_segments, segments_in, settled, sink_manifest,
};
pub(crate) use walk::{Place, Scope, walk, walk_with};

pub use crate::pack::DEEPEST;
