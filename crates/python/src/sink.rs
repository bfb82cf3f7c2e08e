//! The append-only sink for Python: implements the class of `stormlog.telemetry_sink` with the
//! capture crate.
//!
//! An invalid argument raises the built-in `ValueError` and not a class of `stormlog.errors`,
//! because users' handlers and the conformance tests compare the exact type. An error of the
//! operating system raises `OSError`, which selects its subclass by the error number.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stormlog_capture::store::record_lines::Named;
use stormlog_capture::store::{self, SinkConfig, SinkError, Thinning};
use stormlog_format::{SessionStatus, SessionSummary, Text, Value};

use crate::convert::{dict_of, scalar, seconds, text_of};
use crate::json_text::record_session;
use crate::record_lines::{self, Lines};

/// Releases the child's copies of the parent's sinks: drops their buffers and closes their files
/// and locks, without writing anything. A forked child must call this function first.
#[pyfunction]
pub(crate) fn forget_after_fork() {
    store::forget_after_fork();
}

/// Prepares for a fork: until the fork is over, no thread can open or close the lock of a sink's
/// directory. The thread that is about to fork must call this function.
#[pyfunction]
pub(crate) fn before_fork() {
    store::before_fork();
}

/// Lets the threads of the parent open and close locks again after a fork. The thread that forked
/// must call this function in the parent.
#[pyfunction]
pub(crate) fn after_fork_in_parent() {
    store::after_fork_in_parent();
}

/// Declares that `before_fork` and then `after_fork_in_parent` or `forget_after_fork` are called
/// around every fork.
#[pyfunction]
pub(crate) fn every_fork_is_announced() {
    store::every_fork_is_announced();
}

/// Writes the events of a recording to a directory; the base class of Python's
/// `AppendOnlyTelemetrySink`.
#[pyclass(frozen, subclass, module = "stormlog._core", weakref, dict)]
pub(crate) struct Sink {
    sink: store::Sink,
    lines: Mutex<Lines>,
}

#[pymethods]
impl Sink {
    #[new]
    fn new(py: Python<'_>, config: &Bound<'_, PyAny>) -> PyResult<Self> {
        let config = sink_config(config)?;
        let sink = py.detach(|| store::Sink::open(config));
        Ok(Self {
            sink: sink.map_err(|error| sink_error(&error))?,
            lines: Mutex::default(),
        })
    }

    /// Starts a session; returns the fields of the session that is then active.
    #[pyo3(signature = (summary))]
    fn start<'py>(
        &self,
        py: Python<'py>,
        summary: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let summary = summary.map(session_summary).transpose()?;
        let started = py.detach(|| self.sink.start_session(summary));
        dict_of(py, &started.map_err(|error| sink_error(&error))?)
    }

    /// The fields of the active session's summary; `None` when no session is active.
    fn current<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let session = py.detach(|| self.sink.current_session());
        session.map(|session| dict_of(py, &session)).transpose()
    }

    /// Append a record of the active session; if no session is active, the record's session begins.
    fn append(&self, py: Python<'_>, record: &Bound<'_, PyAny>) -> PyResult<()> {
        // The sink's own `Lines` reuse text of the previous record. Converting a record can run
        // Python code of the caller, and that code may append another record. The sink's `Lines`
        // are then still in use, so the other record gets new `Lines`.
        let mut shared = self.lines.try_lock();
        let mut alone;
        let lines = if let Ok(lines) = &mut shared {
            &mut **lines
        } else {
            alone = Lines::default();
            &mut alone
        };
        if let Err(error) = record_lines::take(lines, record) {
            let session = record_session(record)?;
            let session_id = session.as_ref().map(Text::as_bytes);
            let entered = py.detach(|| self.sink.enter_session(session_id));
            return Err(entered.err().map_or(error, |error| sink_error(&error)));
        }
        let mut observation = lines.observation();
        let line = lines.line();
        let session;
        let session_id = match lines.session() {
            Named::Session(id) => Some(id),
            Named::Nothing => None,
            Named::Unclear => {
                session = record_session(record)?;
                session.as_ref().map(Text::as_bytes)
            }
        };
        let sink = &self.sink;
        if sink.append_line_at_once(session_id, line, &mut observation) {
            return Ok(());
        }
        py.detach(|| sink.append_line(session_id, line, observation))
            .map_err(|error| sink_error(&error))
    }

    /// Write buffered records to the file if a flush is due by the configured limits, or always
    /// when forced.
    #[pyo3(signature = (force = false))]
    fn flush(&self, py: Python<'_>, force: bool) -> PyResult<()> {
        py.detach(|| self.sink.flush(force))
            .map_err(|error| sink_error(&error))
    }

    /// Flush the buffered records, close the segment and end the active session.
    fn end(&self, py: Python<'_>, session_status: &Bound<'_, PyAny>) -> PyResult<()> {
        let status = scalar(session_status)?.unwrap_or(Value::Null);
        py.detach(|| {
            let status = match SessionStatus::of_value(&status) {
                Err(error) if self.sink.current_session().is_some() => {
                    // The buffered records are written first, so that they are kept even if the
                    // status is invalid.
                    self.sink.seal().map_err(|error| sink_error(&error))?;
                    return Err(PyValueError::new_err(error.to_string()));
                }
                // When no session is active, the status that the caller passed is not used.
                status => status.unwrap_or(SessionStatus::Completed),
            };
            self.sink.close(status).map_err(|error| sink_error(&error))
        })
    }

    /// A dictionary with counts: how often the sink started a new segment file, the number and the
    /// bytes of the deleted segments, and the number and the bytes of the segments that are left.
    fn diagnostics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = py.detach(|| self.sink.diagnostics());
        dict_of(py, &counts)
    }

    /// The directory into which the sink writes.
    #[getter]
    fn directory(&self, py: Python<'_>) -> PathBuf {
        py.detach(|| self.sink.directory())
    }

    /// Removes and returns the log messages of the sink that were not fetched yet.
    fn take_notices(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| self.sink.take_notices())
    }
}

impl Drop for Sink {
    /// Flushes without the interpreter lock; the sink's own drop then has nothing to wait for.
    fn drop(&mut self) {
        let _ = Python::try_attach(|py| py.detach(|| self.sink.flush(true)));
    }
}

pub(crate) fn sink_config(config: &Bound<'_, PyAny>) -> PyResult<SinkConfig> {
    let count = |name: &str| config.getattr(name)?.extract::<f64>().map(whole);
    let duration = |name: &str| config.getattr(name)?.extract().map(seconds);
    let root_dir: PathBuf = config.getattr("root_dir")?.extract()?;
    let budget = config.getattr_opt("thinning_budget_bytes")?;
    let budget = budget.filter(|budget| !budget.is_none());
    let thinning = match budget {
        Some(budget) => Some(Thinning {
            budget_bytes: whole(budget.extract()?),
        }),
        None => None,
    };
    Ok(SinkConfig {
        flush_every_events: count("flush_every_events")?,
        flush_every: duration("flush_every_seconds")?,
        rollover_max_bytes: count("rollover_max_bytes")?,
        rollover_max_events: count("rollover_max_events")?,
        retention_max_files: count("retention_max_files")?,
        retention_max_total_bytes: count("retention_max_total_bytes")?,
        write_rollups: config.getattr("write_rollups")?.is_truthy()?,
        rollup_window: duration("rollup_window_seconds")?,
        thinning,
        ..SinkConfig::new(root_dir)
    })
}

/// Rounds a positive limit from the configuration, such as a number of bytes, up to an integer.
fn whole(limit: f64) -> u64 {
    stormlog_format::whole(limit.ceil()).unsigned_abs()
}

/// Reads a session's summary. A sink that starts this session ignores the status and the end in the
/// summary: the session is running.
pub(crate) fn session_summary(summary: &Bound<'_, PyAny>) -> PyResult<SessionSummary> {
    let text = |name: &str| text_of(&summary.getattr(name)?);
    let number = |name: &str| summary.getattr(name)?.extract::<i64>();
    let (job_id, ended) = (summary.getattr("job_id")?, summary.getattr("ended_at_ns")?);
    let status = SessionStatus::from_word(&text("status")?);
    Ok(SessionSummary {
        session_id: text("session_id")?,
        status: status.unwrap_or(SessionStatus::Running),
        started_at_ns: number("started_at_ns")?,
        ended_at_ns: (!ended.is_none()).then(|| ended.extract()).transpose()?,
        host: text("host")?,
        pid: number("pid")?,
        job_id: (!job_id.is_none()).then(|| text_of(&job_id)).transpose()?,
        rank: number("rank")?,
        local_rank: number("local_rank")?,
        world_size: number("world_size")?,
        source: text("source")?,
        recorder: None,
    })
}

fn sink_error(error: &SinkError) -> PyErr {
    match error {
        SinkError::Io { path, source, .. } => {
            let number = source.raw_os_error().unwrap_or(5);
            PyOSError::new_err((number, error.to_string(), path.clone()))
        }
        SinkError::BufferFull { .. } => PyOSError::new_err((28, error.to_string())),
        error => PyValueError::new_err(error.to_string()),
    }
}
