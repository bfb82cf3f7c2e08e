//! The recorder samples on its own thread, keeps the last events in memory, passes all events to
//! the store, and never makes the watched program wait.

pub mod alerts;
mod channel;
pub mod event;
pub mod export;
mod numbers;
pub mod phases;
mod ring;
mod sampler;
mod state;
mod statistics;
pub mod timeline;
pub mod watchdog;
mod wording;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use stormlog_format::{
    DistributedIdentity, Event, EventType, Map, SessionStatus, SessionSummary, Text, Value,
    metadata_keys, whole,
};

use crate::clock::{now_ns, seconds};
use crate::collect::Collector;
use crate::memory::is_short;
use crate::mutex::lock;
use crate::store::{BackgroundSink, SinkConfig, SinkStatus, new_session};
use channel::Channel;
use event::{Origin, TrackedEvent};
use phases::{Boundary, PhaseError, PhaseOwner, PhaseStacks, PhaseThread};
use sampler::{Beat, Sampler};
use state::State;
use statistics::Tally;

pub use wording::human as human_bytes;

/// The longest time that the end of a session waits until the sink has written all events to disk.
const SINK_PATIENCE: Duration = Duration::from_secs(5);

/// The longest time that a call waits for the collectors while another thread reads them. After
/// that, an event is recorded with the counters of the last event.
const READING_PATIENCE: Duration = Duration::from_millis(50);

/// How a [`Recorder`] samples, what it keeps, and where it stores its events.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The time from the start of one sample to the start of the next.
    pub interval: Duration,
    /// How many of its last events the recorder keeps in memory, for queries and statistics.
    pub max_events: usize,
    /// How many of the last events an out-of-memory bundle contains; `None` when no bundles are
    /// written.
    pub bundle_events: Option<usize>,
    /// Whether every sample is checked for alerts, such as high memory use.
    pub alerts: bool,
    /// The job id, rank, local rank and world size of the process, which every event contains.
    pub identity: DistributedIdentity,
    /// The name of the part of Stormlog that records, such as `stormlog.demo`, for the session's
    /// summary.
    pub session_source: Text,
    /// The name of the machine that the session is recorded on.
    pub host: Text,
    /// The pid of the recorded process, which every event contains.
    pub pid: i64,
    /// Where and how the events of every session are written to disk; `None` when events are not
    /// stored.
    pub sink: Option<SinkConfig>,
    /// Which events the recorder makes from a reading of the counters.
    pub detail: Detail,
    /// Metadata that the recorder adds to the `start` events of every session.
    pub start_metadata: Map,
}

/// Which events the recorder makes from each reading of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Each reading makes a sample, and one event for each change of memory and each new peak, as
    /// in stormlog 0.3.9.
    #[default]
    Changes,
    /// Each reading makes a sample and events about the health of its collector, and no other
    /// events.
    Samples,
}

/// Receives each alert after it has been recorded, and the fields that all events of the session
/// share. It is called on the thread that found the alert, while that thread does not hold the lock
/// of the recorder's state.
pub type AlertListener = Box<dyn Fn(&TrackedEvent, &Origin) + Send + Sync>;

/// Why a recorder cannot start a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The system could not start the sampling thread.
    #[error("cannot start a thread to sample on: {0}")]
    Thread(#[from] std::io::Error),
}

/// Selects events from the recorder's memory. An event must meet all conditions that are set.
#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    /// Selects only events of the given type.
    pub event_type: Option<Text>,
    /// Selects only events at or after the given time, in epoch seconds.
    pub since_s: Option<f64>,
    /// Selects only alerts.
    pub alerts_only: bool,
    /// Selects only the given number of the newest matching events; zero or less selects none.
    pub last: Option<i64>,
}

/// Samples the memory counters of its collectors and records them as events, in one session at a
/// time, from [`start`](Self::start) to [`stop`](Self::stop).
pub struct Recorder {
    options: RecordOptions,
    listener: Option<AlertListener>,
    channels: Mutex<Vec<Channel>>,
    state: Mutex<State>,
    is_paused: AtomicBool,
}

impl Recorder {
    /// Makes a recorder that samples the given collectors; nothing is recorded until
    /// [`start`](Self::start). The `listener` receives every alert.
    pub fn new(
        options: RecordOptions,
        collectors: Vec<Box<dyn Collector>>,
        listener: Option<AlertListener>,
    ) -> Arc<Self> {
        let detail = options.detail;
        let channels = collectors.into_iter();
        let channels = channels.map(|collector| Channel::new(collector, detail));
        let channels = channels.collect();
        let state = State::new(options.max_events, options.bundle_events);
        Arc::new(Self {
            options,
            listener,
            channels: Mutex::new(channels),
            state: Mutex::new(state),
            is_paused: AtomicBool::new(false),
        })
    }

    /// The options with which the recorder was created.
    pub fn options(&self) -> &RecordOptions {
        &self.options
    }

    /// Starts a session and its sampling thread; does nothing when a session is running.
    pub fn start(self: &Arc<Self>) -> Result<(), StartError> {
        if self.is_tracking() {
            return Ok(());
        }
        let session = self.new_session();
        let starts = self.with_channels(|channels| {
            channels.iter_mut().for_each(Channel::reset);
            channels.iter_mut().map(Channel::begin).collect::<Vec<_>>()
        });
        let mut state = self.state();
        if state.sampler.is_some() {
            return Ok(());
        }
        let config = self.options.sink.clone();
        let sink = config.map(|config| Arc::new(BackgroundSink::start(config, session.clone())));
        *state = State {
            thresholds: state.thresholds.clone(),
            generation: state.generation + 1,
            started: Some(Instant::now()),
            started_at_ns: Some(session.started_at_ns),
            origin: Some(self.origin_of(&session)),
            session: Some(session),
            sink,
            ..State::new(self.options.max_events, self.options.bundle_events)
        };
        for (mut event, notices) in starts.unwrap_or_default() {
            event.metadata.extend(self.options.start_metadata.clone());
            state.keep(event);
            for notice in notices {
                state.keep(notice);
            }
        }
        let generation = state.generation;
        let watched = Arc::downgrade(self);
        let beat = move || match watched.upgrade() {
            Some(recorder) => recorder.beat(generation),
            None => Beat::Last,
        };
        state.sampler = Some(Sampler::start(self.options.interval, beat)?);
        Ok(())
    }

    /// Ends the running session with the given status; does nothing when none is running.
    pub fn stop(&self, status: SessionStatus) {
        self.stop_with(status, &Map::new());
    }

    /// Ends the running session and adds metadata to its `stop` events, one for each collector.
    pub fn stop_with(&self, status: SessionStatus, metadata: &Map) {
        let Some(sampler) = self.state().sampler.take() else {
            return;
        };
        sampler.stop();
        let wording = self.with_channels(|channels| {
            let events = channels.iter_mut().map(|channel| {
                let context = channel.wording().stopped();
                channel.event_now(EventType::Stop.as_str(), context)
            });
            events.collect::<Vec<_>>()
        });
        let stops = wording.unwrap_or_else(|| {
            self.fallback_event(EventType::Stop.as_str())
                .into_iter()
                .collect()
        });
        let mut state = self.state();
        for mut event in stops {
            event.metadata.extend(metadata.clone());
            state.keep(event);
        }
        state.generation += 1;
        state.phases.reset();
        state.stopped_after = state.started.map(|started| started.elapsed());
        let sink = state.sink.take();
        drop(state);
        let end = sink.map(|sink| {
            let end = sink.finish(status, SINK_PATIENCE);
            (end, sink.diagnostics(), sink.session(), sink.take_notices())
        });
        let mut state = self.state();
        let mut status = status;
        let mut ended_at_ns = Some(now_ns());
        if let Some((end, diagnostics, session, notices)) = end {
            state.diagnostics = diagnostics;
            state.notices = notices;
            let missing = !end.is_finished || end.session_status != status;
            state.stored = Some(end);
            if missing && status == SessionStatus::Completed {
                status = SessionStatus::Incomplete;
            }
            // If the sink has recorded when the session ended, that time is used, so that the
            // session's summary and the manifest agree.
            ended_at_ns = session
                .and_then(|session| session.ended_at_ns)
                .or(ended_at_ns);
        }
        if let Some(session) = &mut state.session {
            session.status = status;
            session.ended_at_ns = ended_at_ns;
        }
    }

    /// Pauses or resumes sampling; the session continues during a pause.
    pub fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// Whether a session is running.
    pub fn is_tracking(&self) -> bool {
        self.state().sampler.is_some()
    }

    /// Whether no collector can be read any more, for example because the watched process ended.
    pub fn sources_are_gone(&self) -> bool {
        self.state().source_gone
    }

    /// The summary of the running session, or of the last session; `None` before the first session.
    pub fn session(&self) -> Option<SessionSummary> {
        let state = self.state();
        let mut session = state.session.clone()?;
        session.status = state.status_of(&session);
        Some(session)
    }

    /// The fields that all events of a session share, for the running session or, if none is
    /// running, for the last one; `None` before the first session.
    pub fn origin(&self) -> Option<Origin> {
        self.state().origin.clone()
    }

    /// The state of the sink, which writes the running session to disk; `None` when no session is
    /// running or events are not stored.
    pub fn sink_status(&self) -> Option<SinkStatus> {
        self.state().sink.as_ref().map(|sink| sink.status())
    }

    /// The sink directory of the running session or the last one; `None` before a directory could
    /// be opened, and when events are not stored.
    pub fn sink_directory(&self) -> Option<PathBuf> {
        let state = self.state();
        let running = state.sink.as_ref().map(|sink| sink.status());
        running.or_else(|| state.stored.clone())?.directory
    }

    /// Why the sink could not write the last session to its end; `None` if the sink could, if a
    /// session is running, or if events are not stored.
    pub fn storage_problem(&self) -> Option<String> {
        self.state().stored.as_ref()?.problem.clone()
    }

    /// The log messages of the sink since the last call of this function.
    pub fn take_notices(&self) -> Vec<String> {
        let mut state = self.state();
        let mut notices = std::mem::take(&mut state.notices);
        notices.extend(state.sink.iter().flat_map(|sink| sink.take_notices()));
        notices
    }

    /// Waits at most `patience` until all events recorded so far are on disk; returns whether all
    /// of them are.
    pub fn flush(&self, patience: Duration) -> bool {
        // The lock of the recorder's state is released before the wait for the disk, so that other
        // threads can go on recording.
        let sink = self.state().sink.clone();
        sink.is_none_or(|sink| sink.flush(patience))
    }

    /// Takes one sample of every collector, on the sampling thread. The number `generation`
    /// identifies the session for which the sampling thread was started; the samples are dropped if
    /// that session has ended.
    fn beat(&self, generation: u64) -> Beat {
        // While memory is short no sample is taken: a missing sample is only a sampling gap, but a
        // failed allocation in the recorder could end the program.
        if self.is_paused.load(Ordering::Relaxed) || is_short() {
            return Beat::GoOn;
        }
        let thresholds = self.options.alerts.then(|| self.state().thresholds.clone());
        let mut steps = Vec::new();
        {
            let mut channels = lock(&self.channels);
            for channel in channels.iter_mut() {
                steps.push(channel.step(thresholds.as_ref()));
            }
        }
        let gone = !steps.is_empty() && steps.iter().all(|step| step.gone);
        let mut alerts = Vec::new();
        let mut state = self.state();
        if state.generation != generation {
            return Beat::Last;
        }
        for step in steps {
            state.tally.add(&step.tally);
            for event in step.events {
                let alert = event.is_alert();
                let kept = state.keep(event);
                if alert {
                    alerts.push(kept);
                }
            }
        }
        let origin = state.origin.clone();
        state.source_gone = gone;
        drop(state);
        self.report_alerts(&alerts, origin.as_ref());
        if gone { Beat::Last } else { Beat::GoOn }
    }

    fn report_alerts(&self, alerts: &[Arc<TrackedEvent>], origin: Option<&Origin>) {
        if let (Some(listener), Some(origin)) = (&self.listener, origin) {
            for event in alerts {
                listener(event, origin);
            }
        }
    }

    /// Records an event that the watched program reports itself, with the counters read now.
    pub fn record(&self, event_type: &str, change: i64, context: &str, metadata: Map) {
        self.record_then(event_type, change, context, metadata, |_| ());
    }

    /// Records the event of an out-of-memory error, and returns the events for the out-of-memory
    /// bundle, the last of which is the recorded event. The argument `facts` has what is known
    /// about the failed allocation, such as its size.
    pub fn record_oom(&self, reason: &str, facts: Map) -> Vec<Map> {
        let mut metadata = Map::new();
        metadata.insert(metadata_keys::OOM_REASON, reason);
        if !facts.is_empty() {
            metadata.insert("oom", Value::Map(facts));
        }
        let context = format!("OOM detected ({reason})");
        // The sampling thread records further events meanwhile, so the bundle's events are copied
        // before the next event is recorded.
        self.record_then(
            EventType::Error.as_str(),
            0,
            &context,
            metadata,
            State::bundle_payloads,
        )
    }

    /// Records an event, calls `look` with the state of the recorder, and returns the result of
    /// `look`. No other event can be recorded before `look` has returned.
    fn record_then<R>(
        &self,
        event_type: &str,
        change: i64,
        context: &str,
        metadata: Map,
        look: impl FnOnce(&State) -> R,
    ) -> R {
        let mut event = self.event_now(event_type, context);
        if let Some(event) = &mut event {
            event.metadata = metadata;
            event.counters.allocator_change_bytes = Some(change);
        }
        let mut state = self.state();
        let origin = state.origin.clone();
        let kept = event.map(|event| state.keep(event));
        let seen = look(&state);
        drop(state);
        let alerts: Vec<_> = kept.into_iter().filter(|event| event.is_alert()).collect();
        self.report_alerts(&alerts, origin.as_ref());
        seen
    }

    /// Begins a phase of the program, such as `forward`, and records a `phase_enter` event; does
    /// nothing before the first session of the recorder.
    pub fn enter_phase(
        &self,
        name: &Text,
        thread: &PhaseThread,
        attributes: Option<&Map>,
    ) -> Option<Result<Boundary, PhaseError>> {
        self.boundary(attributes, |phases, owner| {
            phases.enter(owner, name, thread)
        })
    }

    /// Ends the phase with the id `scope_id` and records a `phase_exit` event; does nothing before
    /// the first session of the recorder.
    pub fn exit_phase(
        &self,
        scope_id: &Text,
        thread_id: i64,
        attributes: Option<&Map>,
    ) -> Option<Result<Boundary, PhaseError>> {
        self.boundary(attributes, |phases, owner| {
            phases.exit(owner, scope_id, thread_id)
        })
    }

    fn boundary(
        &self,
        attributes: Option<&Map>,
        cross: impl FnOnce(&mut PhaseStacks, &PhaseOwner) -> Result<Boundary, PhaseError>,
    ) -> Option<Result<Boundary, PhaseError>> {
        let mut event = self.event_now("phase", "");
        let mut state = self.state();
        let origin = state.origin.clone()?;
        let owner = PhaseOwner {
            session_id: origin.session_id.clone(),
            rank: origin.identity.rank.to_string().into(),
        };
        let boundary = match cross(&mut state.phases, &owner) {
            Ok(boundary) => boundary,
            Err(error) => return Some(Err(error)),
        };
        if let Some(mut event) = event.take() {
            let mut scope = boundary.scope.clone();
            if let Some(attributes) = attributes.filter(|attributes| !attributes.is_empty()) {
                scope.insert("attributes", Value::Map(attributes.clone()));
            }
            event.event_type = boundary.event_type.into();
            event.context = Some(Text::from(&*boundary.context));
            event
                .metadata
                .insert(metadata_keys::PHASE_SCOPE, Value::Map(scope));
            state.keep(event);
        }
        Some(Ok(boundary))
    }

    /// The events in the recorder's memory that match the query, oldest first.
    pub fn events(&self, query: &EventQuery) -> Vec<Arc<TrackedEvent>> {
        let state = self.state();
        let matching = state.history.iter().filter(|event| {
            let type_fits = query
                .event_type
                .as_ref()
                .is_none_or(|name| event.event_type == *name);
            let time_fits = query
                .since_s
                .is_none_or(|since| seconds(event.timestamp_ns) >= since);
            type_fits && time_fits && (!query.alerts_only || event.is_alert())
        });
        let mut events: Vec<_> = matching.cloned().collect();
        if let Some(last) = query.last {
            let keep = usize::try_from(last).unwrap_or(0);
            events.drain(..events.len().saturating_sub(keep));
        }
        events
    }

    /// The events in the recorder's memory, oldest first, in the form in which a sink writes them
    /// to disk.
    pub fn records(&self) -> Vec<Event> {
        let events = self.events(&EventQuery::default());
        let Some(origin) = self.origin() else {
            return Vec::new();
        };
        events.iter().map(|event| event.to_event(&origin)).collect()
    }

    /// Deletes the events in the recorder's memory and resets the counters of the statistics. The
    /// session continues.
    pub fn clear(&self) {
        let mut state = self.state();
        state.history.clear();
        state.tally = Tally::default();
    }

    /// Frees the memory that the recorder's queues of events have reserved beyond their current
    /// length.
    pub fn release_spare_memory(&self) {
        let mut state = self.state();
        state.history.shrink();
        if let Some(bundle) = &mut state.bundle {
            bundle.shrink();
        }
    }

    /// Sets the threshold of an alert; returns `false` when no threshold has the given name.
    pub fn set_threshold(&self, name: &str, value: f64) -> bool {
        self.state().thresholds.set(name, value)
    }

    fn new_session(&self) -> SessionSummary {
        let identity = &self.options.identity;
        SessionSummary {
            host: self.options.host.clone(),
            pid: self.options.pid,
            job_id: identity.job_id.clone(),
            rank: identity.rank,
            local_rank: identity.local_rank,
            world_size: identity.world_size,
            source: self.options.session_source.clone(),
            ..new_session(None)
        }
    }

    fn origin_of(&self, session: &SessionSummary) -> Origin {
        let milliseconds = (self.options.interval.as_secs_f64() * 1000.0).round_ties_even();
        Origin {
            session_id: session.session_id.clone(),
            identity: self.options.identity.clone(),
            pid: session.pid,
            host: session.host.clone(),
            sampling_interval_ms: whole(milliseconds),
        }
    }

    /// Makes an event with the counters read now, or with the counters of the last event when the
    /// collector is busy.
    fn event_now(&self, event_type: &str, context: &str) -> Option<TrackedEvent> {
        let event = self.with_channels(|channels| {
            let channel = channels.first_mut()?;
            Some(channel.event_now(event_type, context))
        });
        event.flatten().or_else(|| {
            let mut event = self.fallback_event(event_type)?;
            event.context = Some(context.into());
            Some(event)
        })
    }

    fn fallback_event(&self, event_type: &str) -> Option<TrackedEvent> {
        let state = self.state();
        let last = state.history.iter().next_back()?;
        let mut event = TrackedEvent::clone(last);
        event.timestamp_ns = now_ns();
        event.event_type = event_type.into();
        event.context = None;
        event.metadata = Map::new();
        event.counters.allocator_change_bytes = Some(0);
        Some(event)
    }

    /// Calls a function with the collectors; returns `None` when another thread is stuck in one of
    /// the collectors.
    fn with_channels<R>(&self, work: impl FnOnce(&mut Vec<Channel>) -> R) -> Option<R> {
        let deadline = Instant::now() + READING_PATIENCE;
        loop {
            match self.channels.try_lock() {
                Ok(mut channels) => return Some(work(&mut channels)),
                Err(TryLockError::Poisoned(poisoned)) => {
                    return Some(work(&mut poisoned.into_inner()));
                }
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_micros(200));
                }
                Err(TryLockError::WouldBlock) => return None,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
