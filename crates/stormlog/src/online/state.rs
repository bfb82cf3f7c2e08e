//! The current state of a watched run, from which metrics are made for servers and receivers.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stormlog_analysis::detect::{Diagnosis, Kind, Severity};
use stormlog_capture::collect::nvml;
use stormlog_capture::record::{EventQuery, Recorder};
use stormlog_capture::store::host_name;
use stormlog_export::levels::{DeviceId, Labels, Metric, Number};
use stormlog_export::recordings::session_labels;
use stormlog_export::{Delivery, Levels, Recordings};
use stormlog_format::Event;

/// How many of the last events in a recorder's memory are read for the metrics. The number is large
/// enough that several of these events belong to each device.
const LAST_EVENTS: i64 = 512;

/// The recording about which alerts and metrics are sent.
pub(crate) enum Watched {
    /// The sinks (directories to which recorders write events) below a directory. If a `rank` is
    /// given, only its events are analyzed.
    Sinks { root: PathBuf, rank: Option<i64> },
    /// A recorder that runs in this process.
    Recorder {
        recorder: Arc<Recorder>,
        /// Whether the GPU memory of each process is read from the driver and added to the metrics.
        /// True if whole GPUs are recorded, because such a recording has no values per process.
        lists_processes: bool,
    },
}

/// What is known about a watched run: its recordings, the latest findings, and the queues from
/// which alerts and metrics are sent.
pub(crate) struct State {
    watched: Watched,
    pub(super) alerts: Option<Arc<Delivery>>,
    pub(super) otlp: Option<Arc<Delivery>>,
    recordings: Mutex<Recordings>,
    /// How many findings of each kind and severity the last analysis found; `None` before the first
    /// analysis.
    findings: Mutex<Option<Vec<(Kind, Severity, i64)>>>,
    problem: Mutex<Option<String>>,
}

impl State {
    pub(super) fn new(
        watched: Watched,
        alerts: Option<Arc<Delivery>>,
        otlp: Option<Arc<Delivery>>,
    ) -> Self {
        Self {
            watched,
            alerts,
            otlp,
            recordings: Mutex::default(),
            findings: Mutex::default(),
            problem: Mutex::default(),
        }
    }

    /// The path of the recording as it is sent in alerts, with secrets redacted.
    pub(super) fn recording(&self) -> Option<String> {
        let path = match &self.watched {
            Watched::Sinks { root, .. } => Some(root.clone()),
            Watched::Recorder { recorder, .. } => recorder.sink_directory(),
        };
        path.map(|path| super::sendable_text(&path.display().to_string()))
    }

    /// The current values of all metrics of the run: memory, numbers of findings, and numbers of
    /// sent alerts.
    pub(crate) fn levels(&self, now_ns: i64) -> Levels {
        let mut levels = Levels::default();
        let mut recordings = lock(&self.recordings);
        match &self.watched {
            Watched::Sinks { root, .. } => recordings.read_below(root, now_ns, &mut levels),
            Watched::Recorder {
                recorder,
                lists_processes,
            } => {
                of_recorder(recorder, &mut recordings, now_ns, &mut levels);
                if *lists_processes {
                    add_processes(now_ns, &mut levels);
                }
            }
        }
        for (kind, severity, count) in lock(&self.findings).iter().flatten() {
            let labels = Labels::new()
                .with("kind", kind.as_str())
                .with("severity", severity.as_str());
            levels.set(Metric::Findings, labels, Number::Int(*count), now_ns);
        }
        for (to, delivery) in [("alert", &self.alerts), ("otlp", &self.otlp)] {
            if let Some(delivery) = delivery {
                let delivered = delivery.delivered();
                levels.add_deliveries(to, delivered.sent, delivered.dropped, now_ns);
            }
        }
        levels
    }

    /// Stores how many findings of each kind and severity an analysis found.
    pub(super) fn keep_findings(&self, diagnosis: &Diagnosis) {
        let findings = diagnosis.findings();
        let mut counts = Vec::new();
        for kind in Kind::ALL {
            for severity in [Severity::Warning, Severity::Critical] {
                let of_both = findings
                    .iter()
                    .filter(|finding| finding.kind == kind && finding.severity == severity);
                let count = i64::try_from(of_both.count()).unwrap_or(i64::MAX);
                counts.push((kind, severity, count));
            }
        }
        *lock(&self.findings) = Some(counts);
    }

    pub(super) fn keep_problem(&self, problem: String) {
        *lock(&self.problem) = Some(problem);
    }

    pub(super) fn take_problem(&self) -> Option<String> {
        lock(&self.problem).take()
    }
}

fn of_recorder(recorder: &Recorder, recordings: &mut Recordings, now_ns: i64, levels: &mut Levels) {
    let (Some(session), Some(origin)) = (recorder.session(), recorder.origin()) else {
        return;
    };
    for gpu in nvml::gpus().unwrap_or_default() {
        recordings.know_device(&session.session_id, i64::from(gpu.index), gpu.uuid);
    }
    let query = EventQuery {
        last: Some(LAST_EVENTS),
        ..EventQuery::default()
    };
    let events = recorder.events(&query);
    let events: Vec<Event> = events.iter().map(|event| event.to_event(&origin)).collect();
    recordings.add_latest(&events, now_ns, levels);
    let statistics = recorder.device_statistics(None);
    let count = |key: &str| statistics.get(key).and_then(stormlog_format::Value::as_int);
    let kept = count("total_events").unwrap_or(0);
    let left = count("history_dropped_events").unwrap_or(0);
    let dropped = recorder.sink_status().map_or(0, |sink| sink.dropped_events);
    let dropped = i64::try_from(dropped).unwrap_or(i64::MAX);
    levels.add_counts(
        &session_labels(&session),
        kept.saturating_add(left),
        dropped,
        now_ns,
    );
}

/// Adds a metric for each process that uses a GPU of this machine: the GPU memory of the process.
fn add_processes(now_ns: i64, levels: &mut Levels) {
    let host = host_name();
    for gpu in nvml::gpus().unwrap_or_default() {
        let device = DeviceId {
            uuid: Some(gpu.uuid),
        };
        for share in nvml::shares(gpu.index).unwrap_or_default() {
            let bytes = i64::try_from(share.bytes).unwrap_or(i64::MAX);
            let share = (share.pid, bytes);
            levels.add_share(
                &host.to_str_lossy(),
                &device,
                i64::from(gpu.index),
                share,
                now_ns,
            );
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
