//! Sends artifacts to experiment trackers, for the program `stormlog`. The libraries of the
//! experiment trackers are written in Python, so the Python module `stormlog._services` calls them.
//! The Rust module here also finds the files of an artifact that may be sent to a tracker.

use std::path::PathBuf;

use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use stormlog::{Finished, Request, Services};
use stormlog_format::Event;

use crate::convert::{Objects, dict_of, dicts_of, text_from_python, text_to_python};

/// The experiment trackers that are available through Python libraries.
pub(crate) struct PythonServices;

impl Services for PythonServices {
    fn check(&mut self, request: &Request) -> Result<(), String> {
        Python::attach(|py| {
            let settings = dict_of(py, &request.settings)?;
            call(py, "check", (request.service.key(), settings)).map(drop)
        })
        .map_err(message_of)
    }

    fn log(
        &mut self,
        request: &Request,
        command: &str,
        finished: &Finished,
    ) -> Result<Option<String>, String> {
        Python::attach(|py| {
            let objects = Objects::default();
            let settings = objects.map_to_python(py, &request.settings)?;
            let service = request.service.key();
            let logged_at = match finished {
                Finished::Diagnosis(directory) => {
                    let arguments = (service, settings, command, directory);
                    call(py, "log_diagnosis", arguments)?
                }
                Finished::Tracking(tracked) => {
                    let records = tracked.events.iter().map(Event::to_record);
                    let records = dicts_of(py, records)?;
                    let session = dict_of(py, &tracked.session)?;
                    let statistics = dict_of(py, &tracked.statistics)?;
                    let paths = (&tracked.output, &tracked.sink, &tracked.oom_bundle);
                    let arguments = (
                        service, settings, command, session, statistics, records, paths,
                    );
                    call(py, "log_tracking", arguments)?
                }
            };
            logged_at.extract()
        })
        .map_err(message_of)
    }
}

fn call<'py>(
    py: Python<'py>,
    function: &str,
    arguments: impl PyCallArgs<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    py.import("stormlog._services")?
        .getattr(function)?
        .call1(arguments)
}

/// The message of an exception, or the name of its class if it has no message.
fn message_of(error: PyErr) -> String {
    Python::attach(|py| {
        if error.is_instance_of::<PyKeyboardInterrupt>(py) {
            return "interrupted".to_owned();
        }
        let text = error.value(py).to_string();
        let class = error.get_type(py).name();
        match class {
            Ok(class) if text.is_empty() => class.to_string(),
            _ => text,
        }
    })
}

/// Names and paths of the files to send, and descriptions of the files that are left out.
type SendableFiles = (Vec<(String, PathBuf)>, Vec<String>);

/// Finds the files of an artifact that may leave the machine. Copies of the found files, with
/// secrets removed, are written to a directory that must be empty.
#[pyfunction]
pub(crate) fn sendable(
    py: Python<'_>,
    artifact: PathBuf,
    copies: PathBuf,
) -> PyResult<SendableFiles> {
    let found = py.detach(|| stormlog::sendable(&artifact, &copies, &|_| {}));
    let found =
        found.map_err(|error| PyOSError::new_err(format!("{}: {error}", artifact.display())))?;
    Ok((found.files, found.left_out))
}

/// Reads a JSON document and removes its secrets; `None` when the document cannot be read.
#[pyfunction]
pub(crate) fn sendable_document(
    py: Python<'_>,
    file: PathBuf,
) -> PyResult<Option<Bound<'_, PyAny>>> {
    let document = py.detach(|| stormlog::read_document(&file));
    let document = document.map(|document| Objects::default().to_python(py, &document));
    document.transpose()
}

/// Replaces the parts of a text that look like secrets, before the text is sent to a tracker.
#[pyfunction]
pub(crate) fn sendable_text<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
    let hidden = stormlog_redact::redacted_text(text_from_python(text)?);
    text_to_python(text.py(), &hidden)
}
