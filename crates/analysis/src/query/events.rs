//! Lists the events of many sources (recording folders and exported files) as one sequence ordered
//! by time.

use std::sync::Arc;

use rayon::prelude::*;
use stormlog_format::{Map, Text};

use super::about;
use super::catalog::SourceKind;
use super::filter::fits;
use super::payload::path_text;
use super::scan::scan;
use crate::columns::{EventRef, Events, RowId, RowSet};
use crate::load::LoadedSession;

/// Which events to list. A field that is `None` accepts every event.
#[derive(Clone, Debug, Default)]
#[expect(
    missing_docs,
    reason = "each field is a flag of `stormlog query`, described in its help"
)]
pub struct EventFilter {
    pub session_id: Option<Text>,
    pub event_type: Option<Text>,
    pub rank: Option<i64>,
    pub collector: Option<Text>,
    pub status: Option<Text>,
    pub time_start_ns: Option<i64>,
    pub time_end_ns: Option<i64>,
    pub has_alert: Option<bool>,
    pub collector_health_status: Option<Text>,
    pub backend: Option<Text>,
    pub limit: Option<usize>,
}

impl EventFilter {
    /// Whether the event passes the filter. This does not check the status of its session.
    pub fn accepts(&self, event: EventRef<'_>) -> bool {
        let origin = event.origin();
        let time = event.timestamp_ns();
        let says = |key: &str, wanted: &Option<Text>| {
            let has = |wanted: &Text| about::metadata_text(event, key).as_ref() == Some(wanted);
            wanted.as_ref().is_none_or(has)
        };
        self.time_start_ns.is_none_or(|start| time >= start)
            && self.time_end_ns.is_none_or(|end| time <= end)
            && fits(self.rank.as_ref(), Some(&origin.rank))
            && self
                .event_type
                .as_ref()
                .is_none_or(|kind| kind.as_bytes() == event.event_type())
            && fits(self.session_id.as_ref(), Some(&origin.session_id))
            && fits(self.collector.as_ref(), Some(&origin.collector))
            && self
                .has_alert
                .is_none_or(|wanted| wanted == about::is_alert(event))
            && says("collector_health_status", &self.collector_health_status)
            && says("backend", &self.backend)
    }

    /// Whether any field of the filter is set, so that the filter may exclude events.
    pub(super) fn is_narrow(&self) -> bool {
        let texts = [
            &self.session_id,
            &self.event_type,
            &self.collector,
            &self.status,
            &self.collector_health_status,
            &self.backend,
        ];
        let times = [self.rank, self.time_start_ns, self.time_end_ns];
        texts.into_iter().any(Option::is_some)
            || times.iter().any(Option::is_some)
            || self.has_alert.is_some()
            || self.limit.is_some()
    }

    pub(super) fn accepts_status(&self, status: &str) -> bool {
        fits(self.status.as_ref(), Some(status))
    }
}

/// The events of one session in one source, with the labels that their rows share.
#[derive(Clone, Debug)]
pub(super) struct Home {
    source_path: Text,
    source_kind: SourceKind,
    pub(super) session_status: &'static str,
    pub(super) events: Events,
}

/// The events that a query found in many sources, ordered by time and then by session id.
#[derive(Clone, Debug, Default)]
pub struct EventRows {
    homes: Arc<[Home]>,
    /// For each row, the index of its [`Home`], and the index of the event in that `Home`.
    rows: Vec<(u32, u32)>,
}

/// An event as a row of a query result, with the values that the row shows about its source and
/// session.
#[derive(Clone, Copy, Debug)]
pub struct EventRow<'a> {
    /// The event.
    pub event: EventRef<'a>,
    /// Path of the first file of the event's session; the path of the source if no file is known.
    pub source_path: &'a Text,
    /// The type of the source that contains the event, such as a sink (recording folder) or a CSV
    /// file.
    pub source_kind: SourceKind,
    /// The status of the event's session, such as `running` or `completed`.
    pub session_status: &'static str,
}

impl EventRow<'_> {
    /// The row as the JSON object of a query result, with its keys in a fixed order.
    pub fn to_map(self) -> Map {
        let mut map = self.event.to_event().to_record();
        map.insert("source_path", self.source_path.clone());
        map.insert("source_kind", self.source_kind.as_str());
        map.insert("session_status", self.session_status);
        map
    }
}

impl EventRows {
    /// Number of events.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row at index `place`; `None` past the end.
    pub fn get(&self, place: usize) -> Option<EventRow<'_>> {
        let (home, event) = *self.rows.get(place)?;
        let home = &self.homes[home as usize];
        Some(EventRow {
            event: home.events.get(event as usize)?,
            source_path: &home.source_path,
            source_kind: home.source_kind,
            session_status: home.session_status,
        })
    }

    /// Keeps the first `limit` rows, or all rows if `limit` is `None`.
    fn first(mut self, limit: Option<usize>) -> Self {
        self.rows.truncate(limit.unwrap_or(usize::MAX));
        self
    }

    /// The rows in order.
    pub fn iter(&self) -> impl Iterator<Item = EventRow<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

/// The path that query results show as `source_path` for the events of a session: its first file,
/// or the path of the source if no file is known.
pub fn source_path(session: &LoadedSession, source: &super::Source) -> Text {
    match session.sources.first() {
        Some(first) => first.as_str().into(),
        None => path_text(&source.path),
    }
}

impl super::Store {
    /// The events that pass the filter, the earliest first.
    pub fn events(&self, filter: &EventFilter) -> EventRows {
        let homes = self.homes(filter);
        let rows = in_time(homes, |_, events, id| filter.accepts(events.event(id)));
        rows.first(filter.limit)
    }

    /// The events that may report a problem, such as errors, warnings and degraded collectors, the
    /// earliest first. Callers must still check each event.
    pub(crate) fn events_that_may_be_trouble(&self) -> EventRows {
        let homes = self.homes(&EventFilter::default());
        // The sessions of a source share one event table, which is searched only once.
        let mut sets: Vec<RowSet> = Vec::new();
        let mut set_of = Vec::with_capacity(homes.len());
        for home in &homes {
            if !sets.last().is_some_and(|set| set.is_of(&home.events)) {
                sets.push(about::may_be_trouble(&home.events));
            }
            set_of.push(sets.len() - 1);
        }
        in_time(homes, |home, _, id| sets[set_of[home]].contains(id))
    }

    /// The sessions that may have events which pass the filter, each with its events.
    pub(super) fn homes(&self, filter: &EventFilter) -> Vec<Home> {
        let mut homes = Vec::new();
        for (index, source) in self.catalog().sources.iter().enumerate() {
            if source.kind == SourceKind::DiagnoseBundle {
                continue;
            }
            if filter.is_narrow()
                && self.scans_rather_than_loads(index)
                && let Some((scanned, damage)) =
                    scan(source, self.rollups(index).as_deref(), filter)
            {
                self.note_damage(source, &damage);
                homes.extend(scanned.into_iter().map(|session| Home {
                    source_path: path_text(&session.file),
                    source_kind: source.kind,
                    session_status: session.summary.status.as_str(),
                    events: session.events,
                }));
                continue;
            }
            for session in &self.loaded(index).sessions {
                let status = session.summary.status.as_str();
                let id = &session.summary.session_id;
                if !fits(filter.session_id.as_ref(), Some(id)) || !filter.accepts_status(status) {
                    continue;
                }
                homes.push(Home {
                    source_path: source_path(session, source),
                    source_kind: source.kind,
                    session_status: status,
                    events: session.events.clone(),
                });
            }
        }
        homes
    }
}

/// The events in `homes` that `wants` accepts, ordered by time and session. For each event, `wants`
/// gets the index of its home, all events of that home, and the row of the event among them.
fn in_time(homes: Vec<Home>, wants: impl Fn(usize, &Events, RowId) -> bool + Sync) -> EventRows {
    let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    let mut rows: Vec<(u32, u32)> = homes
        .par_iter()
        .enumerate()
        .flat_map_iter(|(home, Home { events, .. })| {
            let wants = &wants;
            let ids = events.row_ids().iter().enumerate();
            let wanted = ids.filter(move |(_, id)| wants(home, events, **id));
            wanted.map(move |(index, _)| (number(home), number(index)))
        })
        .collect();
    let key = |(home, place): &(u32, u32)| {
        let event = homes[*home as usize].events.get(*place as usize);
        event.map(|event| (event.timestamp_ns(), &event.origin().session_id))
    };
    // The sort is stable: of events with equal times, the one of the source found first comes
    // first.
    if !rows.is_sorted_by_key(key) {
        rows.sort_by(|one, other| key(one).cmp(&key(other)));
    }
    EventRows {
        homes: homes.into(),
        rows,
    }
}
