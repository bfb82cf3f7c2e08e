//! Converts loaded sessions to the tracks of a run. A track contains the samples of one session of
//! one rank on one device.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use rayon::prelude::*;
use stormlog_format::classify::ExhaustedMemory;
use stormlog_format::{
    EventType, Map, Placeholders, Sample, SampleNumber, SampleReader, SessionStatus,
    SessionSummary, Text, Value, classify, metadata_keys, session_sources,
};

use super::end::{Facts, RankEnd};
use super::host_inspection::{self, HostInspection};
use super::ledger::Ledger;
use super::oom_cause;
use super::process::{Process, Role};
use super::run::{Program, Run};
use super::start::{id_of_run, program_of_start, run_id_of, start_of};
use super::track::{
    AllocatorSettings, Column, DeviceMemory, Framework, OomMark, PhaseSpan, RecordedBy, Track,
};
use super::windows::WindowEvidence;
use crate::columns::{EventRef, Events, Origin};
use crate::load::LoadedSession;
use crate::untrusted::bytes;

/// Maximum number of processes per run whose memory is tracked separately.
const MOST_PROCESSES: usize = 4096;
/// Maximum number of inspections of host memory that are kept per process; the latest ones are.
const MOST_INSPECTIONS: usize = 16;

/// Builds a run from the sessions of one job. Every rank and device of every session becomes a
/// track.
#[must_use]
pub fn run_of(sessions: &[&LoadedSession]) -> Run {
    let is_by_run = sessions.iter().any(|session| recorded_by_run(session));
    let recorder = if is_by_run {
        RecordedBy::Run
    } else {
        RecordedBy::Tracker
    };
    let parts: Vec<(Vec<Track>, Vec<Process>)> = sessions
        .par_iter()
        .map(|session| {
            let (mut tracks, processes) = tracks(&session.events);
            let start = start_of(session);
            let memory = start.as_ref().and_then(DeviceMemory::of_start);
            let allocator = start.as_ref().map(AllocatorSettings::of_start);
            for track in &mut tracks {
                track.thinned_until_ns = session.thinned_until_ns;
                track.device_memory = memory.filter(|_| track.device_id >= 0);
                track.recorder = recorder;
                track.allocator = allocator.clone().unwrap_or_default();
            }
            (tracks, processes)
        })
        .collect();
    let recorded_id = sessions.iter().find_map(|session| run_id_of(session));
    let id = id_of_run(recorded_id, sessions.iter().map(|session| &session.summary));
    let (ends, exhausted) = ends(sessions, is_by_run);
    let mut run = Run {
        id: id.map(|id| id.to_str_lossy().into_owned()),
        ends,
        program: program(sessions),
        ..Run::default()
    };
    for (tracks, processes) in parts {
        run.tracks.extend(tracks);
        let left = MOST_PROCESSES.saturating_sub(run.processes.len());
        run.processes.extend(processes.into_iter().take(left));
    }
    for (rank, pid, memory) in exhausted {
        mark_last(&mut run.tracks, rank, pid, memory);
    }
    run
}

/// Marks the last out-of-memory error of a process as the one that ended it.
fn mark_last(tracks: &mut [Track], rank: u32, pid: i64, memory: ExhaustedMemory) {
    let is_of_memory = |track: &&mut Track| {
        let is_host = memory == ExhaustedMemory::Host;
        (track.rank, track.pid, track.is_host()) == (rank, pid, is_host)
    };
    let tracks = tracks.iter_mut().filter(is_of_memory);
    let marks = tracks.flat_map(|track| &mut track.ooms);
    if let Some(last) = marks.max_by_key(|mark| mark.at_ns) {
        last.ended_process = true;
    }
}

/// Whether `stormlog run` recorded the session, inside or outside the program.
fn recorded_by_run(session: &LoadedSession) -> bool {
    let source = session.summary.source.to_str_lossy();
    let rest = source.strip_prefix(session_sources::RUN);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The memory that ran out when the process of this rank and pid ended.
type Exhausted = (u32, i64, ExhaustedMemory);

/// How the processes ended, and which of them an out-of-memory exception ended.
fn ends(sessions: &[&LoadedSession], is_by_run: bool) -> (Vec<RankEnd>, Vec<Exhausted>) {
    let mut facts: BTreeMap<(u32, i64), Facts> = BTreeMap::new();
    for session in sessions {
        let rank = u32::try_from(session.summary.rank).unwrap_or(u32::MAX);
        let key = (rank, session.summary.pid);
        facts.entry(key).or_default().add(session);
    }
    let mut exhausted = Vec::new();
    let ends = facts.into_iter().map(|((rank, pid), facts)| {
        let ended = facts.end(is_by_run);
        exhausted.extend(ended.exhausted.map(|memory| (rank, pid, memory)));
        RankEnd {
            rank,
            pid,
            at_ns: ended.at_ns,
            end: ended.end,
        }
    });
    (ends.collect(), exhausted)
}

impl LoadedSession {
    /// Creates a session for events that were not read from a file. The session's status is
    /// incomplete.
    #[must_use]
    pub fn of_events(events: &Events) -> Self {
        let first = events.get(0);
        let origin = first.map(EventRef::origin);
        let text =
            |read: fn(&Origin) -> &Text| origin.map_or_else(Text::default, |one| read(one).clone());
        Self {
            summary: SessionSummary {
                session_id: text(|one| &one.session_id),
                status: SessionStatus::Incomplete,
                started_at_ns: first.map_or(0, EventRef::timestamp_ns),
                ended_at_ns: None,
                host: text(|one| &one.host),
                pid: origin.map_or(-1, |one| one.pid),
                job_id: origin.and_then(|one| one.job_id.clone()),
                rank: origin.map_or(0, |one| one.rank),
                local_rank: origin.map_or(0, |one| one.local_rank),
                world_size: origin.map_or(1, |one| one.world_size),
                source: "events".into(),
                recorder: None,
            },
            events: events.clone(),
            sources: Vec::new(),
            damage: Vec::new(),
            thinned_until_ns: None,
        }
    }

    /// The time of the session's last event, in nanoseconds since 1970; `None` if it has no event.
    pub fn last_event_ns(&self) -> Option<i64> {
        let last = self.events.len().checked_sub(1)?;
        self.events.get(last).map(EventRef::timestamp_ns)
    }
}

fn program(sessions: &[&LoadedSession]) -> Program {
    let starts = sessions.iter().filter_map(|session| start_of(session));
    let mut programs = starts.filter_map(|metadata| program_of_start(&metadata));
    programs.next().unwrap_or_default()
}

/// Rank, device and session, which identify a track.
type Key = (i64, i64, Text);

/// Whether an event is a sample: a regular reading of the counters.
pub(super) fn is_sample(event: EventRef<'_>) -> bool {
    classify::is_sample(event.event_type())
}

/// Whether an event that is not a sample has current counters. Events about the recorder, phases
/// and processes repeat old counters and are not measurements.
fn is_measurement(event: EventRef<'_>) -> bool {
    !matches!(
        EventType::of(event.event_type()),
        Some(
            EventType::Start
                | EventType::Stop
                | EventType::CollectorDegraded
                | EventType::CollectorRecovered
                | EventType::PhaseEnter
                | EventType::PhaseExit
                | EventType::ProcessStart
                | EventType::ProcessExit
                | EventType::Exception
        )
    )
}

#[derive(Default)]
struct Tracks {
    /// Whether the session has samples; without samples, other events with counters are used
    /// instead.
    has_samples: bool,
    found: Vec<Track>,
    by_key: HashMap<Key, usize>,
    by_origin: HashMap<*const Origin, usize>,
    last: Option<(*const Origin, usize)>,
    processes: BTreeMap<i64, Process>,
    /// The phases that were entered and not left yet: for each track and scope, their indices in
    /// [`Track::phases`].
    open_phases: HashMap<(usize, Scope), Vec<usize>>,
    samples: SampleReader,
}

fn tracks(events: &Events) -> (Vec<Track>, Vec<Process>) {
    let mut all = Tracks {
        has_samples: events.iter().any(is_sample),
        ..Tracks::default()
    };
    for event in events.iter() {
        all.add(event);
    }
    (all.found, all.processes.into_values().collect())
}

impl Tracks {
    fn add(&mut self, event: EventRef<'_>) {
        let is_counted = if self.has_samples {
            is_sample(event)
        } else {
            is_measurement(event)
        };
        if is_counted {
            let counters = event.counters();
            let sample = match event.metadata_numbers() {
                Some(metadata) => self.samples.read_numbered(counters, metadata),
                None => self.samples.read_text(counters, &event.metadata_json()),
            };
            self.add_processes(event, &sample);
            self.track(event.origin()).push_sample(event, &sample);
        }
        match EventType::of(event.event_type()) {
            Some(EventType::PhaseEnter) => self.enter(event),
            Some(EventType::PhaseExit) => self.leave(event),
            Some(EventType::MemoryEvidence) => {
                let metadata = event.metadata();
                if let Some((pid, mut look)) = HostInspection::of(&metadata) {
                    look.at_ns = Some(event.timestamp_ns());
                    self.add_inspection(pid, look);
                } else if let Some(pid) = host_inspection::ended(&metadata) {
                    if let Some(process) = self.processes.get_mut(&pid) {
                        process.ended_ns = Some(event.timestamp_ns());
                    }
                } else if let Some(evidence) = WindowEvidence::of(&metadata) {
                    self.track(event.origin()).add_evidence(evidence);
                }
            }
            Some(EventType::MemoryLedger) => {
                let ledger = Ledger::of(event.timestamp_ns(), &event.metadata());
                let track = self.track(event.origin());
                // The last ledger that can be parsed is kept.
                track.ledger = ledger.or(track.ledger.take());
            }
            Some(EventType::ProcessStart) => self.start_process(event),
            Some(EventType::ProcessExit) => self.end_process(event),
            Some(EventType::Error) => {
                let metadata = event.metadata();
                if classify::is_oom(&EventType::Error.into(), &metadata) {
                    self.track(event.origin()).ooms.push(mark(event, &metadata));
                }
            }
            _ => {}
        }
    }

    fn track(&mut self, origin: &Origin) -> &mut Track {
        let index = self.index_of(origin);
        &mut self.found[index]
    }

    /// The index of the track of an origin in `found`.
    fn index_of(&mut self, origin: &Origin) -> usize {
        let address = std::ptr::from_ref(origin);
        let index = match self.last {
            Some((seen, index)) if seen == address => index,
            _ => self.find(origin, address),
        };
        self.last = Some((address, index));
        index
    }

    fn find(&mut self, origin: &Origin, address: *const Origin) -> usize {
        if let Some(index) = self.by_origin.get(&address) {
            return *index;
        }
        let key = (origin.rank, origin.device_id, origin.session_id.clone());
        let index = *self.by_key.entry(key).or_insert_with(|| {
            self.found.push(Track {
                rank: u32::try_from(origin.rank).unwrap_or(u32::MAX),
                device_id: origin.device_id,
                session_id: origin.session_id.to_str_lossy().into_owned(),
                host: origin.host.to_str_lossy().into_owned(),
                job_id: origin
                    .job_id
                    .as_ref()
                    .map(|job| job.to_str_lossy().into_owned()),
                pid: origin.pid,
                framework: Framework::of_collector(&origin.collector.to_str_lossy()),
                ..Track::default()
            });
            self.found.len() - 1
        });
        self.by_origin.insert(address, index);
        index
    }

    /// Opens a phase. A phase name is enough here, although stormlog 0.3.9 also requires a thread
    /// and a sequence number: if the phase were ignored, the extra memory of an evaluation would be
    /// reported as a problem.
    fn enter(&mut self, event: EventRef<'_>) {
        let metadata = event.metadata();
        let Some(PhaseBoundary { name, scope }) = PhaseBoundary::of(&metadata) else {
            return;
        };
        let track = self.index_of(event.origin());
        let phases = &mut self.found[track].phases;
        let open = self.open_phases.entry((track, scope)).or_default();
        open.push(phases.len());
        phases.push(PhaseSpan {
            name,
            outer: outer_phases(&metadata),
            start_ns: event.timestamp_ns(),
            end_ns: None,
        });
    }

    /// Ends a phase at the time of the event: the last open phase with the scope of the event.
    fn leave(&mut self, event: EventRef<'_>) {
        let Some(PhaseBoundary { scope, .. }) = PhaseBoundary::of(&event.metadata()) else {
            return;
        };
        let track = self.index_of(event.origin());
        let hashbrown::hash_map::Entry::Occupied(mut open) = self.open_phases.entry((track, scope))
        else {
            return;
        };
        if let Some(phase) = open.get_mut().pop() {
            self.found[track].phases[phase].end_ns = Some(event.timestamp_ns());
        }
        if open.get().is_empty() {
            open.remove();
        }
    }

    fn process(&mut self, pid: i64, origin: &Origin) -> Option<&mut Process> {
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&pid) {
            return None;
        }
        Some(self.processes.entry(pid).or_insert_with(|| Process {
            rank: u32::try_from(origin.rank).unwrap_or(u32::MAX),
            session_id: origin.session_id.to_str_lossy().into_owned(),
            program_pid: origin.pid,
            pid,
            role: if pid == origin.pid {
                Role::Program
            } else {
                Role::Subprocess
            },
            ..Process::default()
        }))
    }

    fn start_process(&mut self, event: EventRef<'_>) {
        let metadata = event.metadata();
        let Some(about) = metadata.object("process") else {
            return;
        };
        let Some(pid) = about.int("pid") else {
            return;
        };
        let text = |key: &str| Some(about.text(key)?.to_str_lossy().into_owned());
        if let Some(process) = self.process(pid, event.origin()) {
            process.name = text("name").unwrap_or_default();
            let role = text("role").map(|word| Role::parse(&word).unwrap_or_default());
            process.role = role.unwrap_or(process.role);
            // An earlier process with this pid may have exited; the process that starts now has
            // not.
            process.exited_ns = None;
        }
    }

    fn end_process(&mut self, event: EventRef<'_>) {
        let metadata = event.metadata();
        let about = metadata.object("process");
        let pid = about.and_then(|about| about.int("pid"));
        if let Some(process) = pid.and_then(|pid| self.processes.get_mut(&pid)) {
            process.exited_ns = Some(event.timestamp_ns());
        }
    }

    fn add_inspection(&mut self, pid: i64, look: HostInspection) {
        if let Some(process) = self.processes.get_mut(&pid) {
            if process.inspections.len() >= MOST_INSPECTIONS {
                process.inspections.remove(0);
            }
            process.inspections.push(look);
        }
    }

    fn add_processes(&mut self, event: EventRef<'_>, sample: &Sample) {
        for memory in &sample.processes {
            if let Some(process) = self.process(memory.pid, event.origin()) {
                process.t_ns.push(event.timestamp_ns());
                process.anonymous.push(memory.anonymous);
                process.shared.push(memory.shared);
            }
        }
    }
}

/// Creates an out-of-memory mark from an event, with the numbers of the failed request.
fn mark(event: EventRef<'_>, metadata: &Map) -> OomMark {
    let reason = metadata.text(metadata_keys::OOM_REASON);
    let request = metadata.object("oom");
    let number = |key: &str| bytes(request?, key);
    let counters = event.counters().known(Placeholders::of(metadata));
    let mut mark = OomMark {
        at_ns: event.timestamp_ns(),
        reason: reason
            .map(Text::to_str_lossy)
            .unwrap_or_default()
            .into_owned(),
        requested: number(metadata_keys::REQUESTED_BYTES),
        limit: number("limit_bytes"),
        free: number("free_bytes").or(counters.device_free_bytes),
        allocated: counters.allocator_allocated_bytes,
        reserved: counters.allocator_reserved_bytes,
        used: counters.device_used_bytes,
        is_caught: request.and_then(|request| request.get("caught")) == Some(&Value::Bool(true)),
        ..OomMark::default()
    };
    if let Some(request) = request {
        oom_cause::fill(&mut mark, request);
    }
    mark
}

/// What an event says about the phase that it enters or leaves.
struct PhaseBoundary {
    name: String,
    scope: Scope,
}

/// What identifies a phase between the events that enter and leave it.
#[derive(PartialEq, Eq, Hash)]
enum Scope {
    /// The recorded id of one pass through a phase. Two threads may be in phases of the same name.
    Id(Text),
    /// The name of the phase, when no id was recorded.
    Name(String),
}

impl PhaseBoundary {
    fn of(metadata: &Map) -> Option<Self> {
        let scope = metadata.object(metadata_keys::PHASE_SCOPE)?;
        let name = scope.get("name").or(scope.list("path").last())?.as_text()?;
        let name = (!name.is_blank()).then(|| name.to_str_lossy().into_owned())?;
        let id = scope.text("scope_id");
        let id = id.filter(|id| !id.is_blank()).cloned();
        Some(Self {
            scope: id.map_or_else(|| Scope::Name(name.clone()), Scope::Id),
            name,
        })
    }
}

/// The names of the phases around the one that an event enters, the outermost first.
fn outer_phases(metadata: &Map) -> Vec<String> {
    let scope = metadata.object(metadata_keys::PHASE_SCOPE);
    let path = scope.map_or(&[][..], |scope| scope.list("path"));
    let Some((_, outer)) = path.split_last() else {
        return Vec::new();
    };
    let names = outer.iter().filter_map(Value::as_text);
    let names = names.filter(|name| !name.is_blank());
    names.map(|name| name.to_str_lossy().into_owned()).collect()
}

impl Track {
    /// Keeps the new evidence unless the evidence kept so far has more windows in which memory
    /// grew. A search for the cause of a growth opens several evidence windows, and each event of
    /// the search contains the results of all its windows so far. So a later event of the same
    /// search replaces an earlier one.
    fn add_evidence(&mut self, evidence: WindowEvidence) {
        let known = self.evidence.as_ref().map_or(0, WindowEvidence::growing);
        if evidence.growing() >= known {
            self.evidence = Some(evidence);
        }
    }

    fn push_sample(&mut self, event: EventRef<'_>, sample: &Sample) {
        let interval_ns = event
            .origin()
            .sampling_interval_ms
            .saturating_mul(1_000_000);
        self.declared_interval_ns = self.declared_interval_ns.max(interval_ns);
        self.t_ns.push(event.timestamp_ns());
        let counters = &sample.counters;
        self.allocated.push(counters.allocator_allocated_bytes);
        self.reserved.push(counters.allocator_reserved_bytes);
        self.used.push(counters.device_used_bytes);
        self.free.push(counters.device_free_bytes);
        self.total.push(counters.device_total_bytes);
        let length = self.t_ns.len();
        for (number, value) in sample.numbers.known() {
            if let Some(column) = self.column_of(number) {
                column.push_as(length, value);
            }
        }
    }

    /// The column with a number of the samples; `None` for a number that no detector and no
    /// picture needs.
    fn column_of(&mut self, number: SampleNumber) -> Option<&mut Column> {
        Some(match number {
            SampleNumber::Own => &mut self.own,
            SampleNumber::Unassigned => &mut self.unassigned,
            SampleNumber::AllocatorReadNs => &mut self.allocator_read_ns,
            SampleNumber::AllocatorPeak => &mut self.peak,
            SampleNumber::Pinned => &mut self.pinned,
            SampleNumber::Step => &mut self.step,
            SampleNumber::Optimizer => &mut self.optimizer,
            SampleNumber::StepCount => &mut self.step_count,
            SampleNumber::HostAnonymous => &mut self.anonymous,
            SampleNumber::HostShared => &mut self.shared,
            SampleNumber::HostFile => return None,
        })
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
    fn a_placeholder_is_no_measurement() {
        let counters = Counters {
            allocator_allocated_bytes: Some(10),
            allocator_reserved_bytes: Some(10),
            device_used_bytes: Some(10),
            ..Counters::default()
        };
        let partial = br#"{"step": 1, "collector_partial_fields": ["device_used_bytes"]}"#;
        let whole = br#"{"step": 2, "collector_partial_fields": []}"#;
        let oom = br#"{"oom_reason": "x", "collector_partial_fields": ["device_used_bytes"]}"#;
        let events = [
            event(1, "sample", partial),
            event(2, "sample", whole),
            event(3, "sample", partial),
            event(4, "error", oom),
        ];
        let events = events.map(|event| Event { counters, ..event });
        let (tracks, _) = tracks(&Events::from_events(&events));
        let track = &tracks[0];
        let used = [0, 1, 2].map(|sample| track.used.get(sample));
        assert_eq!(used, [None, Some(10), None]);
        assert_eq!(track.reserved.get(0), Some(10));
        let mark = &track.ooms[0];
        assert_eq!((mark.used, mark.allocated), (None, Some(10)));
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
        let (tracks, _) = tracks(&Events::from_events(&events));
        let phases: Vec<(&str, i64, Option<i64>)> = tracks[0]
            .phases
            .iter()
            .map(|phase| (phase.name.as_str(), phase.start_ns, phase.end_ns))
            .collect();
        assert_eq!(
            phases,
            [("evaluation", 1, Some(3)), ("checkpoint", 4, None)]
        );
        let outer = tracks[0].phases.iter().map(|phase| phase.outer.as_slice());
        assert_eq!(outer.collect::<Vec<_>>(), [&[][..], &["train".to_owned()]]);
    }

    fn scope(name: &str, id: &str) -> Vec<u8> {
        format!(r#"{{"phase_scope": {{"name": "{name}", "scope_id": "{id}"}}}}"#).into()
    }

    #[test]
    fn phases_of_one_name_are_matched_by_their_scopes() {
        let events = [
            event(1, "phase_enter", &scope("load", "a")),
            event(2, "phase_enter", &scope("load", "b")),
            event(3, "phase_exit", &scope("load", "a")),
            event(4, "phase_exit", &scope("load", "unknown")),
            event(5, "sample", b"{}"),
        ];
        let (tracks, _) = tracks(&Events::from_events(&events));
        let ends: Vec<Option<i64>> = tracks[0].phases.iter().map(|one| one.end_ns).collect();
        assert_eq!(ends, [Some(3), None]);
    }

    /// The test would take about a minute if each exit searched through all phases.
    #[test]
    fn exits_without_an_enter_cost_no_more_than_other_events() {
        let count = 100_000;
        let named = |name: &str| format!(r#"{{"phase_scope": {{"name": "{name}"}}}}"#);
        let (known, unknown) = (named("known"), named("unknown"));
        let mut events: Vec<Event> = (0..count)
            .flat_map(|i| [(2 * i, "phase_enter"), (2 * i + 1, "phase_exit")])
            .map(|(at, kind)| event(at, kind, known.as_bytes()))
            .collect();
        events.extend((0..count).map(|i| event(3 * count + i, "phase_exit", unknown.as_bytes())));
        let (tracks, _) = tracks(&Events::from_events(&events));
        let phases = &tracks[0].phases;
        assert!(phases.len() == 100_000 && phases.iter().all(|one| one.end_ns.is_some()));
    }

    #[test]
    fn a_share_under_the_pid_of_another_namespace_is_hidden() {
        let start = event(1, "start", br#"{"device_memory": "coherent"}"#);
        let sample = |metadata| event(2, "sample", metadata);
        let run = |metadata| {
            let events = Events::from_events(&[start.clone(), sample(metadata)]);
            run_of(&[&LoadedSession::of_events(&events)])
        };
        let hidden = run(br#"{"unassigned_process_bytes": 7}"#);
        assert!(hidden.tracks[0].is_share_hidden());
        assert_eq!(hidden.tracks[0].device_memory, Some(DeviceMemory::Coherent));
        let known = run(br#"{"process_device_used_bytes": 7}"#);
        assert!(!known.tracks[0].is_share_hidden());
    }

    #[test]
    fn unknown_counters_stay_unknown() {
        let (tracks, _) = tracks(&Events::from_events(&[event(2, "sample", b"{}")]));
        assert_eq!((tracks[0].used.len(), tracks[0].used.get(0)), (1, None));
    }
}
