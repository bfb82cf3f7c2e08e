//! What a diagnosis recorded: the sessions, and the samples of the device or process that the
//! summary describes.

use stormlog_analysis::{Events, Loaded, LoadedSession};
use stormlog_format::{Counters, EventType, Map, SessionSummary, Text, classify, metadata_keys};

/// Whether the recording of a diagnosis is complete, and if not, why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// The requested duration has passed, or the diagnosed process or command ended before that.
    #[default]
    Complete,
    /// The recording ended early. Contains the reason.
    CutShort(String),
    /// The diagnosed command failed, or what was requested could not be recorded. Contains a
    /// description of the failure.
    Failed(String),
}

/// The data that a diagnosis recorded, from which the files of its bundle are computed.
#[derive(Debug, Default)]
pub struct Seen {
    /// The recorded sessions with their events.
    pub recorded: Vec<Loaded>,
    /// The index of the GPU that the user requested; `None` if the user requested none.
    pub device: Option<i64>,
    /// The number of processes that the kernel's OOM killer ended during the recording.
    pub oom_kills: u64,
    /// The number of out-of-memory errors that the framework counted (PyTorch's `num_ooms`); there
    /// may be no events for them.
    pub counted_ooms: u64,
    /// The used share of the control group's memory limit, from 0 to 1; `None` if the share is
    /// unknown or the limit is not below the memory of the machine.
    pub group_utilization: Option<f64>,
    /// Whether the timeline of samples is written; a diagnosis with only one sample has no
    /// timeline.
    pub has_window: bool,
    /// How the recording ended.
    pub ending: Ending,
}

/// The memory counters of a device or process at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) timestamp_ns: i64,
    pub(super) counters: Counters,
}

/// The device or process that `diagnostic_summary.json` describes, with its samples (`points`).
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) backend: String,
    pub(super) points: Vec<Point>,
    pub(super) session: Option<SessionSummary>,
}

impl Seen {
    /// Makes a session in the form of a loaded recording from events in memory; used when the
    /// events were not written to a sink.
    pub fn of_events(session: SessionSummary, events: &[stormlog_format::Event]) -> Loaded {
        Loaded {
            sessions: vec![LoadedSession {
                summary: session,
                events: Events::from_events(events),
                sources: Vec::new(),
                damage: Vec::new(),
                thinned_until_ns: None,
            }],
            ..Loaded::default()
        }
    }

    fn sessions(&self) -> impl Iterator<Item = &LoadedSession> {
        self.recorded.iter().flat_map(|loaded| &loaded.sessions)
    }

    /// The number of out-of-memory errors during the recording, including processes that the kernel
    /// killed for lack of memory.
    pub(super) fn ooms(&self) -> u64 {
        let error = Text::from(EventType::Error);
        let events = self.sessions().flat_map(|session| session.events.iter());
        let recorded = events.filter(|event| {
            EventType::Error.is(event.event_type()) && {
                let metadata = event.metadata();
                classify::is_oom(&error, &metadata) && !is_kill(&metadata)
            }
        });
        let recorded = u64::try_from(recorded.count()).unwrap_or(u64::MAX);
        recorded
            .max(self.counted_ooms)
            .saturating_add(self.oom_kills)
    }

    /// The device or process that the summary describes. A GPU is preferred to a process; of
    /// several GPUs the requested one is preferred, and then the one with the most samples.
    pub(super) fn subject(&self) -> Subject {
        let mut best: Option<(Subject, (bool, bool, usize))> = None;
        for session in self.sessions() {
            for device in devices(&session.events) {
                let subject = Subject::of(session, device);
                let rank = (
                    device >= 0,
                    self.device == Some(device),
                    subject.points.len(),
                );
                if best.as_ref().is_none_or(|(_, known)| rank > *known) {
                    best = Some((subject, rank));
                }
            }
        }
        best.map_or_else(
            || Subject {
                backend: "cpu".into(),
                points: Vec::new(),
                session: self.sessions().next().map(|first| first.summary.clone()),
            },
            |(subject, _)| subject,
        )
    }
}

/// Whether an error event records that the kernel killed a process; such kills are already counted
/// in `oom_kills`.
fn is_kill(metadata: &Map) -> bool {
    let reason = metadata.text(metadata_keys::OOM_REASON);
    reason.is_some_and(|reason| *reason == classify::KERNEL_OOM_KILL)
}

fn devices(events: &Events) -> Vec<i64> {
    let mut devices: Vec<i64> = events
        .iter()
        .map(|event| event.origin().device_id)
        .collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

impl Subject {
    fn of(session: &LoadedSession, device: i64) -> Self {
        let mut backend = None;
        let mut points = Vec::new();
        for event in session.events.iter() {
            if event.origin().device_id != device || !classify::is_sample(event.event_type()) {
                continue;
            }
            backend.get_or_insert_with(|| {
                let named = event.metadata();
                let named = named.text("backend").cloned();
                let fallback = if device < 0 { "cpu" } else { "cuda" };
                named.map_or_else(|| fallback.to_owned(), |name| name.to_string())
            });
            points.push(Point {
                timestamp_ns: event.timestamp_ns(),
                counters: event.counters(),
            });
        }
        Self {
            backend: backend.unwrap_or_else(|| "cpu".into()),
            points,
            session: Some(session.summary.clone()),
        }
    }
}

impl Point {
    /// The used share of the device's memory, from 0 to 1; `None` if the used or the total memory
    /// is unknown.
    pub(super) fn utilization(&self) -> Option<f64> {
        let counters = &self.counters;
        let used = counters
            .device_used_bytes
            .max(counters.allocator_allocated_bytes)?;
        let total = counters.device_total_bytes.filter(|total| *total > 0)?;
        Some(used as f64 / total as f64)
    }

    /// The share of the memory reserved by the allocator that is unused, from 0 to 1.
    pub(super) fn fragmentation(&self) -> Option<f64> {
        let counters = &self.counters;
        let reserved = counters
            .allocator_reserved_bytes
            .filter(|bytes| *bytes > 0)?;
        Some(counters.allocator_inactive_bytes? as f64 / reserved as f64)
    }
}
