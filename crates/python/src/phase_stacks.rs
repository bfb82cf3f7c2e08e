//! The stacks of open phases, for recorders that are written in Python.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use stormlog_capture::record::phases::{self, Boundary, PhaseOwner, PhaseThread};

use crate::convert::{Objects, text_from_python, text_to_python, texts_to_python};
use crate::recorder::phase_error;

/// The fields of an event that begins or ends a phase, for Python: the type of the event, its
/// message (`context`), the metadata `phase_scope`, the id of the phase, and the names of the open
/// phases from the outermost to this one.
type Fields<'py> = (
    &'static str,
    String,
    Bound<'py, PyDict>,
    Bound<'py, PyString>,
    Vec<Bound<'py, PyString>>,
);

/// The phases of the program that have begun and not ended yet: one stack of nested phases for each
/// session, rank and thread.
#[pyclass(frozen, module = "stormlog._core")]
#[derive(Default)]
pub(crate) struct PhaseStacks(Mutex<phases::PhaseStacks>);

#[pymethods]
impl PhaseStacks {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn reset(&self) {
        self.lock().reset();
    }

    fn enter<'py>(
        &self,
        py: Python<'py>,
        owner: (Bound<'py, PyString>, Bound<'py, PyString>),
        name: &Bound<'py, PyString>,
        thread: (i64, Bound<'py, PyString>),
    ) -> PyResult<Fields<'py>> {
        let thread = PhaseThread {
            id: thread.0,
            name: text_from_python(&thread.1)?,
        };
        let entered = self
            .lock()
            .enter(&phase_owner(&owner)?, &text_from_python(name)?, &thread);
        fields(py, &entered.map_err(|error| phase_error(py, &error))?)
    }

    fn exit<'py>(
        &self,
        py: Python<'py>,
        owner: (Bound<'py, PyString>, Bound<'py, PyString>),
        scope_id: &Bound<'py, PyString>,
        thread_id: i64,
    ) -> PyResult<Fields<'py>> {
        let exited = self.lock().exit(
            &phase_owner(&owner)?,
            &text_from_python(scope_id)?,
            thread_id,
        );
        fields(py, &exited.map_err(|error| phase_error(py, &error))?)
    }
}

impl PhaseStacks {
    fn lock(&self) -> std::sync::MutexGuard<'_, phases::PhaseStacks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn phase_owner(owner: &(Bound<'_, PyString>, Bound<'_, PyString>)) -> PyResult<PhaseOwner> {
    Ok(PhaseOwner {
        session_id: text_from_python(&owner.0)?,
        rank: text_from_python(&owner.1)?,
    })
}

fn fields<'py>(py: Python<'py>, boundary: &Boundary) -> PyResult<Fields<'py>> {
    Ok((
        boundary.event_type,
        boundary.context.clone(),
        Objects::default().map_to_python(py, &boundary.scope)?,
        text_to_python(py, &boundary.scope_id)?,
        texts_to_python(py, &boundary.path)?,
    ))
}
