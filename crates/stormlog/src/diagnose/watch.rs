//! Records a process, a command or a GPU for a diagnosis, for a given duration or until the command
//! ends.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stormlog_analysis::{LoadOptions, Loaded, gather, load_sessions};
use stormlog_capture::collect::Collector;
use stormlog_capture::collect::cgroup::{self, MemoryGroup, Roots};
use stormlog_capture::collect::host::{self, DECLARED_LIMIT, HostCollector};
use stormlog_capture::collect::nvml::Share;
use stormlog_capture::collect::tree::TreeCollector;
use stormlog_capture::record::event::TrackedEvent;
use stormlog_capture::record::{EventQuery, RecordOptions, Recorder};
use stormlog_capture::store::SinkConfig;
use stormlog_format::{EventType, SessionStatus, Value};

use super::{Bundle, Ending, Flavour, Seen, native_history};
use crate::child;
use crate::recording::{End, IdentityArguments, gpu_collectors, record_options, until_end};
use crate::signals::Signals;
use crate::watched;

/// How long a diagnosis waits for its first sample, even if its duration is shorter.
const FIRST_SAMPLE: Duration = Duration::from_secs(10);

/// The process, command or GPU that is diagnosed.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A process and its children.
    Process(u32),
    /// A command, from its start to its end.
    Command(Vec<OsString>),
    /// A GPU, with all processes that use it.
    Gpu(u32),
    /// The diagnosing process itself, when no target was given.
    Own,
}

/// What a diagnosis records, for how long, and how often it samples.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) flavour: Flavour,
    pub(crate) target: Target,
    pub(crate) duration: Duration,
    pub(crate) interval: Duration,
    /// The memory limit of the process in bytes, if the user gave one.
    pub(crate) limit: Option<u64>,
    /// The number of allocator events that a command keeps as its history, if a history was
    /// requested.
    pub(crate) native_history: Option<u64>,
}

/// Records the process, command or GPU that is diagnosed. Returns an error only when nothing at all
/// could be recorded.
pub(crate) fn watch(bundle: &mut Bundle, watch: &Watch) -> anyhow::Result<Seen> {
    match &watch.target {
        Target::Command(command) => run_command(bundle, watch, command),
        Target::Process(_) | Target::Gpu(_) | Target::Own => sample(bundle, watch),
    }
}

fn sample(bundle: &mut Bundle, watch: &Watch) -> anyhow::Result<Seen> {
    let collectors = collectors(watch)?;
    let identity = IdentityArguments::default().resolve()?;
    let pid = match watch.target {
        Target::Process(pid) => pid,
        _ => std::process::id(),
    };
    let options = RecordOptions {
        sink: Some(SinkConfig::new(bundle.telemetry())),
        ..record_options(watch.flavour.source(), pid, identity, watch.interval)
    };
    let recorder = Recorder::new(options, collectors, None);
    let kills_before = oom_kills(watch);
    let signals = Signals::that_end()?;
    recorder.start()?;
    if let Some(session) = recorder.session() {
        bundle.session_has_begun(&session)?;
    }
    let start = Instant::now();
    let mut end = until_end(&recorder, &signals, Some(watch.duration), |_| Ok(()))?;
    while end == End::Time && samples(&recorder).is_empty() && start.elapsed() < FIRST_SAMPLE {
        end = until_end(&recorder, &signals, Some(Duration::from_millis(20)), |_| {
            Ok(())
        })?;
    }
    let group_utilization = group_utilization(watch);
    recorder.stop(match end {
        End::Signal(_) => SessionStatus::Interrupted,
        End::Time | End::Gone => SessionStatus::Completed,
    });
    let ending = match end {
        End::Signal(signal) => Ending::CutShort(cut_short(signal, start.elapsed(), watch)),
        _ if samples(&recorder).is_empty() => Ending::Failed("nothing could be recorded".into()),
        End::Time | End::Gone => Ending::Complete,
    };
    Ok(Seen {
        recorded: vec![recorded(&recorder, bundle)],
        device: match watch.target {
            Target::Gpu(index) => Some(i64::from(index)),
            _ => None,
        },
        oom_kills: oom_kills(watch).saturating_sub(kills_before),
        group_utilization,
        has_window: !watch.duration.is_zero(),
        ending,
        ..Seen::default()
    })
}

fn samples(recorder: &Recorder) -> Vec<Arc<TrackedEvent>> {
    recorder.events(&EventQuery {
        event_type: Some(EventType::Sample.into()),
        ..EventQuery::default()
    })
}

fn cut_short(signal: i32, after: Duration, watch: &Watch) -> String {
    let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
    format!(
        "ended by {name} after {after:.1} of {planned:.1} s",
        after = after.as_secs_f64(),
        planned = watch.duration.as_secs_f64()
    )
}

fn collectors(watch: &Watch) -> anyhow::Result<Vec<Box<dyn Collector>>> {
    Ok(match watch.target {
        Target::Gpu(index) => gpu_collectors(&[index], Share::NotRecorded)
            .map_err(|reason| anyhow::anyhow!("{reason}"))?,
        Target::Process(pid) => {
            let tree = TreeCollector::new(pid).limited_to(watch.limit);
            let mut all: Vec<Box<dyn Collector>> = vec![Box::new(tree)];
            all.extend(gpu_collectors(&[], Share::Tree(pid)).unwrap_or_default());
            all
        }
        Target::Own | Target::Command(_) => {
            let own = HostCollector::new(host::Target::ThisProcess, host::Detail::Resident);
            vec![Box::new(own.limited_to(watch.limit))]
        }
    })
}

/// Returns the recorded events: from memory if all of them are still in memory, otherwise from the
/// sink.
fn recorded(recorder: &Recorder, bundle: &Bundle) -> Loaded {
    let statistics = recorder.device_statistics(None);
    let dropped = statistics.get("history_dropped_events");
    if dropped.and_then(Value::as_int).unwrap_or(0) > 0
        && let Ok(loaded) = load_sessions(&bundle.telemetry(), &LoadOptions::skipping())
    {
        return loaded;
    }
    recorder.session().map_or_else(Loaded::default, |session| {
        Seen::of_events(session, &recorder.records())
    })
}

fn run_command(bundle: &mut Bundle, watch: &Watch, command: &[OsString]) -> anyhow::Result<Seen> {
    let root = bundle.telemetry();
    let limit = watch.limit.map(|bytes| bytes.to_string().into());
    let mut variables: Vec<(&'static str, OsString)> = limit
        .into_iter()
        .map(|limit| (DECLARED_LIMIT, limit))
        .collect();
    if let Some(entries) = watch.native_history {
        variables.extend(native_history::variables(bundle.directory(), entries));
    }
    let start = Instant::now();
    let plan = watched::Plan {
        root: &root,
        command,
        name: None,
        interval: watch.interval,
        variables: &variables,
    };
    let mut problems = Vec::new();
    let ended = watched::run(&plan, &mut |problem| problems.push(problem.to_owned()))?;
    let recorded = gather(&[root], &LoadOptions::skipping())
        .unwrap_or_default()
        .loaded;
    let history = native_history::found(bundle.directory());
    let lacks_history = watch.native_history.is_some() && history.is_empty();
    bundle.adopt(history);
    let ending = if let Some(signal) = ended.signal {
        let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
        let after = start.elapsed().as_secs_f64();
        Ending::CutShort(format!("ended by {name} after {after:.1} s"))
    } else if ended.status.success() && lacks_history {
        Ending::Failed(native_history::MISSING.to_owned())
    } else if ended.status.success() && !problems.is_empty() {
        Ending::Failed(problems.join("; "))
    } else if ended.status.success() {
        Ending::Complete
    } else {
        let how = child::describe(ended.status);
        Ending::Failed(format!("the command ended: {how}"))
    };
    Ok(Seen {
        recorded,
        oom_kills: ended.oom_kills,
        has_window: true,
        ending,
        ..Seen::default()
    })
}

fn group(watch: &Watch) -> Option<MemoryGroup> {
    let pid = match watch.target {
        Target::Process(pid) => Some(pid),
        Target::Own | Target::Command(_) => None,
        // A GPU target has no control group, because the limit of a control group does not cover
        // GPU memory.
        Target::Gpu(_) => return None,
    };
    MemoryGroup::of_process(&Roots::default(), pid)
}

fn oom_kills(watch: &Watch) -> u64 {
    group(watch)
        .and_then(|group| group.oom_kills())
        .unwrap_or(0)
}

/// The used share of the control group's memory limit; `None` if the control group has no limit,
/// the limit is not below the memory of the machine, or the used memory is unknown.
fn group_utilization(watch: &Watch) -> Option<f64> {
    let group = group(watch)?;
    let room = cgroup::room(&Roots::default(), Some(&group));
    let limit = group.limit().filter(|limit| room.total == Some(*limit))?;
    Some(1.0 - room.free? as f64 / limit as f64)
}
