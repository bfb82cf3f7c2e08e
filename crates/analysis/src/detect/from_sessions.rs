//! The columns of loaded sessions as the tracks of a run.

use hashbrown::HashMap;
use rayon::prelude::*;
use stormlog_format::{Text, Value, classify};

use super::run::{OomMark, PhaseSpan, Run, Track};
use crate::columns::{EventRef, Events, Origin};
use crate::load::LoadedSession;
use crate::parity::phases::PhaseReplay;

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
    tracks: Vec<Track>,
    by_key: HashMap<Key, usize>,
    by_origin: HashMap<*const Origin, usize>,
    last: Option<(*const Origin, usize)>,
    has_phases: bool,
}

fn tracks(events: &Events) -> Vec<Track> {
    let mut all = Tracks::default();
    for event in events.iter() {
        all.add(event);
    }
    if all.has_phases {
        all.add_phases(events);
    }
    all.tracks
}

impl Tracks {
    fn add(&mut self, event: EventRef<'_>) {
        match event.event_type() {
            b"sample" => self.track(event.origin()).push_sample(event),
            b"phase_enter" | b"phase_exit" => self.has_phases = true,
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
        &mut self.tracks[place]
    }

    fn place(&mut self, origin: &Origin, address: *const Origin) -> usize {
        if let Some(place) = self.by_origin.get(&address) {
            return *place;
        }
        let key = (origin.rank, origin.device_id, origin.session_id.clone());
        let place = *self.by_key.entry(key).or_insert_with(|| {
            self.tracks.push(Track {
                rank: u32::try_from(origin.rank).unwrap_or(u32::MAX),
                device_id: origin.device_id,
                session_id: origin.session_id.to_str_lossy().into_owned(),
                host: origin.host.to_str_lossy().into_owned(),
                ..Track::default()
            });
            self.tracks.len() - 1
        });
        self.by_origin.insert(address, place);
        place
    }

    fn add_phases(&mut self, events: &Events) {
        let replay = PhaseReplay::of_events(events);
        for track in &mut self.tracks {
            let session_id = Text::from(track.session_id.as_str());
            for span in replay.spans_for(&session_id, Some(i64::from(track.rank))) {
                let name = span.path.last().map(Text::to_str_lossy).unwrap_or_default();
                track.phases.push(PhaseSpan {
                    name: name.into_owned(),
                    start_ns: span.start_ns,
                    end_ns: (!span.synthetic_end).then_some(span.end_ns),
                });
            }
        }
    }
}

impl Track {
    fn push_sample(&mut self, event: EventRef<'_>) {
        self.t_ns.push(event.timestamp_ns());
        self.allocated.push(event.allocated_bytes());
        self.reserved.push(event.reserved_bytes());
        self.used.push(event.used_bytes());
        self.free.push(event.free_bytes());
        self.total.push(event.total_bytes());
    }
}
