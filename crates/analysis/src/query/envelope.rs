//! Parses `stormlog_run.json`, which a user or a tool writes to describe a run. A single unknown
//! key or invalid value makes the whole file invalid.

use std::path::{Path, PathBuf};

use stormlog_format::{Map, Text, Value};

use super::payload::{path_text, texts};
use super::sidecar::attachment_path;

/// The file name of a run envelope.
pub(crate) const FILE_NAME: &str = "stormlog_run.json";

/// The value of the key `format` in a run envelope.
const FORMAT: &str = "stormlog.run_envelope";

const RUN_KEYS: [&str; 16] = [
    "schema_version",
    "format",
    "run_id",
    "metadata",
    "title",
    "description",
    "job_id",
    "started_at_ns",
    "ended_at_ns",
    "created_at_utc",
    "updated_at_utc",
    "source_namespace",
    "source_ref",
    "tags",
    "sessions",
    "attachments",
];

const SESSION_KEYS: [&str; 9] = [
    "session_id",
    "metadata",
    "job_id",
    "role",
    "source_namespace",
    "source_ref",
    "rank",
    "local_rank",
    "world_size",
];

const ATTACHMENT_KEYS: [&str; 19] = [
    "title",
    "kind",
    "storage",
    "metadata",
    "url",
    "path",
    "attachment_id",
    "run_id",
    "session_id",
    "job_id",
    "rank",
    "local_rank",
    "world_size",
    "start_ns",
    "end_ns",
    "created_at_utc",
    "updated_at_utc",
    "source_namespace",
    "source_ref",
];

/// A run described by an envelope.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys of the file, described in docs/schemas"
)]
pub struct RunEnvelope {
    pub run_id: Text,
    pub path: PathBuf,
    pub title: Option<Text>,
    pub description: Option<Text>,
    pub job_id: Option<Text>,
    pub started_at_ns: Option<i64>,
    pub ended_at_ns: Option<i64>,
    pub created_at_utc: Option<Text>,
    pub updated_at_utc: Option<Text>,
    pub source_namespace: Option<Text>,
    pub source_ref: Option<Text>,
    pub tags: Vec<Text>,
    pub sessions: Vec<RunSessionRef>,
    pub attachments: Vec<RunAttachment>,
    pub metadata: Map,
}

/// A session of a run described by an envelope.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys of the file, described in docs/schemas"
)]
pub struct RunSessionRef {
    pub session_id: Text,
    pub job_id: Option<Text>,
    pub rank: Option<i64>,
    pub local_rank: Option<i64>,
    pub world_size: Option<i64>,
    pub role: Option<Text>,
    pub source_namespace: Option<Text>,
    pub source_ref: Option<Text>,
    pub metadata: Map,
}

/// An attachment of a run described by an envelope.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys of the file, described in docs/schemas"
)]
pub struct RunAttachment {
    pub title: Text,
    pub kind: Text,
    pub storage: Text,
    pub attachment_id: Option<Text>,
    pub url: Option<Text>,
    pub path: Option<Text>,
    pub run_id: Option<Text>,
    pub session_id: Option<Text>,
    pub job_id: Option<Text>,
    pub rank: Option<i64>,
    pub local_rank: Option<i64>,
    pub world_size: Option<i64>,
    pub start_ns: Option<i64>,
    pub end_ns: Option<i64>,
    pub created_at_utc: Option<Text>,
    pub updated_at_utc: Option<Text>,
    pub source_namespace: Option<Text>,
    pub source_ref: Option<Text>,
    pub metadata: Map,
}

impl RunEnvelope {
    /// Whether an object claims to be a run envelope of the supported version.
    pub fn is_one(document: &Map) -> bool {
        let format = document.get("format").and_then(Value::as_text);
        document.get("schema_version") == Some(&Value::Int(1))
            && format.is_some_and(|format| *format == FORMAT)
    }

    /// Parses an envelope; `None` when any part of it is invalid.
    pub fn read(document: &Map, file: &Path) -> Option<Self> {
        if !Self::is_one(document) {
            return None;
        }
        let fields = Fields::of(document, &RUN_KEYS)?;
        let run_id = fields.name("run_id")?;
        let (started_at_ns, ended_at_ns) = fields.span("started_at_ns", "ended_at_ns")?;
        let attachments = fields
            .objects("attachments")?
            .into_iter()
            .map(|entry| RunAttachment::read(entry, &run_id, file))
            .collect::<Option<_>>()?;
        let sessions = fields.objects("sessions")?;
        Some(Self {
            path: file.to_path_buf(),
            title: fields.name_or_null("title")?,
            description: fields.text_or_null("description")?,
            job_id: fields.name_or_null("job_id")?,
            started_at_ns,
            ended_at_ns,
            created_at_utc: fields.text_or_null("created_at_utc")?,
            updated_at_utc: fields.text_or_null("updated_at_utc")?,
            source_namespace: fields.name_or_null("source_namespace")?,
            source_ref: fields.name_or_null("source_ref")?,
            tags: fields.tags()?,
            sessions: sessions
                .into_iter()
                .map(RunSessionRef::read)
                .collect::<Option<_>>()?,
            attachments,
            metadata: fields.metadata()?,
            run_id,
        })
    }

    /// The envelope as a map, in the form shown in the catalog.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("run_id", self.run_id.clone());
        map.insert("path", path_text(&self.path));
        map.insert("title", self.title.clone());
        map.insert("description", self.description.clone());
        map.insert("job_id", self.job_id.clone());
        map.insert("started_at_ns", self.started_at_ns);
        map.insert("ended_at_ns", self.ended_at_ns);
        map.insert("created_at_utc", self.created_at_utc.clone());
        map.insert("updated_at_utc", self.updated_at_utc.clone());
        map.insert("source_namespace", self.source_namespace.clone());
        map.insert("source_ref", self.source_ref.clone());
        map.insert("tags", texts(&self.tags));
        let sessions = self.sessions.iter();
        let sessions = sessions.map(|session| Value::Map(session.to_map()));
        map.insert("sessions", Value::List(sessions.collect()));
        let attachments = self.attachments.iter();
        let attachments = attachments.map(|attachment| Value::Map(attachment.to_map()));
        map.insert("attachments", Value::List(attachments.collect()));
        map.insert("metadata", Value::Map(self.metadata.clone()));
        map
    }
}

impl RunSessionRef {
    fn read(entry: &Map) -> Option<Self> {
        let fields = Fields::of(entry, &SESSION_KEYS)?;
        Some(Self {
            session_id: fields.name("session_id")?,
            job_id: fields.name_or_null("job_id")?,
            rank: fields.at_least("rank", 0)?,
            local_rank: fields.at_least("local_rank", 0)?,
            world_size: fields.at_least("world_size", 1)?,
            role: fields.name_or_null("role")?,
            source_namespace: fields.name_or_null("source_namespace")?,
            source_ref: fields.name_or_null("source_ref")?,
            metadata: fields.metadata()?,
        })
    }

    fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("session_id", self.session_id.clone());
        map.insert("job_id", self.job_id.clone());
        map.insert("rank", self.rank);
        map.insert("local_rank", self.local_rank);
        map.insert("world_size", self.world_size);
        map.insert("role", self.role.clone());
        map.insert("source_namespace", self.source_namespace.clone());
        map.insert("source_ref", self.source_ref.clone());
        map.insert("metadata", Value::Map(self.metadata.clone()));
        map
    }
}

impl RunAttachment {
    fn read(entry: &Map, run_id: &Text, file: &Path) -> Option<Self> {
        let fields = Fields::of(entry, &ATTACHMENT_KEYS)?;
        let url = fields.name_if_present("url")?;
        let path = fields.name_if_present("path")?;
        if url.is_none() && path.is_none() {
            return None;
        }
        let (start_ns, end_ns) = fields.span("start_ns", "end_ns")?;
        let storage = fields.name("storage")?;
        if storage != "reference" && storage != "copy" {
            return None;
        }
        let owner = fields.name_or_null("run_id")?;
        Some(Self {
            title: fields.name("title")?,
            kind: fields.name("kind")?,
            storage,
            attachment_id: fields.name_or_null("attachment_id")?,
            url,
            path: path.map(|path| attachment_path(&path, file)),
            run_id: owner.or_else(|| Some(run_id.clone())),
            session_id: fields.name_or_null("session_id")?,
            job_id: fields.name_or_null("job_id")?,
            rank: fields.at_least("rank", 0)?,
            local_rank: fields.at_least("local_rank", 0)?,
            world_size: fields.at_least("world_size", 1)?,
            start_ns,
            end_ns,
            created_at_utc: fields.text_or_null("created_at_utc")?,
            updated_at_utc: fields.text_or_null("updated_at_utc")?,
            source_namespace: fields.name_or_null("source_namespace")?,
            source_ref: fields.name_or_null("source_ref")?,
            metadata: fields.metadata()?,
        })
    }

    fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("title", self.title.clone());
        map.insert("kind", self.kind.clone());
        map.insert("storage", self.storage.clone());
        map.insert("attachment_id", self.attachment_id.clone());
        map.insert("url", self.url.clone());
        map.insert("path", self.path.clone());
        map.insert("run_id", self.run_id.clone());
        map.insert("session_id", self.session_id.clone());
        map.insert("job_id", self.job_id.clone());
        map.insert("rank", self.rank);
        map.insert("local_rank", self.local_rank);
        map.insert("world_size", self.world_size);
        map.insert("start_ns", self.start_ns);
        map.insert("end_ns", self.end_ns);
        map.insert("created_at_utc", self.created_at_utc.clone());
        map.insert("updated_at_utc", self.updated_at_utc.clone());
        map.insert("source_namespace", self.source_namespace.clone());
        map.insert("source_ref", self.source_ref.clone());
        map.insert("metadata", Value::Map(self.metadata.clone()));
        map
    }
}

/// A JSON object of an envelope without unknown keys. Each method of `Fields` returns `None` when
/// the value is invalid. For an optional value, the inner `Option` shows whether the value is
/// present.
struct Fields<'a>(&'a Map);

impl<'a> Fields<'a> {
    fn of(map: &'a Map, keys: &[&str]) -> Option<Self> {
        let is_known = |key: &Text| keys.iter().any(|known| key == known);
        map.iter()
            .all(|(key, _)| is_known(key))
            .then_some(Self(map))
    }

    /// A required text that must not be empty.
    fn name(&self, key: &str) -> Option<Text> {
        let text = self.0.get(key)?.as_text()?;
        (!text.as_bytes().is_empty()).then(|| text.clone())
    }

    /// An optional text that must not be empty; its key may be missing and its value may be null.
    #[expect(
        clippy::option_option,
        reason = "the outer option is validity, the inner one presence"
    )]
    fn name_or_null(&self, key: &str) -> Option<Option<Text>> {
        match self.0.get(key) {
            None | Some(Value::Null) => Some(None),
            Some(_) => self.name(key).map(Some),
        }
    }

    /// An optional text that must not be empty; its key may be missing, but its value must not be
    /// null.
    #[expect(
        clippy::option_option,
        reason = "the outer option is validity, the inner one presence"
    )]
    fn name_if_present(&self, key: &str) -> Option<Option<Text>> {
        match self.0.get(key) {
            None => Some(None),
            Some(_) => self.name(key).map(Some),
        }
    }

    /// An optional text that may be empty; its key may be missing and its value may be null.
    #[expect(
        clippy::option_option,
        reason = "the outer option is validity, the inner one presence"
    )]
    fn text_or_null(&self, key: &str) -> Option<Option<Text>> {
        match self.0.get(key) {
            None | Some(Value::Null) => Some(None),
            Some(Value::Text(text)) => Some(Some(text.clone())),
            Some(_) => None,
        }
    }

    #[expect(
        clippy::option_option,
        reason = "the outer option is validity, the inner one presence"
    )]
    fn at_least(&self, key: &str, minimum: i64) -> Option<Option<i64>> {
        match self.0.get(key) {
            None | Some(Value::Null) => Some(None),
            Some(Value::Int(value)) if *value >= minimum => Some(Some(*value)),
            Some(_) => None,
        }
    }

    /// Two timestamps, of which the second must not be earlier than the first.
    fn span(&self, start: &str, end: &str) -> Option<(Option<i64>, Option<i64>)> {
        let (start, end) = (self.at_least(start, 0)?, self.at_least(end, 0)?);
        match (start, end) {
            (Some(start), Some(end)) if end < start => None,
            span => Some(span),
        }
    }

    fn tags(&self) -> Option<Vec<Text>> {
        let mut tags: Vec<Text> = Vec::new();
        for tag in self.list("tags")? {
            let tag = tag.as_text().filter(|tag| !tag.as_bytes().is_empty())?;
            if tags.contains(tag) {
                return None;
            }
            tags.push(tag.clone());
        }
        Some(tags)
    }

    fn objects(&self, key: &str) -> Option<Vec<&'a Map>> {
        self.list(key)?.iter().map(Value::as_map).collect()
    }

    fn list(&self, key: &str) -> Option<&'a [Value]> {
        match self.0.get(key) {
            None => Some(&[]),
            Some(Value::List(items)) => Some(items),
            Some(_) => None,
        }
    }

    fn metadata(&self) -> Option<Map> {
        self.0.get("metadata")?.as_map().cloned()
    }
}
