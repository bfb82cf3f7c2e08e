//! Watches a run while it is being recorded, outside of the recorded program: analyzes it
//! regularly, and sends alerts and metrics. Analyzing and sending run on a thread of low priority,
//! so that neither a long analysis nor a slow receiver affects the recorded program.

mod look;
mod state;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use stormlog_analysis::DiagnosedRun;
use stormlog_capture::clock::now_ns;
use stormlog_export::confirmation::next_look;
use stormlog_export::{
    Address, AlertFormat, Confirmation, Delivered, Delivery, Policy, alert, otlp,
};
use stormlog_export::{Alert, prometheus};
use stormlog_format::{counted, grouped};
use stormlog_redact::redacted_str;

use crate::write_whole;
use look::Looker;
pub(crate) use state::{State, Watched};

/// When the recorded program has ended, `stormlog` waits at most this time for alerts that are
/// being sent. If no alert is being sent, `stormlog` does not wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// When the recorded program has ended, `stormlog` waits at most this time for metrics that are
/// being sent. This time is shorter than the one for alerts, because the receiver gets newer
/// metrics from the next run.
const METRICS_PATIENCE: Duration = Duration::from_millis(250);

/// The first metrics are sent at the latest when the run has been watched for this time. The time
/// is short, so that a short run sends metrics too.
const FIRST_METRICS: Duration = Duration::from_secs(1);

/// The address to which alerts are sent, and the format in which they are sent.
#[derive(Clone, Debug)]
pub(crate) struct Alerts {
    pub(crate) address: Address,
    pub(crate) format: AlertFormat,
}

/// The receiver of metrics in the OpenTelemetry protocol (OTLP). The HTTP headers of the requests
/// to the receiver may contain a secret.
#[derive(Clone)]
pub(crate) struct Otlp {
    pub(crate) address: Address,
    pub(crate) headers: Vec<(String, String)>,
}

impl std::fmt::Debug for Otlp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Otlp({})", self.address)
    }
}

/// Where alerts and metrics about a run are sent, and how often.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    pub(crate) alerts: Option<Alerts>,
    /// The run is not analyzed before it has been watched for this long.
    pub(crate) look_after: Duration,
    pub(crate) metrics_file: Option<PathBuf>,
    pub(crate) otlp: Option<Otlp>,
    pub(crate) interval: Duration,
}

impl Targets {
    fn is_empty(&self) -> bool {
        self.alerts.is_none() && self.metrics_file.is_none() && self.otlp.is_none()
    }
}

/// The state of the recorded program when `stormlog` stops watching the run. If the program failed
/// and alerts are sent, the run is analyzed once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramEnd {
    /// The program succeeded, or it still runs.
    Fine,
    /// The program failed, possibly because memory ran out.
    Failed,
}

/// A handle to the thread that watches a run: analyzes it and sends alerts and metrics.
pub(crate) struct Online {
    stop: Sender<ProgramEnd>,
    done: Receiver<()>,
    state: Arc<State>,
    targets: Targets,
}

impl Online {
    /// Starts to watch a run. `is_asked` is true if a server of this process answers requests for
    /// the metrics of the run. Returns `None` if `is_asked` is false and the user asked neither for
    /// alerts nor for metrics.
    pub(crate) fn start(
        targets: Targets,
        watched: Watched,
        is_asked: bool,
    ) -> std::io::Result<Option<Self>> {
        if targets.is_empty() && !is_asked {
            return Ok(None);
        }
        let deliver = |address: &Address, kind, headers, policy| {
            Delivery::start(address.clone(), kind, headers, policy).map(Arc::new)
        };
        let alerts = targets.alerts.as_ref().map(|alerts| {
            let headers = Vec::new();
            deliver(
                &alerts.address,
                alert::CONTENT_TYPE,
                headers,
                Policy::ALERTS,
            )
        });
        let otlp = targets.otlp.as_ref().map(|otlp| {
            let headers = otlp.headers.clone();
            deliver(&otlp.address, otlp::CONTENT_TYPE, headers, Policy::METRICS)
        });
        let looker = Looker::new(&watched);
        let state = Arc::new(State::new(watched, alerts.transpose()?, otlp.transpose()?));
        let (stop, stopped) = channel();
        let (finished, done) = channel();
        let work = Work {
            targets: targets.clone(),
            state: state.clone(),
            started: Instant::now(),
            started_ns: now_ns(),
            confirmation: Confirmation::default(),
            looker,
            file_problem: None,
        };
        std::thread::Builder::new()
            .name("stormlog-online".into())
            .spawn(move || {
                work.work(&stopped);
                let _ = finished.send(());
            })?;
        Ok(Some(Self {
            stop,
            done,
            state,
            targets,
        }))
    }

    /// The current state of the run, from which a server answers requests for metrics.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.clone()
    }

    /// Stops watching. For at most two seconds, keeps sending the alerts and metrics that wait in
    /// the queues; then warns about those that were not delivered.
    pub(crate) fn finish(self, end: ProgramEnd, warn: &mut dyn FnMut(&str)) {
        let deadline = Instant::now() + PATIENCE;
        let left = || deadline.saturating_duration_since(Instant::now());
        let _ = self.stop.send(end);
        let looks_again = end == ProgramEnd::Failed && self.targets.alerts.is_some();
        if looks_again || self.targets.metrics_file.is_some() {
            // Waits for the last analysis. If the analysis takes longer than `PATIENCE`, as for a
            // large recording, its findings are not sent.
            let _ = self.done.recv_timeout(left());
        }
        if let (Some(delivery), Some(alerts)) = (&self.state.alerts, &self.targets.alerts) {
            let delivered = delivery.finish(left());
            report("alert", &alerts.address, &delivered, warn);
        }
        if let (Some(delivery), Some(otlp)) = (&self.state.otlp, &self.targets.otlp) {
            let delivered = delivery.finish(left().min(METRICS_PATIENCE));
            report("OTLP request", &otlp.address, &delivered, warn);
        }
        if let Some(problem) = self.state.take_problem() {
            warn(&problem);
        }
    }
}

fn report(what: &str, address: &Address, delivered: &Delivered, warn: &mut dyn FnMut(&str)) {
    if delivered.dropped == 0 {
        return;
    }
    let problem = delivered.problem.as_deref().unwrap_or("too many at once");
    let dropped = counted(delivered.dropped, what);
    let sent = grouped(delivered.sent);
    warn(&format!(
        "{dropped} not delivered to {address}: {problem} ({sent} sent)"
    ));
}

/// The data of the thread that watches a run: where it sends alerts and metrics, and what it found
/// so far.
struct Work {
    targets: Targets,
    state: Arc<State>,
    started: Instant,
    started_ns: i64,
    confirmation: Confirmation,
    looker: Looker,
    file_problem: Option<String>,
}

impl Work {
    fn work(mut self, stopped: &Receiver<ProgramEnd>) {
        look::lower_priority();
        let exports = self.targets.metrics_file.is_some() || self.targets.otlp.is_some();
        let mut look_at = self.started + self.targets.look_after;
        let mut export_at = self.started + FIRST_METRICS.min(self.targets.interval);
        let end = loop {
            let next = if exports {
                look_at.min(export_at)
            } else {
                look_at
            };
            let wait = next.saturating_duration_since(Instant::now());
            match stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(end) => break end,
                Err(RecvTimeoutError::Disconnected) => break ProgramEnd::Fine,
            }
            let now = Instant::now();
            if exports && now >= export_at {
                self.export();
                export_at = now + self.targets.interval;
            }
            if now >= look_at {
                let cost = self.look(false);
                look_at = Instant::now() + next_look(self.started.elapsed(), cost);
            }
        };
        if end == ProgramEnd::Failed && self.targets.alerts.is_some() {
            self.look(true);
        }
        if let Some(file) = &self.targets.metrics_file {
            // The metrics file is removed at the end, because its old values would look like
            // current ones.
            let _ = std::fs::remove_file(file);
        }
        if let Some(problem) = self.file_problem.take() {
            self.state.keep_problem(problem);
        }
    }

    fn export(&mut self) {
        let levels = self.state.levels(now_ns());
        if let Some(file) = &self.targets.metrics_file {
            let written = write_whole(file, prometheus::render(&levels).as_bytes());
            self.file_problem = written
                .err()
                .map(|error| format!("cannot write the metrics to '{}': {error}", file.display()));
        }
        if let Some(delivery) = &self.state.otlp {
            delivery.offer(otlp::render(&levels, self.started_ns));
        }
    }

    /// Analyzes what was recorded so far, or the whole run after its end; returns the processor
    /// time of the analysis.
    fn look(&mut self, is_end: bool) -> Duration {
        let (found, cost) = self.looker.look();
        match found {
            Ok(Some(look)) => self.judge(&look, is_end),
            Ok(None) => {}
            Err(problem) => {
                let problem = format!("no alerts are sent: {problem}");
                self.state.keep_problem(problem);
            }
        }
        cost
    }

    fn judge(&mut self, look: &DiagnosedRun, is_end: bool) {
        self.state.keep_findings(&look.diagnosis);
        let confirmed = if is_end {
            self.confirmation.at_end(&look.diagnosis)
        } else {
            self.confirmation.confirm(&look.diagnosis)
        };
        let (Some(delivery), Some(alerts)) = (&self.state.alerts, &self.targets.alerts) else {
            return;
        };
        let subject = look::subject_of(&look.timeline, self.state.recording());
        for finding in confirmed {
            let alert = Alert {
                subject: &subject,
                finding,
                at_ns: now_ns(),
            };
            delivery.offer(alert.render(alerts.format));
        }
    }
}

/// Redacts secrets in a text of a recording before the text is sent to another machine.
pub(super) fn sendable_text(text: &str) -> String {
    redacted_str(text).into_owned()
}
