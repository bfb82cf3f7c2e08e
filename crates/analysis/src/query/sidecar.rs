//! Parses `stormlog_attachments.json`, which links to data of other tools about a run.

use std::path::{Component, Path, PathBuf};

use serde::Serialize;
use stormlog_format::{Map, Text, Value};

use super::filter::fits;
use super::payload::{self, integer, text};
use crate::catalog::resolve;
use crate::regular_file::folder_of;

/// The value of the key `format` in every valid `stormlog_attachments.json`.
const FORMAT: &str = "stormlog.attachments";

/// An attachment: a link to data of another tool, by path or URL, read from a
/// `stormlog_attachments.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "each field is a key of the printed row, described in docs/schemas"
)]
pub struct ExternalAttachment {
    pub title: Text,
    pub kind: Text,
    pub attachment_id: Option<Text>,
    pub url: Option<Text>,
    pub path: Option<Text>,
    pub run_id: Option<Text>,
    pub session_id: Option<Text>,
    pub job_id: Option<Text>,
    pub rank: Option<i64>,
    pub start_ns: Option<i64>,
    pub end_ns: Option<i64>,
    pub created_at_utc: Option<Text>,
    pub updated_at_utc: Option<Text>,
    pub storage: Text,
    pub source_namespace: Option<Text>,
    pub source_ref: Option<Text>,
    pub metadata: Map,
    pub sidecar_path: Text,
}

impl ExternalAttachment {
    /// Parses an attachment from the JSON object that it serializes to.
    #[must_use]
    pub fn from_map(map: &Map) -> Option<Self> {
        Self::parse(map, text(map, "sidecar_path")?)
    }

    /// Parses an attachment, of which the values are not checked. A storage other than `copy` is a
    /// reference.
    fn parse(map: &Map, sidecar_path: Text) -> Option<Self> {
        let storage = text(map, "storage").filter(|storage| *storage == "copy");
        Some(Self {
            title: text(map, "title")?,
            kind: text(map, "kind")?,
            attachment_id: text(map, "attachment_id"),
            url: text(map, "url"),
            path: text(map, "path"),
            run_id: text(map, "run_id"),
            session_id: text(map, "session_id"),
            job_id: text(map, "job_id"),
            rank: integer(map, "rank"),
            start_ns: integer(map, "start_ns"),
            end_ns: integer(map, "end_ns"),
            created_at_utc: text(map, "created_at_utc"),
            updated_at_utc: text(map, "updated_at_utc"),
            storage: storage.unwrap_or_else(|| "reference".into()),
            source_namespace: text(map, "source_namespace"),
            source_ref: text(map, "source_ref"),
            metadata: map.object("metadata").cloned().unwrap_or_default(),
            sidecar_path,
        })
    }
}

/// Parses a sidecar; returns its attachments, and warnings about invalid entries. Relative paths in
/// the sidecar must not lead out of `roots`, the folders of the given paths.
pub(crate) fn read(
    document: &Map,
    file: &Path,
    roots: &[PathBuf],
) -> (Vec<ExternalAttachment>, Vec<String>) {
    let is_version_1 = document
        .get("schema_version")
        .is_some_and(|version| match version {
            Value::Bool(version) => *version,
            value => value.as_number() == Some(1.0),
        });
    let format = document.text("format");
    if !is_version_1 || format.is_none_or(|format| *format != FORMAT) {
        let warning = "unrecognized attachment sidecar shape";
        return (Vec::new(), vec![warning.into()]);
    }
    let Some(Value::List(entries)) = document.get("attachments") else {
        let warning = "attachment sidecar attachments must be a list";
        return (Vec::new(), vec![warning.into()]);
    };
    let (mut attachments, mut warnings) = (Vec::new(), Vec::new());
    for (index, entry) in entries.iter().enumerate() {
        let Some(entry) = entry.as_map() else {
            warnings.push(format!("attachment {index} is not an object"));
            continue;
        };
        if leaves(entry, file, roots) {
            warnings.push(refusal(index));
            continue;
        }
        match attachment(entry, file) {
            Some(attachment) => attachments.push(attachment),
            None => warnings.push(format!("attachment {index} is invalid")),
        }
    }
    (attachments, warnings)
}

fn attachment(entry: &Map, file: &Path) -> Option<ExternalAttachment> {
    let mut attachment = ExternalAttachment::parse(entry, payload::path_text(file))?;
    if attachment.url.is_none() && attachment.path.is_none() {
        return None;
    }
    if let (Some(start), Some(end)) = (attachment.start_ns, attachment.end_ns)
        && end < start
    {
        return None;
    }
    attachment.path = attachment.path.map(|path| attachment_path(&path, file));
    Some(attachment)
}

/// The path of an attachment. A relative path is resolved from the folder of the file that names
/// it.
pub(crate) fn attachment_path(path: &Text, file: &Path) -> Text {
    let path = path.to_str_lossy();
    let given = Path::new(&*path);
    if given.is_absolute() {
        return path.as_ref().into();
    }
    let joined = resolve(folder_of(file)).join(given);
    let resolved = joined.canonicalize();
    payload::path_text(&resolved.unwrap_or_else(|_| without_dots(&joined)))
}

/// The text of the warning about an attachment whose path leads outside the given paths.
pub(crate) fn refusal(place: usize) -> String {
    format!("attachment {place} is refused: its path leads outside the given paths")
}

/// Whether the relative path of an attachment leads out of all `roots`, the folders of the paths
/// that the user gave. `file` is the `stormlog_attachments.json` with the attachment.
pub(crate) fn leaves(entry: &Map, file: &Path, roots: &[PathBuf]) -> bool {
    let Some(path) = text(entry, "path") else {
        return false;
    };
    let shown = path.to_str_lossy();
    let given = Path::new(&*shown);
    let climbs = given.components().any(|part| part == Component::ParentDir);
    if given.is_absolute() || !climbs {
        return false;
    }
    let resolved = attachment_path(&path, file);
    let resolved = resolved.to_str_lossy();
    !roots
        .iter()
        .any(|root| Path::new(&*resolved).starts_with(root))
}

/// Resolves `.` and `..` in a path without accessing the file system.
fn without_dots(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// Which attachments to list. A field that is `None` accepts every attachment.
#[derive(Clone, Debug, Default)]
#[expect(
    missing_docs,
    reason = "each field is a flag of `stormlog query`, described in its help"
)]
pub struct AttachmentFilter {
    pub session_id: Option<Text>,
    pub job_id: Option<Text>,
    pub rank: Option<i64>,
    pub kind: Option<Text>,
}

impl AttachmentFilter {
    fn accepts(&self, row: &ExternalAttachment) -> bool {
        fits(self.session_id.as_ref(), row.session_id.as_ref())
            && fits(self.job_id.as_ref(), row.job_id.as_ref())
            && fits(self.rank.as_ref(), row.rank.as_ref())
            && fits(self.kind.as_ref(), Some(&row.kind))
    }
}

impl super::Store {
    /// The attachments that the filter accepts, ordered by start time; those without a start time
    /// come first.
    pub fn attachments(&self, filter: &AttachmentFilter) -> Vec<ExternalAttachment> {
        let mut rows: Vec<ExternalAttachment> = self
            .catalog()
            .attachments
            .iter()
            .filter(|row| filter.accepts(row))
            .cloned()
            .collect();
        rows.sort_by(|a, b| {
            let key = |row: &ExternalAttachment| {
                (
                    row.start_ns.unwrap_or(0),
                    row.title.clone(),
                    row.sidecar_path.clone(),
                )
            };
            key(a).cmp(&key(b))
        });
        rows
    }
}
