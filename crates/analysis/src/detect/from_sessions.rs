//! The columns of loaded sessions as the tracks of a run.

use std::sync::LazyLock;

use hashbrown::HashMap;
use memchr::memmem::Finder;
use rayon::prelude::*;
use stormlog_format::json::Reader;
use stormlog_format::{Map, Text, Value, classify};

use super::run::{OomMark, PhaseSpan, Run, Track};
use crate::columns::{EventRef, Events, Origin};
use crate::load::LoadedSession;

/// The key under which recorders of a shared device tell what the process itself holds.
static OWN_SHARE: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new("process_device_used_bytes"));

/// The run that some sessions of one job are: every rank and device of every session a track.
#[must_use]
pub fn run_of(sessions: &[&LoadedSession]) -> Run {
    let tracks = sessions
        .par_iter()
        .flat_map_iter(|session| tracks(&session.events))
        .collect();
    Run { tracks }
}

/// What makes samples belong to one track.
type Key = (i64, i64, Text);

#[derive(Default)]
struct Tracks {
    found: Vec<Track>,
    by_key: HashMap<Key, usize>,
    by_origin: HashMap<*const Origin, usize>,
    last: Option<(*const Origin, usize)>,
}

fn tracks(events: &Events) -> Vec<Track> {
    let mut all = Tracks::default();
    for event in events.iter() {
        all.add(event);
    }
    all.found
}

impl Tracks {
    fn add(&mut self, event: EventRef<'_>) {
        match event.event_type() {
            b"sample" => self.track(event.origin()).push_sample(event),
            b"phase_enter" => self.enter(event),
            b"phase_exit" => self.leave(event),
            b"error" => {
                let metadata = event.metadata();
                if classify::is_oom(&"error".into(), &metadata) {
                    let reason = metadata.get("oom_reason").and_then(Value::as_text);
                    let reason = reason.map(Text::to_str_lossy).unwrap_or_default();
                    self.track(event.origin()).ooms.push(OomMark {
                        at_ns: event.timestamp_ns(),
                        reason: reason.into_owned(),
                    });
                }
            }
            _ => {}
        }
    }

    fn track(&mut self, origin: &Origin) -> &mut Track {
        let address = std::ptr::from_ref(origin);
        let place = match self.last {
            Some((seen, place)) if seen == address => place,
            _ => self.place(origin, address),
        };
        self.last = Some((address, place));
        &mut self.found[place]
    }

    fn place(&mut self, origin: &Origin, address: *const Origin) -> usize {
        if let Some(place) = self.by_origin.get(&address) {
            return *place;
        }
        let key = (origin.rank, origin.device_id, origin.session_id.clone());
        let place = *self.by_key.entry(key).or_insert_with(|| {
            self.found.push(Track {
                rank: u32::try_from(origin.rank).unwrap_or(u32::MAX),
                device_id: origin.device_id,
                session_id: origin.session_id.to_str_lossy().into_owned(),
                host: origin.host.to_str_lossy().into_owned(),
                ..Track::default()
            });
            self.found.len() - 1
        });
        self.by_origin.insert(address, place);
        place
    }

    /// Every phase that has a name counts. The reference's replay also asks for threads and
    /// sequences; an evaluation explains a bump without them, and losing it raises an alarm.
    fn enter(&mut self, event: EventRef<'_>) {
        let Some(name) = phase_name(&event.metadata()) else {
            return;
        };
        let start_ns = event.timestamp_ns();
        self.track(event.origin()).phases.push(PhaseSpan {
            name,
            start_ns,
            end_ns: None,
        });
    }

    /// Closes the phase of that name that was entered last.
    fn leave(&mut self, event: EventRef<'_>) {
        let Some(name) = phase_name(&event.metadata()) else {
            return;
        };
        let phases = &mut self.track(event.origin()).phases;
        let mut open = phases
            .iter_mut()
            .rev()
            .filter(|phase| phase.end_ns.is_none());
        if let Some(phase) = open.find(|phase| phase.name == name) {
            phase.end_ns = Some(event.timestamp_ns());
        }
    }
}

/// The name of the phase that a boundary's metadata tells of.
fn phase_name(metadata: &Map) -> Option<String> {
    let scope = metadata.get("phase_scope")?.as_map()?;
    let last = match scope.get("path") {
        Some(Value::List(path)) => path.last(),
        _ => None,
    };
    let name = scope.get("name").or(last)?.as_text()?;
    (!name.is_blank()).then(|| name.to_str_lossy().into_owned())
}

impl Track {
    fn push_sample(&mut self, event: EventRef<'_>) {
        self.t_ns.push(event.timestamp_ns());
        self.allocated.push(event.allocated_bytes());
        self.reserved.push(event.reserved_bytes());
        self.used.push(event.used_bytes());
        self.free.push(event.free_bytes());
        self.total.push(event.total_bytes());
        if let Some(own) = own_bytes(event.metadata_json()) {
            self.own.push_as(self.t_ns.len(), own);
        }
    }
}

/// The share of the device that the metadata gives the recorded process.
fn own_bytes(metadata: &[u8]) -> Option<i64> {
    OWN_SHARE.find(metadata)?;
    let mut reader = Reader::new(metadata);
    if !reader.eat(b'{') {
        return None;
    }
    loop {
        let key = reader.key().ok()?;
        reader.skip_space();
        let value = reader.skip_value().ok()?;
        if key.bytes == OWN_SHARE.needle() {
            let bytes: i64 = std::str::from_utf8(value).ok()?.parse().ok()?;
            return (bytes >= 0).then_some(bytes);
        }
        if !reader.more(b'}').ok()? {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use stormlog_format::{Counters, Event, Version};

    use super::*;

    fn event(at_ns: i64, event_type: &str, metadata: &[u8]) -> Event {
        let metadata = match stormlog_format::json::parse(metadata) {
            Ok(Value::Map(map)) => map,
            other => panic!("{other:?} is no object"),
        };
        Event {
            version: Version::V3,
            session_id: "s".into(),
            timestamp_ns: at_ns,
            event_type: event_type.into(),
            collector: "c".into(),
            sampling_interval_ms: 100,
            pid: 1,
            host: "h".into(),
            job_id: None,
            rank: 0,
            local_rank: 0,
            world_size: 1,
            device_id: 0,
            counters: Counters::default(),
            context: None,
            metadata,
        }
    }

    #[test]
    fn a_phase_with_nothing_but_a_name_counts() {
        let scope = br#"{"phase_scope": {"name": "evaluation"}}"#;
        let events = [
            event(1, "phase_enter", scope),
            event(2, "sample", b"{}"),
            event(3, "phase_exit", scope),
            event(
                4,
                "phase_enter",
                br#"{"phase_scope": {"path": ["train", "checkpoint"]}}"#,
            ),
            event(5, "phase_enter", br#"{"phase_scope": {"name": " "}}"#),
        ];
        let tracks = tracks(&Events::from_events(&events));
        let phases: Vec<(&str, i64, Option<i64>)> = tracks[0]
            .phases
            .iter()
            .map(|phase| (phase.name.as_str(), phase.start_ns, phase.end_ns))
            .collect();
        assert_eq!(
            phases,
            [("evaluation", 1, Some(3)), ("checkpoint", 4, None)]
        );
    }

    #[test]
    fn the_share_of_the_process_is_read_where_it_stands() {
        let nested = br#"{"a": {"process_device_used_bytes": 5}}"#;
        let own = br#"{"a": "process_device_used_bytes", "process_device_used_bytes": 7}"#;
        let odd = br#"{"process_device_used_bytes": -9223372036854775808}"#;
        let events = [
            event(1, "sample", nested),
            event(2, "sample", own),
            event(3, "sample", odd),
        ];
        let tracks = tracks(&Events::from_events(&events));
        let shares = [0, 1, 2].map(|place| tracks[0].own.get(place));
        assert_eq!(shares, [None, Some(7), None]);
    }

    #[test]
    fn unknown_counters_stay_unknown() {
        let tracks = tracks(&Events::from_events(&[event(2, "sample", b"{}")]));
        assert_eq!((tracks[0].used.len(), tracks[0].used.get(0)), (1, None));
    }
}
