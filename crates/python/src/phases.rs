//! Finds the phases of events, assigns times to phases, and labels phases, for Python.

use std::cell::RefCell;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use stormlog_compat::cross_rank::ResolvePhase;
use stormlog_compat::loose::LooseEvent;
use stormlog_compat::phases::{
    self, Action, Boundary, PhaseAttribution, PhaseOrigin, Resolution, ScopeSpan,
};
use stormlog_format::Text;

use crate::any_events::{AnyEvents, field, loose_event, phase_origin};
use crate::convert::{optional_to_python, text_from_python, text_to_python, texts_to_python};

/// A session id and a rank, and the spans of time of their phases as Python `PhaseSpan` objects.
type SpanGroup<'py> = ((Bound<'py, PyAny>, i64), Vec<Bound<'py, PyAny>>);

/// The phases of a program (such as `train`) as spans of time, computed from the events of a run.
#[pyclass(frozen, module = "stormlog._core")]
pub(crate) struct PhaseReplay(pub(crate) phases::PhaseReplay);

/// The fields of a span of a phase for Python: the fields of `PhaseSpan` in order.
type SpanFields<'py> = (
    Bound<'py, PyAny>,
    i64,
    i64,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyTuple>,
    i64,
    i64,
    i64,
    bool,
);

#[pymethods]
impl PhaseReplay {
    /// Finds the phases that begin and end in the given events.
    #[staticmethod]
    fn of_events(events: AnyEvents) -> Self {
        Self(match events {
            AnyEvents::Rows(rows) => phases::PhaseReplay::of_events(&rows),
            AnyEvents::Loose(events) => {
                phases::PhaseReplay::of_moments(events.iter().filter_map(LooseEvent::moment))
            }
        })
    }

    /// Makes a `PhaseReplay` from spans of phases that were computed elsewhere, by session and
    /// rank.
    #[staticmethod]
    fn of_spans(groups: Vec<SpanGroup<'_>>) -> PyResult<Self> {
        let mut spans = phases::SpanGroups::new();
        for ((session_id, rank), group) in groups {
            let group = group.iter().map(span_of).collect::<PyResult<_>>()?;
            spans.push(((text(&session_id)?, rank), group));
        }
        Ok(Self(phases::PhaseReplay::from_groups(spans)))
    }

    /// The spans of a session's phases, for one rank or for all ranks.
    #[pyo3(signature = (session_id, rank))]
    fn spans<'py>(
        &self,
        py: Python<'py>,
        session_id: &Bound<'py, PyAny>,
        rank: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<SpanFields<'py>>> {
        let Some((session_id, rank)) = session_and_rank(session_id, rank)? else {
            return Ok(Vec::new());
        };
        let spans = self.0.spans_for(&session_id, rank).into_iter();
        spans.map(|span| span_fields(py, span)).collect()
    }

    /// The spans of a session's phases that contain the given time.
    #[pyo3(signature = (timestamp_ns, session_id, rank))]
    fn active<'py>(
        &self,
        py: Python<'py>,
        timestamp_ns: i64,
        session_id: &Bound<'py, PyAny>,
        rank: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<SpanFields<'py>>> {
        let Some((session_id, rank)) = session_and_rank(session_id, rank)? else {
            return Ok(Vec::new());
        };
        let spans = self.0.active_spans(timestamp_ns, &session_id, rank);
        let spans = spans.into_iter();
        spans.map(|span| span_fields(py, span)).collect()
    }

    /// The phase of a session and rank at the given time.
    #[pyo3(signature = (timestamp_ns, session_id, rank, origin_thread_id, origin_phase_scope_id))]
    fn resolve<'py>(
        &self,
        py: Python<'py>,
        timestamp_ns: i64,
        session_id: &Bound<'py, PyAny>,
        rank: Option<&Bound<'py, PyAny>>,
        origin_thread_id: Option<&Bound<'py, PyAny>>,
        origin_phase_scope_id: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some((session_id, rank)) = session_and_rank(session_id, rank)? else {
            return Ok(None);
        };
        let origin = origin(origin_thread_id, origin_phase_scope_id)?;
        let found = self.0.resolve(timestamp_ns, &session_id, rank, &origin);
        optional_attribution(py, found.as_ref())
    }

    /// The phase in which an event happened; `None` if there is none or fields of the event are
    /// missing.
    fn resolve_event<'py>(
        &self,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let origin = phase_origin(event)?;
        let is_flag = field(event, "timestamp_ns")?
            .is_some_and(|at| at.is_instance_of::<pyo3::types::PyBool>());
        let event_fields = loose_event(event)?;
        let moment = event_fields.moment().filter(|_| !is_flag);
        let found = moment.and_then(|moment| {
            let (at, session_id) = (moment.timestamp_ns, &moment.session_id);
            self.0.resolve(at, session_id, Some(moment.rank), &origin)
        });
        optional_attribution(event.py(), found.as_ref())
    }
}

/// If an event marks the beginning or the end of a phase, the fields of Python's
/// `PhaseBoundaryRecord` by name, except `attributes`; `None` for other events.
#[pyfunction]
pub(crate) fn phase_boundary<'py>(
    event: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let py = event.py();
    let loose = loose_event(event)?;
    let kind = loose.event_type.as_ref();
    let boundary = kind.and_then(|kind| Boundary::of(kind, &loose.metadata));
    let (Some(boundary), Some(session_id), Some(timestamp_ns)) =
        (boundary, loose.session_id, loose.timestamp_ns)
    else {
        return Ok(None);
    };
    let scope = boundary.scope;
    let parent = optional_to_python(py, scope.parent_scope_id.as_ref())?;
    let fields = PyDict::new(py);
    let action = match boundary.action {
        Action::Enter => "enter",
        Action::Exit => "exit",
    };
    fields.set_item("action", action)?;
    fields.set_item("name", text_to_python(py, &scope.name)?)?;
    fields.set_item("path", path(py, &scope.path)?)?;
    fields.set_item("depth", scope.path.len())?;
    fields.set_item("scope_id", text_to_python(py, &scope.scope_id)?)?;
    fields.set_item("parent_scope_id", parent)?;
    fields.set_item("thread_id", scope.thread_id)?;
    fields.set_item("thread_name", text_to_python(py, &scope.thread_name)?)?;
    fields.set_item("sequence", scope.sequence)?;
    fields.set_item("session_id", text_to_python(py, &session_id)?)?;
    fields.set_item("timestamp_ns", timestamp_ns)?;
    Ok(Some(fields))
}

/// The phase at a time, chosen from the given spans, which all contain that time.
#[pyfunction]
#[pyo3(signature = (spans, origin_thread_id, origin_phase_scope_id))]
pub(crate) fn attribute_phase<'py>(
    py: Python<'py>,
    spans: Vec<Bound<'py, PyAny>>,
    origin_thread_id: Option<&Bound<'py, PyAny>>,
    origin_phase_scope_id: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let spans: Vec<ScopeSpan> = spans.iter().map(span_of).collect::<PyResult<_>>()?;
    let active: Vec<&ScopeSpan> = spans.iter().collect();
    let origin = origin(origin_thread_id, origin_phase_scope_id)?;
    optional_attribution(py, phases::attribute(&active, &origin).as_ref())
}

/// Merges two attributions, which say in which phase something happened, into one.
#[pyfunction]
pub(crate) fn merge_phases<'py>(
    first: &Bound<'py, PyAny>,
    second: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let merged = phases::merge(Some(attribution_of(first)?), Some(attribution_of(second)?));
    let merged = merged.unwrap_or_else(PhaseAttribution::nowhere);
    attribution_fields(first.py(), &merged)
}

/// The phase to which a finding is attributed, as one line of text.
#[pyfunction]
pub(crate) fn phase_label<'py>(
    attribution: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyString>>> {
    let label = attribution_of(attribution)?.label();
    optional_to_python(attribution.py(), label.as_ref())
}

fn origin(
    thread_id: Option<&Bound<'_, PyAny>>,
    scope_id: Option<&Bound<'_, PyAny>>,
) -> PyResult<PhaseOrigin> {
    let scope_id = scope_id.and_then(|id| id.cast::<PyString>().ok());
    Ok(PhaseOrigin {
        thread_id: thread_id.and_then(|id| id.extract().ok()),
        scope_id: scope_id.map(text_from_python).transpose()?,
    })
}

/// A session id and a rank for looking up phases; `None` when the session id is not a string or the
/// rank is not an integer, because then no phase matches.
fn session_and_rank(
    session_id: &Bound<'_, PyAny>,
    rank: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<(Text, Option<i64>)>> {
    let Ok(session_id) = session_id.cast::<PyString>() else {
        return Ok(None);
    };
    let session_id = text_from_python(session_id)?;
    match rank {
        None => Ok(Some((session_id, None))),
        Some(rank) => Ok(rank.extract().ok().map(|rank| (session_id, Some(rank)))),
    }
}

fn span_fields<'py>(py: Python<'py>, span: &ScopeSpan) -> PyResult<SpanFields<'py>> {
    Ok((
        text_to_python(py, &span.session_id)?.into_any(),
        span.rank,
        span.thread_id,
        text_to_python(py, &span.thread_name)?.into_any(),
        text_to_python(py, &span.scope_id)?.into_any(),
        path(py, &span.path)?,
        span.start_ns,
        span.end_ns,
        span.sequence,
        span.synthetic_end,
    ))
}

pub(crate) fn path<'py>(py: Python<'py>, path: &[Text]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, texts_to_python(py, path)?)
}

fn span_of(span: &Bound<'_, PyAny>) -> PyResult<ScopeSpan> {
    let path = span.getattr("path")?.try_iter()?;
    Ok(ScopeSpan {
        session_id: text(&span.getattr("session_id")?)?,
        rank: span.getattr("rank")?.extract()?,
        thread_id: span.getattr("thread_id")?.extract()?,
        thread_name: text(&span.getattr("thread_name")?)?,
        scope_id: text(&span.getattr("scope_id")?)?,
        path: path.map(|name| text(&name?)).collect::<PyResult<_>>()?,
        start_ns: span.getattr("start_ns")?.extract()?,
        end_ns: span.getattr("end_ns")?.extract()?,
        sequence: span.getattr("sequence")?.extract()?,
        synthetic_end: span.getattr("synthetic_end")?.is_truthy()?,
    })
}

fn text(object: &Bound<'_, PyAny>) -> PyResult<Text> {
    text_from_python(object.cast()?)
}

fn optional_text(object: &Bound<'_, PyAny>) -> PyResult<Option<Text>> {
    if object.is_none() {
        Ok(None)
    } else {
        text(object).map(Some)
    }
}

/// Reads the phase to which something is attributed from a Python object with the fields of
/// `PhaseAttribution`.
pub(crate) fn attribution_of(object: &Bound<'_, PyAny>) -> PyResult<PhaseAttribution> {
    let summary = object.getattr("phase_summary")?;
    let paths = object.getattr("phase_paths")?.try_iter()?;
    let thread_id = object.getattr("thread_id")?;
    Ok(PhaseAttribution {
        resolution: Resolution::of_word(text(&object.getattr("phase_resolution")?)?),
        source: optional_text(&object.getattr("phase_source")?)?,
        path: optional_text(&object.getattr("phase_path")?)?,
        paths: paths.map(|path| text(&path?)).collect::<PyResult<_>>()?,
        scope_id: optional_text(&object.getattr("scope_id")?)?,
        thread_id: thread_id.extract()?,
        thread_name: optional_text(&object.getattr("thread_name")?)?,
        summary: if summary.is_none() {
            None
        } else {
            let part = |name| text(&summary.getattr(name)?);
            Some((part("phase_path")?, part("source")?))
        },
    })
}

/// The fields of an attribution by name, if there is one.
pub(crate) fn optional_attribution<'py>(
    py: Python<'py>,
    attribution: Option<&PhaseAttribution>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let fields = attribution.map(|found| attribution_fields(py, found));
    fields.transpose()
}

/// The fields of an attribution, which says in which phase something happened, by name. The field
/// `phase_summary` is a pair: the path of the most likely phase and the basis for that choice.
fn attribution_fields<'py>(
    py: Python<'py>,
    attribution: &PhaseAttribution,
) -> PyResult<Bound<'py, PyDict>> {
    let word = |text: &Option<Text>| optional_to_python(py, text.as_ref());
    let fields = PyDict::new(py);
    let resolution = attribution.resolution.as_text();
    fields.set_item("phase_resolution", text_to_python(py, &resolution)?)?;
    fields.set_item("phase_source", word(&attribution.source)?)?;
    fields.set_item("phase_path", word(&attribution.path)?)?;
    fields.set_item("phase_paths", texts_to_python(py, &attribution.paths)?)?;
    fields.set_item("scope_id", word(&attribution.scope_id)?)?;
    fields.set_item("thread_id", attribution.thread_id)?;
    fields.set_item("thread_name", word(&attribution.thread_name)?)?;
    let summary = attribution.summary.as_ref().map(|(path, source)| {
        PyResult::Ok((text_to_python(py, path)?, text_to_python(py, source)?))
    });
    fields.set_item("phase_summary", summary.transpose()?)?;
    Ok(fields)
}

/// The object that finds the phase at a time for an analysis: Stormlog's own, or any Python object
/// with a method `resolve`.
pub(crate) enum Resolver<'py> {
    Ours(Py<PhaseReplay>),
    Theirs(Bound<'py, PyAny>),
}

impl<'py> Resolver<'py> {
    /// Returns the phase at a time, as this resolver finds it.
    fn resolve(
        &self,
        py: Python<'py>,
        timestamp_ns: i64,
        session_id: &Text,
        rank: i64,
    ) -> PyResult<Option<PhaseAttribution>> {
        match self {
            Self::Ours(replay) => {
                let (replay, origin) = (&replay.get().0, PhaseOrigin::default());
                Ok(replay.resolve(timestamp_ns, session_id, Some(rank), &origin))
            }
            Self::Theirs(resolver) => {
                let arguments = PyDict::new(py);
                arguments.set_item("timestamp_ns", timestamp_ns)?;
                arguments.set_item("session_id", text_to_python(py, session_id)?)?;
                arguments.set_item("rank", rank)?;
                let found = resolver.call_method("resolve", (), Some(&arguments))?;
                let is_found = !found.is_none();
                is_found.then(|| attribution_of(&found)).transpose()
            }
        }
    }
}

/// Makes an analysis that finds phases with a resolver, if there is one. The first exception of a
/// user's resolver is raised when the analysis has ended.
pub(crate) fn with_resolver<T>(
    py: Python<'_>,
    resolver: Option<&Resolver<'_>>,
    analyze: impl FnOnce(Option<&ResolvePhase<'_>>) -> T,
) -> PyResult<T> {
    let failure = RefCell::new(None);
    let resolve = |timestamp_ns: i64, session_id: &Text, rank: i64| {
        let found = resolver?.resolve(py, timestamp_ns, session_id, rank);
        found.unwrap_or_else(|error| {
            failure.borrow_mut().get_or_insert(error);
            None
        })
    };
    let result = match resolver {
        Some(_) => analyze(Some(&resolve)),
        None => analyze(None),
    };
    failure.take().map_or(Ok(result), Err)
}

impl<'py> FromPyObject<'_, 'py> for Resolver<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PhaseReplay>() {
            Ok(ours) => Ok(Self::Ours(ours.to_owned().unbind())),
            Err(_) => Ok(Self::Theirs(object.to_owned())),
        }
    }
}
