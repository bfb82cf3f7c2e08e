//! Records the host memory of a run, its processes, its start and its end.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use stormlog_capture::collect::tree::TreeCollector;
use stormlog_capture::oom::Retention;
use stormlog_capture::record::{RecordOptions, Recorder, StartError};
use stormlog_capture::store::{SinkConfig, Thinning};
use stormlog_format::classify::device_oom_reason;
use stormlog_format::{
    DistributedIdentity, EventType, Map, SinkNames, Value, part_folders, session_sources,
};

use super::inspect::Inspections;
use super::{Ended, Exception, Plan, free_name, last_words};
use crate::flight_recorder::{FlightRecorder, processes_with_bundles};
use crate::recording::record_options;

/// How many of the last events are saved in the OOM bundle that is written when host memory runs
/// out.
const BUNDLE_EVENTS: usize = 600;

/// How many readings of memory may wait in the queue of the thread that detects growing memory;
/// this thread empties the queue several times a second.
const WAITING_LEVELS: usize = 64;

pub(super) struct HostRecording {
    recorder: Arc<Recorder>,
    started: jiff::Timestamp,
    inspections: Option<Inspections>,
}

impl HostRecording {
    pub(super) fn start(
        plan: &Plan<'_>,
        pid: u32,
        identity: &DistributedIdentity,
        inbox: &Path,
        start_metadata: Map,
    ) -> Result<Self, StartError> {
        let started = jiff::Timestamp::now();
        let name = part_folders::of_host(identity);
        let sink = SinkConfig {
            names: SinkNames::Host,
            write_rollups: false,
            thinning: Some(Thinning::DEFAULT),
            ..SinkConfig::new(free_name(plan.root, &name))
        };
        let (sender, levels) = sync_channel(WAITING_LEVELS);
        let tree = TreeCollector::new(pid)
            .heard_by(sender)
            .counting_steps_in(inbox.to_path_buf());
        let source = session_sources::RUN_HOST;
        let options = RecordOptions {
            bundle_events: Some(BUNDLE_EVENTS),
            sink: Some(sink),
            alerts: false,
            start_metadata,
            ..record_options(source, pid, identity.clone(), plan.interval)
        };
        let recorder = Recorder::new(options, vec![Box::new(tree)], None);
        recorder.start()?;
        // If the thread that inspects growing processes cannot be started, the host memory is
        // recorded anyway.
        let inspections = Inspections::start(levels, inbox.to_path_buf(), recorder.clone());
        Ok(Self {
            recorder,
            started,
            inspections: inspections.ok(),
        })
    }

    pub(super) fn finish(
        self,
        root: &Path,
        ended: &Ended,
        exceptions: &[Exception],
        reached_python: bool,
        warn: &mut dyn FnMut(&str),
    ) {
        if let Some(inspections) = self.inspections {
            inspections.finish();
        }
        for exception in exceptions {
            let mut metadata = Map::new();
            metadata.insert("exception", Value::Map(exception.to_map()));
            self.recorder.record(
                EventType::Exception.as_str(),
                0,
                &exception.name(),
                metadata,
            );
        }
        let mut bundles = FlightRecorder::of_host(root, Retention::DEFAULT);
        // The device recorders inside these processes have written bundles already, but none for
        // errors of host memory.
        let recorded = processes_with_bundles(root, self.started);
        for exception in exceptions.iter().filter(|one| !one.is_of_child()) {
            let facts = exception.out_of_memory();
            let facts = facts.unwrap_or_else(|| exception.facts());
            let is_of_device = device_oom_reason(&facts).is_some();
            if is_of_device && recorded.contains(&exception.pid) {
                continue;
            }
            let request = exception.failed_request();
            let written = bundles.of_exception(&self.recorder, &facts, exception.pid, request);
            if let Err(error) = written {
                warn(&format!(
                    "cannot write the bundle of an out-of-memory error: {error}"
                ));
            }
        }
        last_words::tell_recorder(&self.recorder, ended);
        let mut metadata = Map::new();
        metadata.insert("end", Value::Map(ended.to_map()));
        metadata.insert("reached_python", Value::Bool(reached_python));
        self.recorder.stop_with(ended.session_status(), &metadata);
        if let Some(problem) = self.recorder.storage_problem() {
            warn(&format!("the recording is incomplete: {problem}"));
        }
    }
}
