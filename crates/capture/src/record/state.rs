//! The state of a recorder: the last events, the session, and its sink.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stormlog_format::{Map, SessionStatus, SessionSummary};

use super::alerts::Thresholds;
use super::event::{Origin, TrackedEvent};
use super::phases::PhaseStacks;
use super::ring::Ring;
use super::sampler::Sampler;
use super::statistics::Tally;
use crate::store::{BackgroundSink, Diagnostics, SinkStatus};

pub(super) struct State {
    pub(super) history: Ring<Arc<TrackedEvent>>,
    pub(super) bundle: Option<Ring<Arc<TrackedEvent>>>,
    pub(super) tally: Tally,
    pub(super) thresholds: Thresholds,
    pub(super) phases: PhaseStacks,
    pub(super) session: Option<SessionSummary>,
    pub(super) origin: Option<Origin>,
    pub(super) started: Option<Instant>,
    pub(super) stopped_after: Option<Duration>,
    pub(super) started_at_ns: Option<i64>,
    pub(super) sink: Option<Arc<BackgroundSink>>,
    pub(super) diagnostics: Diagnostics,
    /// The final status of the sink, which wrote the events of the last session to disk.
    pub(super) stored: Option<SinkStatus>,
    /// Log messages of the sink that the caller has not fetched yet.
    pub(super) notices: Vec<String>,
    pub(super) sampler: Option<Sampler>,
    pub(super) source_gone: bool,
    /// A number that rises at the start and at the end of each session. A sampling thread that
    /// still runs after its session has an older number, and its samples are dropped.
    pub(super) generation: u64,
}

impl State {
    /// The state of a recorder before its first session.
    pub(super) fn new(max_events: usize, bundle_events: Option<usize>) -> Self {
        Self {
            history: Ring::new(max_events),
            bundle: bundle_events.map(Ring::new),
            tally: Tally::default(),
            thresholds: Thresholds::default(),
            phases: PhaseStacks::default(),
            session: None,
            origin: None,
            started: None,
            stopped_after: None,
            started_at_ns: None,
            sink: None,
            diagnostics: Diagnostics::default(),
            stored: None,
            notices: Vec::new(),
            sampler: None,
            source_gone: false,
            generation: 0,
        }
    }

    /// Adds an event to the events in memory, to the events for an out-of-memory bundle, and to the
    /// sink.
    pub(super) fn keep(&mut self, event: TrackedEvent) -> Arc<TrackedEvent> {
        let event = Arc::new(event);
        if event.is_alert() {
            self.tally.alerts += 1;
        }
        self.history.push(event.clone());
        if let Some(bundle) = &mut self.bundle {
            bundle.push(event.clone());
        }
        if let (Some(sink), Some(origin)) = (&self.sink, &self.origin) {
            sink.record(event.to_event(origin));
        }
        event
    }

    /// The events for an out-of-memory bundle, oldest first.
    pub(super) fn bundle_payloads(&self) -> Vec<Map> {
        let Some(origin) = &self.origin else {
            return Vec::new();
        };
        let events = self.bundle.iter().flat_map(Ring::iter);
        events
            .map(|event| event.to_bundle_payload(origin))
            .collect()
    }

    /// The duration of the running session so far, or of the last session; `None` before the first
    /// session.
    pub(super) fn duration(&self) -> Option<Duration> {
        self.stopped_after
            .or_else(|| self.started.map(|started| started.elapsed()))
    }

    /// The status of the session. If the session has a sink, the sink's status is used, because the
    /// sink knows whether events are missing.
    pub(super) fn status_of(&self, session: &SessionSummary) -> SessionStatus {
        match &self.sink {
            Some(sink) => sink.status().session_status,
            None => session.status,
        }
    }
}
