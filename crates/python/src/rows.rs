//! Events in columns for Python: accessible one event at a time, or all of them as Arrow.

use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use stormlog_analysis::{EventRef, Events};
use stormlog_format::{RecordDefaults, RecordError};

use crate::arrow;
use crate::convert::{Reading, bytes_to_python, optional_to_python, text_to_python};
use crate::errors::invalid_record;
use crate::events::event_object;
use crate::json_objects;

/// The events of a session or a run, stored in columns to save memory.
#[pyclass(frozen, module = "stormlog._core")]
pub(crate) struct EventRows(pub(crate) Events);

#[pymethods]
impl EventRows {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Whether any of the events is a sample.
    fn has_samples(&self) -> bool {
        self.0.has_samples()
    }

    /// The fields of the event at an index, by name.
    fn fields<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyDict>> {
        fields(py, self.get(index)?)
    }

    /// The event at an index, as a new Python object each time.
    fn event<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        event_of(py, self.get(index)?)
    }

    /// The events as an Arrow stream, for the Arrow PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer may request another schema, but only Stormlog's own schema is supported.
        let _ = requested_schema;
        PyCapsule::new_with_value(py, arrow::stream(self.0.clone()), c"arrow_array_stream")
    }

    /// The schema of the Arrow stream, for the Arrow PyCapsule interface.
    #[expect(
        clippy::unused_self,
        reason = "the protocol requires a method of an object"
    )]
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*arrow::schema())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}

impl EventRows {
    fn get(&self, index: usize) -> PyResult<EventRef<'_>> {
        self.0
            .get(index)
            .ok_or_else(|| PyIndexError::new_err("event index out of range"))
    }
}

/// Stores records in columns; raises an exception for an invalid record.
#[pyfunction]
pub(crate) fn rows_from_records<'py>(
    py: Python<'py>,
    records: Vec<Bound<'py, PyAny>>,
) -> PyResult<EventRows> {
    let mut events = Vec::with_capacity(records.len());
    for record in &records {
        let record = Reading::Record
            .deep_map(record)?
            .ok_or_else(|| invalid_record(py, &RecordError::NotAMapping))?;
        let event = stormlog_format::event_from_record(&record, &RecordDefaults::default())
            .map_err(|error| invalid_record(py, &error))?;
        events.push(event);
    }
    Ok(EventRows(Events::from_events(&events)))
}

/// The Python object of an event in columns; each call makes a new object.
pub(crate) fn event_of<'py>(py: Python<'py>, event: EventRef<'_>) -> PyResult<Bound<'py, PyAny>> {
    event_object(py, event.origin().version, fields(py, event)?)
}

fn fields<'py>(py: Python<'py>, event: EventRef<'_>) -> PyResult<Bound<'py, PyDict>> {
    let origin = event.origin();
    let counters = event.counters();
    let dict = PyDict::new(py);
    dict.set_item(intern!(py, "schema_version"), origin.version.number())?;
    dict.set_item(
        intern!(py, "session_id"),
        text_to_python(py, &origin.session_id)?,
    )?;
    dict.set_item(intern!(py, "timestamp_ns"), event.timestamp_ns())?;
    dict.set_item(
        intern!(py, "event_type"),
        bytes_to_python(py, event.event_type())?,
    )?;
    dict.set_item(
        intern!(py, "collector"),
        text_to_python(py, &origin.collector)?,
    )?;
    dict.set_item(
        intern!(py, "sampling_interval_ms"),
        origin.sampling_interval_ms,
    )?;
    dict.set_item(intern!(py, "pid"), origin.pid)?;
    dict.set_item(intern!(py, "host"), text_to_python(py, &origin.host)?)?;
    dict.set_item(intern!(py, "device_id"), origin.device_id)?;
    for (name, value) in counters.named() {
        dict.set_item(name, value)?;
    }
    let context = event
        .context()
        .map(|text| bytes_to_python(py, text))
        .transpose()?;
    dict.set_item(intern!(py, "context"), context)?;
    let job_id = optional_to_python(py, origin.job_id.as_ref())?;
    dict.set_item(intern!(py, "job_id"), job_id)?;
    dict.set_item(intern!(py, "rank"), origin.rank)?;
    dict.set_item(intern!(py, "local_rank"), origin.local_rank)?;
    dict.set_item(intern!(py, "world_size"), origin.world_size)?;
    dict.set_item(
        intern!(py, "metadata"),
        json_objects::object(py, &event.metadata_json())?,
    )?;
    Ok(dict)
}
