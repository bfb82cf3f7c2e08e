//! Analyzes a run that is being recorded: loads the events recorded so far and runs the detectors.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stormlog_analysis::timeline::Run;
use stormlog_analysis::{
    Choice, DiagnosedRun, Events, LoadedSession, OpenRun, RefreshError, TooLarge,
};
use stormlog_capture::record::Recorder;
use stormlog_export::alert::Subject;

use super::{Watched, sendable_text};
use crate::machine::on_this_machine;

/// Analyzes a recording again each time `look` is called, while the recording grows.
pub(super) struct Looker {
    source: Source,
    /// A pool of one thread for the detectors, which would otherwise run on all cores and slow down
    /// the watched program.
    pool: Option<rayon::ThreadPool>,
}

/// Where the analysis of a watched run reads the events from.
enum Source {
    /// The sinks below a directory.
    Sinks(Box<OpenRun>),
    /// The sink of a recorder, or the recorder's memory if it has no sink.
    Recorder {
        recorder: Arc<Recorder>,
        /// The sink of the recorder. The directory of the sink is known only after the sink was
        /// opened, because it may differ from the requested directory.
        sink: Option<Box<OpenRun>>,
    },
}

impl Looker {
    pub(super) fn new(watched: &Watched) -> Self {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .thread_name(|_| "stormlog-look".into())
            .start_handler(|_| lower_priority());
        Self {
            source: match watched {
                Watched::Sinks { root, rank } => {
                    Source::Sinks(Box::new(sinks_below(root.clone(), *rank)))
                }
                Watched::Recorder { recorder, .. } => Source::Recorder {
                    recorder: recorder.clone(),
                    sink: None,
                },
            },
            pool: pool.build().ok(),
        }
    }

    /// Returns the findings (`None` while nothing is recorded) and the processor time of the
    /// analysis.
    pub(super) fn look(&mut self) -> (Result<Option<DiagnosedRun>, TooLarge>, Duration) {
        let source = &mut self.source;
        let mut work = || {
            let (before, start) = (processor_time(), Instant::now());
            let found = source.look();
            // Processor time is measured and not elapsed time, because on a busy machine an
            // analysis mostly waits for a core.
            let cost = processor_time().zip(before);
            let cost = cost.map_or(start.elapsed(), |(after, before)| {
                after.saturating_sub(before)
            });
            (found, cost)
        };
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

impl Source {
    fn look(&mut self) -> Result<Option<DiagnosedRun>, TooLarge> {
        match self {
            Self::Sinks(run) => look_at(run),
            Self::Recorder { recorder, sink } if recorder.options().sink.is_some() => {
                let Some(directory) = recorder.sink_directory() else {
                    return Ok(None);
                };
                look_at(sink.get_or_insert_with(|| Box::new(sinks_below(directory, None))))
            }
            Self::Recorder { recorder, .. } => Ok(in_memory(recorder)),
        }
    }
}

fn sinks_below(root: PathBuf, rank: Option<i64>) -> OpenRun {
    let choice = Choice {
        rank,
        only_sinks: true,
        ..Choice::default()
    };
    OpenRun::new(vec![root], choice)
}

/// Reads the new events and diagnoses the newest run; `None` while no events were recorded.
fn look_at(run: &mut OpenRun) -> Result<Option<DiagnosedRun>, TooLarge> {
    match on_this_machine(|here| run.refresh(&|_| {}, here)) {
        Err(RefreshError::TooLarge(error)) => return Err(error),
        Err(RefreshError::Unread(..)) => return Ok(None),
        Ok(()) => {}
    }
    let mut sessions = run.loaded().iter().flat_map(|one| &one.sessions);
    let has_events = sessions.any(|session| !session.events.is_empty());
    Ok(has_events.then(|| run.diagnosed()))
}

fn in_memory(recorder: &Recorder) -> Option<DiagnosedRun> {
    let events = recorder.records();
    let summary = recorder.session().filter(|_| !events.is_empty())?;
    let session = LoadedSession {
        summary,
        events: Events::from_events(&events),
        sources: Vec::new(),
        damage: Vec::new(),
        thinned_until_ns: None,
    };
    Some(DiagnosedRun::of(vec![session], Vec::new()))
}

/// Describes a run (its id, program, host and job) for the alerts about it, with secrets redacted.
pub(super) fn subject_of(run: &Run, recording: Option<String>) -> Subject {
    let mut hosts = run.tracks.iter().map(|track| track.host.as_str());
    let job = run.tracks.iter().find_map(|track| track.job_id.as_deref());
    Subject {
        run_id: run.id.as_deref().map(sendable_text),
        program: run.program.shown_name().map(sendable_text),
        host: hosts.find(|host| !host.is_empty()).map(sendable_text),
        job_id: job.map(sendable_text),
        recording,
    }
}

/// The processor time that this thread has used; `None` if the kernel does not count it.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// Lowers the priority of this thread, so that the watched program gets the cores.
pub(super) fn lower_priority() {
    // On Linux, `setpriority` changes the priority of the calling thread only. If `setpriority`
    // fails, the thread keeps its normal priority.
    let _ = rustix::process::setpriority_process(None, 19);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_counts_work_and_not_waiting() {
        let Some(before) = processor_time() else {
            return;
        };
        std::thread::sleep(Duration::from_millis(300));
        let since = |then: Duration| processor_time().unwrap().saturating_sub(then);
        let waited = since(before);
        assert!(waited < Duration::from_millis(200), "{waited:?}");
        let start = Instant::now();
        let mut worked = Duration::ZERO;
        while worked < Duration::from_millis(50) {
            assert!(start.elapsed() < Duration::from_mins(1), "{worked:?}");
            worked = since(before + waited);
        }
    }
}
