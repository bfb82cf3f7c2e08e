//! Parses `stormlog_run.json`, which a user or a tool writes to describe a run. A single unknown
//! key or invalid value makes the whole file invalid.
#![expect(
    missing_docs,
    reason = "each field is a key of the JSON file, described in docs/schemas"
)]

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde::Serialize;
use stormlog_format::{Map, Text, Value};

use super::sidecar::attachment_path;
use crate::document::shown_path;

/// The value of the key `format` in a run envelope.
const FORMAT: &str = "stormlog.run_envelope";

/// A run described by an envelope.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunEnvelope {
    pub run_id: Text,
    #[serde(serialize_with = "shown_path")]
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

/// A session of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

/// An attachment of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
        let format = document.text("format");
        document.get("schema_version") == Some(&Value::Int(1))
            && format.is_some_and(|format| *format == FORMAT)
    }

    /// Parses an envelope; `None` when any part of it is invalid.
    pub fn read(document: &Map, file: &Path) -> Option<Self> {
        Self::parse(document, file).ok()
    }

    fn parse(document: &Map, file: &Path) -> Result<Self, Invalid> {
        if !Self::is_one(document) {
            return Err(Invalid);
        }
        let fields = Fields::of(document, &["schema_version", "format"]);
        let run_id = fields.name("run_id")?;
        let (started_at_ns, ended_at_ns) = fields.span("started_at_ns", "ended_at_ns")?;
        let attachments = fields
            .objects("attachments")?
            .into_iter()
            .map(|entry| RunAttachment::parse(entry, &run_id, file))
            .collect::<Result<_, _>>()?;
        let sessions = fields.objects("sessions")?;
        let read = Self {
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
                .map(RunSessionRef::parse)
                .collect::<Result<_, _>>()?,
            attachments,
            metadata: fields.metadata()?,
            run_id,
        };
        fields.complete(read)
    }
}

impl RunSessionRef {
    fn parse(entry: &Map) -> Result<Self, Invalid> {
        let fields = Fields::of(entry, &[]);
        let read = Self {
            session_id: fields.name("session_id")?,
            job_id: fields.name_or_null("job_id")?,
            rank: fields.at_least("rank", 0)?,
            local_rank: fields.at_least("local_rank", 0)?,
            world_size: fields.at_least("world_size", 1)?,
            role: fields.name_or_null("role")?,
            source_namespace: fields.name_or_null("source_namespace")?,
            source_ref: fields.name_or_null("source_ref")?,
            metadata: fields.metadata()?,
        };
        fields.complete(read)
    }
}

impl RunAttachment {
    fn parse(entry: &Map, run_id: &Text, file: &Path) -> Result<Self, Invalid> {
        let fields = Fields::of(entry, &[]);
        let url = fields.name_if_present("url")?;
        let path = fields.name_if_present("path")?;
        if url.is_none() && path.is_none() {
            return Err(Invalid);
        }
        let (start_ns, end_ns) = fields.span("start_ns", "end_ns")?;
        let storage = fields.name("storage")?;
        if storage != "reference" && storage != "copy" {
            return Err(Invalid);
        }
        let owner = fields.name_or_null("run_id")?;
        let read = Self {
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
        };
        fields.complete(read)
    }
}

/// The error for an invalid value, which makes the whole file invalid.
struct Invalid;

/// A JSON object of the file, and the keys that were read from it so far. Any other key is unknown
/// and makes the file invalid.
struct Fields<'a> {
    map: &'a Map,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Fields<'a> {
    fn of(map: &'a Map, known: &[&'static str]) -> Self {
        let known = RefCell::new(known.to_vec());
        Self { map, known }
    }

    fn get(&self, key: &'static str) -> Option<&'a Value> {
        self.known.borrow_mut().push(key);
        self.map.get(key)
    }

    /// Returns `read`, the value parsed from the object, if every key of the object is known; an
    /// unknown key is an error.
    fn complete<T>(self, read: T) -> Result<T, Invalid> {
        let known = self.known.into_inner();
        let is_known = |key: &Text| known.iter().any(|known| key == known);
        if self.map.iter().all(|(key, _)| is_known(key)) {
            Ok(read)
        } else {
            Err(Invalid)
        }
    }

    /// Reads a non-empty text.
    fn name(&self, key: &'static str) -> Result<Text, Invalid> {
        match self.get(key) {
            Some(Value::Text(text)) if !text.as_bytes().is_empty() => Ok(text.clone()),
            _ => Err(Invalid),
        }
    }

    /// Reads a non-empty text. The key may be missing and the value may be null.
    fn name_or_null(&self, key: &'static str) -> Result<Option<Text>, Invalid> {
        match self.get(key) {
            Some(Value::Null) => Ok(None),
            _ => self.name_if_present(key),
        }
    }

    /// Reads a non-empty text. The key may be missing, but the value must not be null.
    fn name_if_present(&self, key: &'static str) -> Result<Option<Text>, Invalid> {
        match self.get(key) {
            None => Ok(None),
            Some(_) => self.name(key).map(Some),
        }
    }

    /// Reads a text, which may be empty. The key may be missing and the value may be null.
    fn text_or_null(&self, key: &'static str) -> Result<Option<Text>, Invalid> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text.clone())),
            Some(_) => Err(Invalid),
        }
    }

    fn at_least(&self, key: &'static str, minimum: i64) -> Result<Option<i64>, Invalid> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Int(value)) if *value >= minimum => Ok(Some(*value)),
            Some(_) => Err(Invalid),
        }
    }

    /// Reads two timestamps. The second must not be earlier than the first.
    fn span(
        &self,
        start: &'static str,
        end: &'static str,
    ) -> Result<(Option<i64>, Option<i64>), Invalid> {
        match (self.at_least(start, 0)?, self.at_least(end, 0)?) {
            (Some(start), Some(end)) if end < start => Err(Invalid),
            span => Ok(span),
        }
    }

    fn tags(&self) -> Result<Vec<Text>, Invalid> {
        let mut tags: Vec<Text> = Vec::new();
        for tag in self.list("tags")? {
            match tag {
                Value::Text(tag) if !tag.as_bytes().is_empty() && !tags.contains(tag) => {
                    tags.push(tag.clone());
                }
                _ => return Err(Invalid),
            }
        }
        Ok(tags)
    }

    fn objects(&self, key: &'static str) -> Result<Vec<&'a Map>, Invalid> {
        let items = self.list(key)?.iter();
        items.map(|item| item.as_map().ok_or(Invalid)).collect()
    }

    fn list(&self, key: &'static str) -> Result<&'a [Value], Invalid> {
        match self.get(key) {
            None => Ok(&[]),
            Some(Value::List(items)) => Ok(items),
            Some(_) => Err(Invalid),
        }
    }

    fn metadata(&self) -> Result<Map, Invalid> {
        let metadata = self.get("metadata").and_then(Value::as_map);
        metadata.cloned().ok_or(Invalid)
    }
}
