//! The recorder for Python. Every call to the recorder releases the interpreter lock first.
//! Otherwise the calling thread could hold the interpreter lock and wait for a lock of the
//! recorder, while the sampling thread holds that lock and waits for the interpreter.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use stormlog_capture::collect::Collector;
use stormlog_capture::collect::host::{self, HostCollector, Target};
use stormlog_capture::record::event::{Origin, TrackedEvent};
use stormlog_capture::record::export::{ExportFormat, export};
use stormlog_capture::record::phases::{Boundary, PhaseError, PhaseThread};
use stormlog_capture::record::timeline::timeline;
use stormlog_capture::record::{self, AlertListener, Detail, EventQuery, RecordOptions};
use stormlog_capture::store::host_name;
use stormlog_format::{DistributedIdentity, Map, SessionStatus, Text};

use crate::convert::{
    dict_of, dicts_of, seconds, text_from_python, text_to_python, texts_to_python, whole_map,
};
use crate::errors::{invalid_value, raise};
use crate::sink::sink_config;
use crate::sources::collector_of;
use crate::torch_source::StepHook;

/// The options of a recorder, as Python passes them in a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options<'py> {
    interval: f64,
    max_events: usize,
    bundle_events: Option<usize>,
    alerts: bool,
    identity: Bound<'py, PyDict>,
    session_source: String,
    sink: Option<Bound<'py, PyAny>>,
    samples_only: bool,
    start_metadata: Option<Bound<'py, PyAny>>,
}

/// Records the memory of this process or of a device, for Python.
#[pyclass(frozen, module = "stormlog._core")]
pub(crate) struct Recorder {
    core: Arc<record::Recorder>,
    step_hook: Option<Py<StepHook>>,
}

#[pymethods]
impl Recorder {
    /// Makes a recorder for a collector; without a collector, it records the host memory of this
    /// process.
    #[new]
    fn new(
        options: Options<'_>,
        collector: Option<&Bound<'_, PyAny>>,
        listener: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let py = options.identity.py();
        let (collector, step_hook): (Box<dyn Collector>, _) = match collector {
            None => {
                let host = HostCollector::new(Target::ThisProcess, host::Detail::Resident);
                (Box::new(host), None)
            }
            Some(collector) => collector_of(collector)?,
        };
        let identity = |key: &str| options.identity.get_item(key);
        let number =
            |key: &str| -> PyResult<i64> { identity(key)?.map_or(Ok(0), |value| value.extract()) };
        let job_id = match identity("job_id")? {
            Some(value) if !value.is_none() => Some(text_from_python(value.cast()?)?),
            _ => None,
        };
        let record_options = RecordOptions {
            interval: seconds(options.interval),
            max_events: options.max_events,
            bundle_events: options.bundle_events,
            alerts: options.alerts,
            identity: DistributedIdentity {
                job_id,
                rank: number("rank")?,
                local_rank: number("local_rank")?,
                world_size: number("world_size")?,
            },
            session_source: options.session_source.into(),
            host: host_name(),
            pid: i64::from(std::process::id()),
            sink: options.sink.as_ref().map(sink_config).transpose()?,
            detail: if options.samples_only {
                Detail::Samples
            } else {
                Detail::Changes
            },
            start_metadata: whole_map_or_empty(options.start_metadata.as_ref())?,
        };
        let listener = listener.map(alert_listener);
        let recorder = record::Recorder::new(record_options, vec![collector], listener);
        let step_hook = step_hook.map(|hook| Py::new(py, hook)).transpose()?;
        Ok(Self {
            core: recorder,
            step_hook,
        })
    }

    /// The function that PyTorch calls at the end of every optimizer step; `None` for collectors
    /// other than PyTorch's.
    #[getter]
    fn step_hook(&self, py: Python<'_>) -> Option<Py<StepHook>> {
        self.step_hook.as_ref().map(|hook| hook.clone_ref(py))
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.core.start())
            .map_err(|error| raise(py, "RecorderError", error.to_string()))
    }

    fn stop(&self, py: Python<'_>, status: &str) {
        let status = SessionStatus::parse(status).unwrap_or(SessionStatus::Completed);
        py.detach(|| self.core.stop(status));
    }

    /// Pauses or resumes sampling; the session continues during a pause.
    fn set_paused(&self, is_paused: bool) {
        self.core.set_paused(is_paused);
    }

    #[getter]
    fn is_tracking(&self, py: Python<'_>) -> bool {
        py.detach(|| self.core.is_tracking())
    }

    fn flush(&self, py: Python<'_>, patience_s: f64) -> bool {
        py.detach(|| self.core.flush(seconds(patience_s)))
    }

    /// Removes and returns the log messages of the recorder.
    fn take_notices(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| self.core.take_notices())
    }

    /// The directory of the running session's sink and, if the sink cannot be written, the reason.
    fn sink_status(&self, py: Python<'_>) -> Option<(Option<PathBuf>, Option<String>)> {
        let status = py.detach(|| self.core.sink_status())?;
        Some((status.directory, status.problem))
    }

    fn record(
        &self,
        py: Python<'_>,
        event_type: &str,
        change: i64,
        context: &str,
        metadata: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let metadata = whole_map_or_empty(metadata)?;
        py.detach(|| self.core.record(event_type, change, context, metadata));
        Ok(())
    }

    /// Begins a phase; returns the phase's scope id, name and path.
    fn enter_phase<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyString>,
        thread: (i64, String),
        attributes: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Scope<'py>> {
        let name = text_from_python(name)?;
        let attributes = attributes.map(whole_map).transpose()?;
        let thread = PhaseThread {
            id: thread.0,
            name: thread.1.into(),
        };
        let entered = py.detach(|| {
            if !self.core.is_tracking() {
                return None;
            }
            self.core.enter_phase(&name, &thread, attributes.as_ref())
        });
        let entered = entered.ok_or_else(|| {
            let message = "Tracking must be active before entering a phase.";
            raise(py, "RecorderError", message.to_owned())
        })?;
        scope(py, &entered.map_err(|error| phase_error(py, &error))?)
    }

    /// Ends the phase with the given scope id, which `enter_phase` returned.
    fn exit_phase(
        &self,
        py: Python<'_>,
        scope_id: &Bound<'_, PyString>,
        thread_id: i64,
        attributes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let scope_id = text_from_python(scope_id)?;
        let attributes = attributes.map(whole_map).transpose()?;
        let exited = py.detach(|| {
            self.core
                .exit_phase(&scope_id, thread_id, attributes.as_ref())
        });
        let exited = exited.unwrap_or(Err(PhaseError::NoStack));
        exited.map(drop).map_err(|error| phase_error(py, &error))
    }

    /// The events in the recorder's memory, each as a dictionary with the field names that the
    /// trackers of stormlog 0.3.9 use.
    #[pyo3(signature = (event_type=None, last=None, since=None, alerts_only=false))]
    fn events<'py>(
        &self,
        py: Python<'py>,
        event_type: Option<&Bound<'py, PyString>>,
        last: Option<i64>,
        since: Option<f64>,
        alerts_only: bool,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let query = EventQuery {
            event_type: event_type.map(text_from_python).transpose()?,
            since_s: since,
            alerts_only,
            last,
        };
        let payloads: Vec<Map> = py.detach(|| {
            let Some(origin) = self.core.origin() else {
                return Vec::new();
            };
            let events = self.core.events(&query);
            let payloads = events.iter().map(|event| event.to_payload(&origin));
            payloads.collect()
        });
        dicts_of(py, &payloads)
    }

    /// The events in the recorder's memory, as records in the form that is written to files.
    fn records<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let records = py.detach(|| self.core.records());
        dicts_of(py, records.iter().map(stormlog_format::Event::to_record))
    }

    /// Records an event that memory ran out, and returns the events for the OOM bundle, the last of
    /// which is the recorded event.
    #[pyo3(signature = (reason, facts=None))]
    fn record_oom<'py>(
        &self,
        py: Python<'py>,
        reason: &str,
        facts: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let facts = whole_map_or_empty(facts)?;
        let payloads = py.detach(|| self.core.record_oom(reason, facts));
        dicts_of(py, &payloads)
    }

    fn clear(&self, py: Python<'_>) {
        py.detach(|| self.core.clear());
    }

    /// Sets the threshold of an alert; returns false when no threshold has the given name.
    fn set_threshold(&self, py: Python<'_>, name: &str, value: f64) -> bool {
        py.detach(|| self.core.set_threshold(name, value))
    }

    fn tally<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tally = py.detach(|| self.core.tally());
        dict_of(py, &tally)
    }

    fn device_statistics<'py>(
        &self,
        py: Python<'py>,
        last_bundle: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let last_bundle = last_bundle.map(Text::from);
        let statistics = py.detach(|| self.core.device_statistics(last_bundle.as_ref()));
        dict_of(py, &statistics)
    }

    fn host_statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let statistics = py.detach(|| self.core.host_statistics());
        dict_of(py, &statistics)
    }

    /// The events in the recorder's memory, summarized in time buckets of `interval_s` seconds:
    /// three lists with the start of each bucket in epoch seconds, and the allocated and the
    /// reserved bytes of the bucket's last event.
    fn timeline(&self, py: Python<'_>, interval_s: f64) -> (Vec<f64>, Vec<i64>, Vec<i64>) {
        let timeline = py.detach(|| {
            let events = self.core.events(&EventQuery::default());
            timeline(events.iter().map(|event| &**event), interval_s)
        });
        (timeline.timestamps, timeline.allocated, timeline.reserved)
    }

    /// Writes the events in the recorder's memory to a file; does nothing when there are no events.
    fn export(&self, py: Python<'_>, path: PathBuf, format: &str) -> PyResult<()> {
        let records = py.detach(|| self.core.records());
        if records.is_empty() {
            return Ok(());
        }
        let format = ExportFormat::parse(format)
            .ok_or_else(|| invalid_value(py, format!("Unsupported format: {format}")))?;
        py.detach(|| export(&path, &records, format))
            .map_err(|error| os_error(&error, &path))
    }

    /// The fields of the summary of the running session, otherwise of the last one; `None` before
    /// the first session.
    fn session<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let session = py.detach(|| self.core.session());
        session.map(|session| dict_of(py, &session)).transpose()
    }
}

fn whole_map_or_empty(object: Option<&Bound<'_, PyAny>>) -> PyResult<Map> {
    object.map_or_else(|| Ok(Map::new()), whole_map)
}

type Scope<'py> = (
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    Vec<Bound<'py, PyString>>,
);

fn scope<'py>(py: Python<'py>, boundary: &Boundary) -> PyResult<Scope<'py>> {
    Ok((
        text_to_python(py, &boundary.scope_id)?,
        text_to_python(py, &boundary.name)?,
        texts_to_python(py, &boundary.path)?,
    ))
}

pub(crate) fn phase_error(py: Python<'_>, error: &PhaseError) -> PyErr {
    match error {
        // A blank name of a phase raises the built-in `ValueError`, because users' handlers and the
        // conformance tests compare the exact type.
        PhaseError::BlankName => PyValueError::new_err(error.to_string()),
        _ => raise(py, "PhaseProtocolError", error.to_string()),
    }
}

/// The Python `OSError` for an error of the operating system, with its error number and the file.
pub(crate) fn os_error(error: &std::io::Error, path: &std::path::Path) -> PyErr {
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string(), path.to_path_buf())),
        None => PyOSError::new_err(error.to_string()),
    }
}

/// Passes every alert of the recorder to a Python function.
fn alert_listener(function: Py<PyAny>) -> AlertListener {
    Box::new(move |event: &TrackedEvent, origin: &Origin| {
        let payload = event.to_payload(origin);
        // A Python interpreter that shuts down accepts no more callbacks, and an alert that cannot
        // be delivered must not harm the recording.
        let _ = Python::try_attach(|py| function.call1(py, (dict_of(py, &payload)?,)));
    })
}
