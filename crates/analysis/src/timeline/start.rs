//! Reads what the event that begins a session records: the run id, the program and its command.

use stormlog_format::{Event, EventType, Map, SessionSummary, Text, Value, metadata_keys};

use super::run::Program;
use crate::load::LoadedSession;

/// The start event of a session is searched for among this many of its first events.
const FIRST_EVENTS: usize = 16;

/// What the first events of a session tell about the run that it belongs to.
pub(crate) struct Start {
    pub(crate) run_id: Option<Text>,
    pub(crate) program: Option<Program>,
    /// The device of the first event, -1 for host memory.
    pub(crate) device_id: i64,
}

impl Start {
    /// Reads the first of the given events; `None` without events.
    pub(crate) fn of(events: impl Iterator<Item = Event>) -> Option<Self> {
        let mut events = events.take(FIRST_EVENTS).peekable();
        let device_id = events.peek()?.device_id;
        let start = events.find(|event| EventType::Start.is(event.event_type.as_bytes()));
        let metadata = start.map(|start| start.metadata).unwrap_or_default();
        Some(Self::of_metadata(&metadata, device_id))
    }

    pub(crate) fn of_session(session: &LoadedSession) -> Option<Self> {
        let device_id = session.events.get(0)?.origin().device_id;
        let metadata = start_of(session).unwrap_or_default();
        Some(Self::of_metadata(&metadata, device_id))
    }

    fn of_metadata(metadata: &Map, device_id: i64) -> Self {
        Self {
            run_id: run_id_of_start(metadata),
            program: program_of_start(metadata),
            device_id,
        }
    }
}

/// The metadata of the event that begins a session, which describes the program and the device;
/// `None` when no such event is among the first events.
pub(super) fn start_of(session: &LoadedSession) -> Option<Map> {
    let mut first = session.events.iter().take(FIRST_EVENTS);
    let start = first.find(|event| EventType::Start.is(event.event_type()))?;
    Some(start.metadata())
}

/// The id of a run with the given sessions: the id that was recorded, or else the job id, or else
/// the id of the first session. All ranks of a run have the same recorded id and job id.
pub fn id_of_run<'s>(
    recorded: Option<Text>,
    sessions: impl IntoIterator<Item = &'s SessionSummary>,
) -> Option<Text> {
    let mut sessions: Vec<&SessionSummary> = sessions.into_iter().collect();
    sessions.sort_by_key(|session| (session.started_at_ns, &session.session_id));
    let job = || {
        let mut jobs = sessions.iter().filter_map(|one| one.job_id.as_ref());
        jobs.find(|job| !job.is_blank()).cloned()
    };
    let first = || Some(sessions.first()?.session_id.clone());
    recorded.or_else(job).or_else(first)
}

/// The id of the run that a session belongs to, if recorded.
#[must_use]
pub fn run_id_of(session: &LoadedSession) -> Option<Text> {
    run_id_of_start(&start_of(session)?)
}

/// The run id in the metadata of the event that begins a session, if recorded.
pub fn run_id_of_start(metadata: &Map) -> Option<Text> {
    let of_host = metadata.object("run");
    let of_host = of_host.and_then(|run| run.get("id"));
    let id = of_host
        .or_else(|| metadata.get(metadata_keys::RUN_ID))?
        .as_text()?;
    (!id.is_blank()).then(|| id.clone())
}

/// The program named in the metadata of the start event of a host memory session.
pub(super) fn program_of_start(metadata: &Map) -> Option<Program> {
    let run = metadata.object("run")?;
    let text = |key: &str| Some(run.text(key)?.to_str_lossy().into_owned());
    let command = run.list("command").iter().filter_map(Value::as_text);
    Some(Program {
        name: text("program"),
        run_name: text("name").filter(|name| !name.trim().is_empty()),
        command: command
            .map(|word| word.to_str_lossy().into_owned())
            .collect(),
        commit: text("git_commit"),
    })
}

/// The name of the program, if one of the given sessions records it.
pub(crate) fn program_name<'s>(
    sessions: impl IntoIterator<Item = &'s LoadedSession>,
) -> Option<Text> {
    let name = |metadata: Map| {
        let run = metadata.object("run")?;
        Some(run.text("program")?.clone())
    };
    sessions.into_iter().filter_map(start_of).find_map(name)
}
