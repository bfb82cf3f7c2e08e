//! Records the GPUs of a program from outside if none of its processes records them from inside. No
//! process records them when the program does not use Python, or when its interpreter did not load
//! Stormlog's hook.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stormlog_capture::collect::Collector;
use stormlog_capture::collect::nvml::{self, Share};
use stormlog_capture::collect::process_tree::descendants;
use stormlog_capture::record::{RecordOptions, Recorder};
use stormlog_capture::store::{SinkConfig, Thinning};
use stormlog_format::{
    DistributedIdentity, Map, SessionStatus, metadata_keys, part_folders, session_sources,
};

use super::inbox;
use super::{Ended, Plan, free_name, last_words};
use crate::recording::{gpu_collectors, record_options};

/// The time between two checks. A check reads from the GPU driver which processes use each GPU.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Recording from outside starts when the program has used a GPU in this number of successive
/// checks. By then, a program that records its devices itself has usually reported this in the
/// inbox.
const PATIENCE: u32 = 3;

/// Reads the driver's list of processes on a thread of its own, and records the GPUs that the
/// program uses.
pub(super) struct OutsideDevices {
    stop: Sender<()>,
    thread: std::thread::JoinHandle<()>,
    recorder: Arc<Mutex<Option<Arc<Recorder>>>>,
}

impl OutsideDevices {
    pub(super) fn watch(
        plan: &Plan<'_>,
        pid: u32,
        identity: &DistributedIdentity,
        run_id: &str,
        inbox: PathBuf,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let recorder = Arc::new(Mutex::new(None));
        let shared = recorder.clone();
        let root = plan.root.to_path_buf();
        let options = options(pid, plan.interval, identity, run_id);
        let work = move || {
            let mut seen = 0;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(CHECK_EVERY) {
                let Ok(gpus) = nvml::gpus() else {
                    return;
                };
                let mut running = shared.lock().unwrap_or_else(PoisonError::into_inner);
                if inbox::records_device(&inbox) {
                    running.take().iter().for_each(forget);
                    return;
                }
                let pids = descendants(Path::new("/proc"), pid);
                let used: Vec<u32> = gpus
                    .iter()
                    .filter(|gpu| {
                        let holders = nvml::shares(gpu.index).unwrap_or_default();
                        holders.iter().any(|share| pids.contains(&share.pid))
                    })
                    .map(|gpu| gpu.index)
                    .collect();
                seen = if used.is_empty() { 0 } else { seen + 1 };
                if running.is_none() && seen >= PATIENCE {
                    let collectors = gpu_collectors(&used, Share::Tree(pid));
                    *running = collectors
                        .ok()
                        .and_then(|collectors| start(&root, options.clone(), collectors));
                }
            }
        };
        let builder = std::thread::Builder::new().name("stormlog-devices".into());
        Ok(Self {
            stop,
            thread: builder.spawn(work)?,
            recorder,
        })
    }

    pub(super) fn finish(self, ended: &Ended) {
        drop(self.stop);
        let _ = self.thread.join();
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recorder) = recorder.take() {
            last_words::tell_recorder(&recorder, ended);
            recorder.stop(ended.session_status());
        }
    }
}

/// The options of the recorder, without its sink. Without the id of the run, the devices would be
/// listed as a run of their own beside the host memory.
fn options(
    pid: u32,
    interval: Duration,
    identity: &DistributedIdentity,
    run_id: &str,
) -> RecordOptions {
    let mut start_metadata = Map::new();
    start_metadata.insert(metadata_keys::RUN_ID, run_id);
    RecordOptions {
        alerts: false,
        start_metadata,
        ..record_options(
            session_sources::RUN_OUTSIDE,
            pid,
            identity.clone(),
            interval,
        )
    }
}

fn start(
    root: &Path,
    options: RecordOptions,
    collectors: Vec<Box<dyn Collector>>,
) -> Option<Arc<Recorder>> {
    let sink = SinkConfig {
        thinning: Some(Thinning::DEFAULT),
        ..SinkConfig::new(free_name(root, part_folders::OUTSIDE))
    };
    let options = RecordOptions {
        sink: Some(sink),
        ..options
    };
    let recorder = Recorder::new(options, collectors, None);
    recorder.start().ok()?;
    Some(recorder)
}

/// Deletes the recording that was made from outside, because the program records its devices
/// itself.
fn forget(recorder: &Arc<Recorder>) {
    recorder.stop(SessionStatus::Completed);
    // The recorder is asked for the directory of its sink, because the sink uses another directory
    // if the requested one was in use.
    if let Some(directory) = recorder.sink_directory() {
        let _ = fs::remove_dir_all(directory);
    }
}

#[cfg(test)]
mod tests {
    use stormlog_analysis::timeline::run_id_of;
    use stormlog_analysis::{LoadOptions, gather};
    use stormlog_capture::launcher::resolve_or_alone;

    use super::*;
    use crate::recording::own_collector;

    #[test]
    fn devices_recorded_from_outside_belong_to_the_run_of_the_command() {
        let root = tempfile::tempdir().unwrap();
        let (identity, _) = resolve_or_alone(&Map::new());
        let options = options(std::process::id(), CHECK_EVERY, &identity, "run-7");
        let recorder = start(root.path(), options, vec![own_collector()]).unwrap();
        recorder.stop(SessionStatus::Completed);
        let folder = [root.path().join(part_folders::OUTSIDE)];
        let gathered = gather(&folder, &LoadOptions::default()).unwrap();
        let sessions: Vec<_> = gathered
            .loaded
            .iter()
            .flat_map(|one| &one.sessions)
            .collect();
        assert_eq!(sessions.len(), 1);
        assert_eq!(run_id_of(sessions[0]).unwrap(), "run-7");
    }
}
