//! Loads the timeline of a diagnose bundle, a JSON file of memory use over time, as a session of
//! samples.

use std::path::Path;

use stormlog_analysis::Events;
use stormlog_analysis::{LoadedSession, absolute, read_whole};
use stormlog_format::json::parse;
use stormlog_format::whole;
use stormlog_format::{
    Counters, Event, EventType, Map, SessionStatus, SessionSummary, Text, Value, Version,
    file_names, session_integer, stable_legacy_session_id,
};

use super::directory::Found;
use super::gather::shown;
use super::rank_choice::{RankChoice, RankContext};

const COLLECTOR: &str = "stormlog.diagnose.timeline";

/// One point in time of a diagnose bundle's timeline, with the allocated and reserved bytes.
struct Point {
    seconds: f64,
    allocated: i64,
    reserved: i64,
}

/// Loads the timeline file of a diagnose bundle as a session with one sample for each point.
pub(super) fn load(file: &Path, ranks: &mut RankChoice) -> Found {
    match read(file) {
        Err(warning) => Found::warning(warning),
        Ok((payload, points, unread)) => {
            let context = ranks.choose(file, &payload);
            let mut found = session(file, &points, context);
            if unread > 0 {
                found.warnings.push(format!(
                    "Left out {unread} points that are no numbers in {}",
                    shown(file)
                ));
            }
            found
        }
    }
}

fn session(file: &Path, points: &[Point], context: RankContext) -> Found {
    let source = absolute(file);
    let first_ns = points.first().map_or(0, |point| nanoseconds(point.seconds));
    let bundle = file
        .parent()
        .and_then(|bundle| bundle_session(bundle, first_ns));
    let mut summary = bundle.unwrap_or_else(|| SessionSummary {
        session_id: stable_legacy_session_id(&[source.clone().into(), "diagnose.timeline".into()]),
        started_at_ns: first_ns,
        source: COLLECTOR.into(),
        ..unknown_session()
    });
    summary.rank = context.rank;
    summary.local_rank = context.local_rank;
    summary.world_size = context.world_size;
    let warning = format!(
        "Synthesized telemetry events from telemetry_timeline.json; assigned rank={} \
         world_size={} (source={}, session_id={}, status={}).",
        context.rank,
        context.world_size,
        context.source,
        summary.session_id,
        summary.status.as_str()
    );
    let mut events = samples(&summary, points);
    events.sort_by_key(|event| event.timestamp_ns);
    let session = LoadedSession {
        events: Events::from_events(&events),
        summary,
        sources: vec![source],
        damage: Vec::new(),
        thinned_until_ns: None,
    };
    Found {
        sessions: vec![(session, Vec::new())],
        ..Found::warning(warning)
    }
}

fn samples(summary: &SessionSummary, points: &[Point]) -> Vec<Event> {
    let mut metadata = Map::new();
    metadata.insert("source", "diagnose.telemetry_timeline");
    let mut before: Option<&Point> = None;
    let sample = |point| {
        let last = before.replace(point);
        let apart_s = last.map_or(0.0, |last| point.seconds - last.seconds);
        Event {
            version: Version::V3,
            session_id: summary.session_id.clone(),
            timestamp_ns: nanoseconds(point.seconds),
            event_type: EventType::Sample.into(),
            collector: COLLECTOR.into(),
            sampling_interval_ms: whole((apart_s.max(0.0) * 1000.0).round_ties_even()),
            pid: summary.pid,
            host: summary.host.clone(),
            job_id: summary.job_id.clone(),
            rank: summary.rank,
            local_rank: summary.local_rank,
            world_size: summary.world_size,
            device_id: 0,
            counters: Counters {
                allocator_allocated_bytes: Some(point.allocated),
                allocator_reserved_bytes: Some(point.reserved),
                allocator_change_bytes: Some(
                    point.allocated - last.map_or(0, |last| last.allocated),
                ),
                device_used_bytes: Some(point.allocated.max(point.reserved)),
                ..Counters::default()
            },
            context: Some("diagnose timeline sample".into()),
            metadata: metadata.clone(),
        }
    };
    points.iter().map(sample).collect()
}

/// Reads a timeline file. Returns the file's JSON object, the valid points of the timeline and the
/// number of invalid points, or an error message.
fn read(file: &Path) -> Result<(Map, Vec<Point>, usize), String> {
    let name = shown(file);
    let failed = |reason: &dyn std::fmt::Display| {
        format!("Failed to read timeline payload {name}: {reason}")
    };
    let text = read_whole(file).map_err(|error| failed(&error))?;
    let Value::Map(payload) = parse(&text).map_err(|error| failed(&error))? else {
        return Err(format!("Timeline payload is not a JSON object: {name}"));
    };
    let list = |key: &str| match payload.get(key) {
        Some(Value::List(items)) => Some(items),
        _ => None,
    };
    let (Some(times), Some(allocated)) = (list("timestamps"), list("allocated")) else {
        return Err(format!("Invalid timeline payload shape in {name}"));
    };
    let reserved = list("reserved").unwrap_or(allocated);
    if times.is_empty() || allocated.is_empty() {
        return Err(format!("Timeline payload has no samples in {name}"));
    }
    let aligned = times.iter().zip(allocated).zip(reserved);
    let mut points = Vec::new();
    let mut unread = 0;
    for ((time, allocated), reserved) in aligned {
        match point(time, allocated, reserved) {
            Some(point) => points.push(point),
            None => unread += 1,
        }
    }
    if points.is_empty() {
        return Err(format!("Timeline payload has no aligned samples in {name}"));
    }
    Ok((payload, points, unread))
}

fn point(time: &Value, allocated: &Value, reserved: &Value) -> Option<Point> {
    let bytes = |value| {
        session_integer("bytes", value)
            .ok()
            .filter(|bytes| *bytes >= 0)
    };
    let seconds = match time {
        Value::Text(text) => text.as_str()?.trim().parse().ok()?,
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        other => other.as_number()?,
    };
    (seconds.is_finite() && seconds >= 0.0).then_some(Point {
        seconds,
        allocated: bytes(allocated)?,
        reserved: bytes(reserved)?,
    })
}

/// The session in the manifest next to a timeline. If the manifest has no start time, the session
/// starts with the first point of the timeline.
fn bundle_session(directory: &Path, first_ns: i64) -> Option<SessionSummary> {
    let text = read_whole(&directory.join(file_names::MANIFEST)).ok()?;
    let Ok(Value::Map(manifest)) = parse(&text) else {
        return None;
    };
    let session = manifest.object("session");
    if let Some(Ok(summary)) = session.map(SessionSummary::from_map) {
        return Some(summary);
    }
    let session_id = manifest.text("session_id");
    let session_id = session_id.filter(|id| !id.is_blank())?;
    let status = manifest.get("session_status").unwrap_or(&Value::Null);
    let status = SessionStatus::of_value(status).unwrap_or(SessionStatus::Incomplete);
    let created = manifest.text("created_iso");
    let created_ns = created
        .and_then(Text::as_str)
        .and_then(stormlog_analysis::query::iso_to_ns);
    Some(SessionSummary {
        session_id: session_id.clone(),
        status,
        started_at_ns: created_ns.unwrap_or(first_ns),
        ended_at_ns: created_ns.filter(|_| status != SessionStatus::Running),
        source: "stormlog.diagnose.bundle".into(),
        ..unknown_session()
    })
}

fn unknown_session() -> SessionSummary {
    SessionSummary {
        session_id: Text::default(),
        status: SessionStatus::Incomplete,
        started_at_ns: 0,
        ended_at_ns: None,
        host: "unknown".into(),
        pid: -1,
        job_id: None,
        rank: 0,
        local_rank: 0,
        world_size: 1,
        source: Text::default(),
        recorder: None,
    }
}

fn nanoseconds(seconds: f64) -> i64 {
    whole(seconds * 1e9)
}
