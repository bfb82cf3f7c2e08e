//! Reads the bundles that `diagnose` and the OOM flight recorder write.

use std::path::Path;

use stormlog_format::file_names::{EVENTS, MANIFEST, TIMELINE};
use stormlog_format::json::parse;
use stormlog_format::{
    EventType, Map, RecordDefaults, SessionStatus, SessionSummary, Text, Value, event_from_record,
    stable_legacy_session_id, whole,
};

use super::sessions::{ReadParts, absolute};
use super::{LoadOptions, OnError};
use crate::bytes::{read_beside, read_document};
use crate::catalog::plain_or_compressed;
use crate::columns::{Chunk, ChunkBuilder};
use crate::damage::{Damage, DamageList};
use crate::load_error::LoadError;
use crate::rank_name::rank_in_name;
use crate::regular_file::refusal;

/// Largest initial capacity of a chunk (a block of event columns), in rows.
const ROOM: usize = 1 << 10;

const TIMELINE_COLLECTOR: &str = "stormlog.diagnose.timeline";

/// Fields in the flight recorder's ring buffer, each with the name it has in an event record.
const RING_FIELDS: [(&str, &str); 5] = [
    ("active_memory", "allocator_active_bytes"),
    ("inactive_memory", "allocator_inactive_bytes"),
    ("device_used", "device_used_bytes"),
    ("device_free", "device_free_bytes"),
    ("device_total", "device_total_bytes"),
];

/// Reads a diagnose bundle: its session, and one sample per point of its timeline.
pub(crate) fn read_diagnose(
    directory: &Path,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
) -> Result<ReadParts, LoadError> {
    if let Some(timeline) = plain_or_compressed(directory, TIMELINE) {
        let payload = object(&read_beside(directory, &timeline)?, &timeline)?;
        let mut parts = read_points(&timeline, &payload, options, take)?;
        parts.damage.extend(refused_manifest(directory));
        return Ok(parts);
    }
    let mut parts = ReadParts::default();
    parts.damage.extend(refused_manifest(directory));
    parts.damage.push(Damage::of_file(
        directory.join(TIMELINE),
        "the bundle has no timeline: it was interrupted before a timeline was written",
    ));
    parts.known.extend(session_of_bundle(directory));
    Ok(parts)
}

/// Reports a bundle's manifest that is not read for safety, because it is a link out of the bundle
/// or not a regular file. The bundle's session is then unknown.
fn refused_manifest(directory: &Path) -> Option<Damage> {
    let file = directory.join(MANIFEST);
    let reason = refusal(directory, &file)?.to_string();
    Some(Damage::of_file(file, reason))
}

/// Reads the timeline of a diagnose bundle, one sample per point.
pub(crate) fn read_timeline(
    file: &Path,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
) -> Result<ReadParts, LoadError> {
    let payload = object(&read_document(file)?, file)?;
    read_points(file, &payload, options, take)
}

fn read_points(
    file: &Path,
    payload: &Map,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
) -> Result<ReadParts, LoadError> {
    let numbers = |key: &str| match payload.get(key) {
        Some(Value::List(items)) => Ok(items.iter().map(finite).collect::<Vec<_>>()),
        _ => Err(LoadError::NoEvents { file: file.into() }),
    };
    let (times, allocated, reserved) = (
        numbers("timestamps")?,
        numbers("allocated")?,
        numbers("reserved")?,
    );
    let mut damage = DamageList::with_most(options.most_damage);
    if times.len() != allocated.len() || times.len() != reserved.len() {
        damage.push(|| {
            let reason = "the lists 'timestamps', 'allocated' and 'reserved' of the timeline differ \
                          in length; only the points that all three lists have are loaded";
            Damage::of_file(file, reason)
        });
    }
    let session = file.parent().and_then(session_of_bundle);
    let samples = Samples::of(session.as_ref(), payload, file);
    let mut builder = ChunkBuilder::with_capacity(times.len().min(ROOM));
    let mut unknown = 0;
    let mut last: Option<(f64, i64)> = None;
    let points = times.into_iter().zip(allocated).zip(reserved);
    for (index, ((time, allocated), reserved)) in points.enumerate() {
        let (Some(time), Some(allocated), Some(reserved)) = (time, allocated, reserved) else {
            unknown += 1;
            continue;
        };
        let record = samples.record(time, whole(allocated), whole(reserved), last);
        last = Some((time, whole(allocated)));
        match event_from_record(&record, &RecordDefaults::default()) {
            Ok(event) => builder.push_event(&event),
            Err(source) if options.on_error == OnError::Raise => {
                return Err(LoadError::bad_event(file, index as u64, source));
            }
            Err(source) => damage.push(|| Damage {
                field: source.field().map(str::to_owned),
                ..Damage::of_file(file, format!("point {index}: {source}"))
            }),
        }
        builder.pass_if_full(take);
    }
    if unknown > 0 {
        damage.push(|| {
            let reason =
                format!("{unknown} points of the timeline have no known value and are left out");
            Damage::of_file(file, reason)
        });
    }
    builder.pass_rest(take);
    Ok(ReadParts {
        known: session.into_iter().collect(),
        ..ReadParts::of_file(file, damage.finish(file))
    })
}

/// The fields that all samples of a timeline share.
struct Samples<'a> {
    session: Option<&'a SessionSummary>,
    session_id: Text,
    rank: i64,
    world_size: i64,
}

impl<'a> Samples<'a> {
    fn of(session: Option<&'a SessionSummary>, payload: &Map, file: &Path) -> Self {
        let rank = session.map_or_else(|| rank_of(payload, file), |session| session.rank);
        let fallback =
            || stable_legacy_session_id(&[absolute(file).into(), "diagnose.timeline".into()]);
        Self {
            session,
            session_id: session.map_or_else(fallback, |session| session.session_id.clone()),
            rank,
            world_size: session.map_or(rank.saturating_add(1), |session| session.world_size),
        }
    }

    /// The record of a point of the timeline. The argument `last` is the time and the allocated
    /// bytes of the previous point.
    fn record(&self, time: f64, allocated: i64, reserved: i64, last: Option<(f64, i64)>) -> Map {
        let interval = last.map_or(0.0, |(before, _)| (time - before).max(0.0) * 1000.0);
        let change = last.map_or(0, |(_, before)| allocated.saturating_sub(before));
        let mut record = Map::new();
        record.insert("timestamp", Value::Float(time));
        record.insert("event_type", EventType::Sample.as_str());
        record.insert("collector", TIMELINE_COLLECTOR);
        record.insert("session_id", self.session_id.clone());
        record.insert("sampling_interval_ms", whole(interval.round()));
        record.insert("allocator_allocated_bytes", allocated);
        record.insert("allocator_reserved_bytes", reserved);
        record.insert("allocator_change_bytes", change);
        record.insert("device_used_bytes", allocated.max(reserved));
        record.insert("rank", self.rank);
        record.insert("world_size", self.world_size);
        if let Some(session) = self.session {
            record.insert("pid", session.pid);
            record.insert("host", session.host.clone());
            record.insert("job_id", session.job_id.clone());
            record.insert("local_rank", session.local_rank);
        }
        record.insert("context", "diagnose timeline sample");
        let mut metadata = Map::new();
        metadata.insert("source", "diagnose.telemetry_timeline");
        record.insert("metadata", Value::Map(metadata));
        record
    }
}

/// Reads an OOM bundle: its session, and the events of its ring buffer.
pub(crate) fn read_oom(
    directory: &Path,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
) -> Result<ReadParts, LoadError> {
    let file = plain_or_compressed(directory, EVENTS).unwrap_or_else(|| directory.join(EVENTS));
    let text = read_beside(directory, &file)?;
    (options.progress)(text.len() as u64);
    let document = parse(&text).map_err(|source| LoadError::json(&file, source))?;
    let Value::List(items) = document else {
        return Err(LoadError::NoEvents { file });
    };
    let session = session_of_bundle(directory);
    let defaults = match &session {
        Some(session) => options.defaults(session.session_id.clone()),
        None => options.defaults_of(&file, "json"),
    };
    let mut damage = DamageList::with_most(options.most_damage);
    let mut builder = ChunkBuilder::with_capacity(items.len().min(ROOM));
    for (index, item) in items.into_iter().enumerate() {
        let index = index as u64;
        let event = match item {
            Value::Map(record) => event_from_record(&canonical(record), &defaults)
                .map_err(|source| LoadError::bad_event(&file, index, source)),
            _ => Err(LoadError::NotAnObject {
                file: file.clone(),
                index,
            }),
        };
        match event {
            Ok(event) => builder.push_event(&event),
            Err(error) if options.on_error == OnError::Raise => return Err(error),
            Err(error) => {
                let reason = format!("event {index}: {error}");
                let field = error.field().map(str::to_owned);
                damage.push(|| Damage {
                    field,
                    ..Damage::of_file(&file, reason)
                });
            }
        }
        builder.pass_if_full(take);
    }
    builder.pass_rest(take);
    Ok(ReadParts {
        known: session.into_iter().collect(),
        ..ReadParts::of_file(&file, damage.finish(&file))
    })
}

/// Renames the counters of a ring-buffer entry to the names they have in an event record.
fn canonical(mut record: Map) -> Map {
    for (ring, name) in RING_FIELDS {
        match record.remove(ring) {
            None | Some(Value::Null) => {}
            Some(value) if !record.contains(name) => record.insert(name, value),
            Some(_) => {}
        }
    }
    record
}

fn session_of_bundle(directory: &Path) -> Option<SessionSummary> {
    let manifest = directory.join(MANIFEST);
    let manifest = object(&read_beside(directory, &manifest).ok()?, &manifest).ok()?;
    let map = manifest.object("session")?;
    if let Ok(summary) = SessionSummary::from_map(map) {
        return Some(summary);
    }
    // When the session's summary is incomplete, as in an interrupted bundle, the session id is
    // taken from the bundle's manifest.
    let session_id = manifest.text("session_id").filter(|id| !id.is_blank())?;
    let text = |key: &str, default: &str| -> Text {
        map.text(key).cloned().unwrap_or_else(|| default.into())
    };
    let number = |key: &str, default| map.int(key).unwrap_or(default);
    Some(SessionSummary {
        session_id: session_id.clone(),
        status: SessionStatus::Incomplete,
        started_at_ns: number("started_at_ns", 0),
        ended_at_ns: map.int("ended_at_ns"),
        host: text("host", "unknown"),
        pid: number("pid", -1),
        job_id: map.text("job_id").cloned(),
        rank: number("rank", 0),
        local_rank: number("local_rank", 0),
        world_size: number("world_size", 1).max(1),
        source: text("source", "stormlog.diagnose.bundle"),
        recorder: None,
    })
}

fn object(text: &[u8], file: &Path) -> Result<Map, LoadError> {
    match parse(text).map_err(|source| LoadError::json(file, source))? {
        Value::Map(map) => Ok(map),
        _ => Err(LoadError::NoEvents { file: file.into() }),
    }
}

/// The rank of a timeline: from its contents, otherwise from its path, otherwise 0.
fn rank_of(payload: &Map, file: &Path) -> i64 {
    let nested = |key: &str| payload.object(key).and_then(|map| map.get("rank"));
    let said = [
        payload.get("rank"),
        nested("metadata"),
        nested("distributed_identity"),
    ];
    let said = said
        .into_iter()
        .flatten()
        .find_map(Value::as_int)
        .filter(|rank| *rank >= 0);
    let in_path = || {
        let parts = file.components().rev();
        parts
            .filter_map(|part| part.as_os_str().to_str())
            .find_map(rank_in_name)
    };
    said.or_else(in_path).unwrap_or(0)
}

/// The number in a JSON value, if it is finite.
fn finite(value: &Value) -> Option<f64> {
    value.as_number().filter(|number| number.is_finite())
}
