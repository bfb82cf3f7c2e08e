//! The analyses of stormlog 0.3.9 for Python: gaps between device and allocator memory, ranks,
//! collective operations and timeline markers.

use std::cell::RefCell;

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyList};
use stormlog_compat::collective::{self, CollectiveAttribution, CollectiveConfig, FIELDS, Preset};
use stormlog_compat::cross_rank::{self, CrossRank, FirstCause};
use stormlog_compat::gap::{self, GapThresholds, Number};
use stormlog_compat::markers::{self, Marker, Subject};
use stormlog_format::Text;

use crate::any_events::AnyEvents;
use crate::convert::{dict_of, optional_to_python, text_from_python, text_to_python};
use crate::errors::invalid_value;
use crate::phases::{Resolver, optional_attribution, with_resolver};
use crate::rows::EventRows;

/// A finding about the gap between device and allocator memory, for Python: the fields of
/// `GapFinding` except remediation and phase, followed by the index of the event that shows the
/// gap.
type GapFields<'py> = (
    &'static str,
    &'static str,
    f64,
    Bound<'py, PyDict>,
    String,
    i64,
    usize,
);

/// Finds gaps between device and allocator memory in events; the four thresholds are passed in the
/// order of the fields of `GapThresholds`.
#[pyfunction]
pub(crate) fn gap_findings<'py>(
    py: Python<'py>,
    rows: &EventRows,
    thresholds: [f64; 4],
    format_memory: &Bound<'py, PyAny>,
) -> PyResult<Vec<GapFields<'py>>> {
    let [ratio, zscore, r_squared, fragmentation] = thresholds;
    let thresholds = GapThresholds {
        gap_ratio_threshold: ratio,
        gap_spike_zscore: zscore,
        gap_drift_r_squared: r_squared,
        gap_fragmentation_ratio: fragmentation,
    };
    let failure = RefCell::new(None);
    let format = |bytes: i64| {
        let text = format_memory
            .call1((bytes,))
            .and_then(|text| text.str()?.extract::<String>());
        text.unwrap_or_else(|error| {
            failure.borrow_mut().get_or_insert(error);
            String::new()
        })
    };
    let findings = gap::analyze(&rows.0, &thresholds, &format);
    if let Some(error) = failure.take() {
        return Err(error);
    }
    let fields = findings.into_iter().map(|finding| {
        let evidence = PyDict::new(py);
        for (name, number) in &finding.evidence {
            match number {
                Number::Count(count) => evidence.set_item(name, count)?,
                Number::Real(value) => evidence.set_item(name, value)?,
            }
        }
        let (class, severity) = (finding.class.as_str(), finding.severity.as_str());
        let (at, index) = (finding.timestamp_ns, finding.place);
        Ok((
            class,
            severity,
            finding.confidence,
            evidence,
            finding.description,
            at,
            index,
        ))
    });
    fields.collect()
}

/// Compares the ranks of a run. Returns the merged timeline and the first cause (the ranks whose
/// memory may have risen first), each as the fields of its Python class, and the notes of both
/// without duplicates.
#[pyfunction]
#[pyo3(signature = (rows, resolver, with_points))]
pub(crate) fn compare_ranks<'py>(
    py: Python<'py>,
    rows: &EventRows,
    resolver: Option<Resolver<'py>>,
    with_points: bool,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>, Vec<String>)> {
    let cross = py.detach(|| cross_rank::merge(&rows.0));
    let cause = with_resolver(py, resolver.as_ref(), |resolve| cross.first_cause(resolve))?;
    let notes = cross.all_notes(&cause);
    Ok((
        merge_fields(py, &cross, with_points)?,
        cause_fields(py, &cause)?,
        notes,
    ))
}

fn merge_fields<'py>(
    py: Python<'py>,
    cross: &CrossRank,
    with_points: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let job_id = optional_to_python(py, cross.job_id.as_ref())?;
    let counts: Vec<(i64, usize)> = cross.rank_sample_counts().collect();
    let ranks: Vec<i64> = counts.iter().map(|(rank, _)| *rank).collect();
    let fields = PyDict::new(py);
    fields.set_item("job_id", job_id)?;
    fields.set_item("world_size", cross.world_size)?;
    fields.set_item("participating_ranks", ranks)?;
    fields.set_item("missing_ranks", &cross.missing_ranks)?;
    fields.set_item("rank_sample_counts", counts.into_py_dict(py)?)?;
    fields.set_item("alignment_offsets_ns", &cross.alignment_offsets_ns)?;
    let points = PyList::empty(py);
    if with_points {
        for p in cross.points() {
            points.append((
                p.rank,
                p.timestamp_ns,
                p.aligned_timestamp_ns,
                p.device_used_bytes,
                p.allocator_reserved_bytes,
                p.allocator_allocated_bytes,
                p.allocator_change_bytes,
            ))?;
        }
    }
    fields.set_item("merged_points", points)?;
    fields.set_item("notes", &cross.notes)?;
    Ok(fields)
}

fn cause_fields<'py>(py: Python<'py>, cause: &FirstCause) -> PyResult<Bound<'py, PyDict>> {
    let suspects = cause.suspects.iter().map(|suspect| {
        let evidence = PyDict::new(py);
        evidence.set_item("device_used_delta_bytes", suspect.peak_delta_bytes)?;
        evidence.set_item(
            "supporting_ranks_at_or_before_onset",
            suspect.supporting_ranks,
        )?;
        let fields = dict_of(py, suspect)?;
        // In the dictionary that stormlog 0.3.9 returns for a suspect, the key `evidence` comes
        // before `phase_attribution`, so `phase_attribution` is removed here and added again at the
        // end.
        fields.del_item("phase_attribution")?;
        fields.set_item("evidence", evidence)?;
        let phase = optional_attribution(py, suspect.phase.as_ref())?;
        fields.set_item("phase_attribution", phase)?;
        Ok(fields)
    });
    let suspects: Vec<Bound<'py, PyDict>> = suspects.collect::<PyResult<_>>()?;
    let fields = PyDict::new(py);
    fields.set_item(
        "cluster_onset_timestamp_ns",
        cause.cluster_onset_timestamp_ns,
    )?;
    fields.set_item("suspects", suspects)?;
    fields.set_item("notes", &cause.notes)?;
    Ok(fields)
}

/// Attributes gaps between device and allocator memory to collective operations, in which ranks
/// communicate. The argument `limits` has the nine thresholds of `CollectiveConfig`, in the order
/// of its fields.
#[pyfunction]
#[pyo3(signature = (rows, limits, resolver))]
pub(crate) fn attribute_collectives<'py>(
    py: Python<'py>,
    rows: &EventRows,
    limits: [f64; 9],
    resolver: Option<Resolver<'py>>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let config = CollectiveConfig::of_values(limits);
    let found = with_resolver(py, resolver.as_ref(), |resolve| {
        collective::attribute(&rows.0, &config, resolve)
    })?;
    found
        .iter()
        .map(|found| collective_fields(py, found))
        .collect()
}

fn collective_fields<'py>(
    py: Python<'py>,
    found: &CollectiveAttribution,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = dict_of(py, found)?;
    let phase = optional_attribution(py, found.phase.as_ref())?;
    fields.set_item("phase_attribution", phase)?;
    Ok(fields)
}

/// The name and the nine limits of a preset for the attribution of gaps to collective operations.
#[pyfunction]
pub(crate) fn collective_preset(name: &Bound<'_, PyAny>) -> PyResult<(&'static str, [f64; 9])> {
    let preset = Preset::of_name(&text_from_python(name.cast()?)?)
        .map_err(|error| invalid_value(name.py(), error))?;
    Ok((preset.as_str(), preset.values()))
}

/// Raises an error for names that are not limits of the attribution to collective operations.
#[pyfunction]
pub(crate) fn check_collective_fields(py: Python<'_>, fields: Vec<String>) -> PyResult<()> {
    collective::check_fields(fields.iter().map(String::as_str))
        .map_err(|error| invalid_value(py, error))
}

/// Raises an error for limits of the attribution to collective operations that are out of range.
#[pyfunction]
pub(crate) fn check_collective_limits(py: Python<'_>, limits: [f64; 9]) -> PyResult<()> {
    CollectiveConfig::of_values(limits)
        .check()
        .map_err(|error| invalid_value(py, error))
}

/// The names of the nine limits of the attribution to collective operations, in the order of the
/// fields of `CollectiveConfig`.
#[pyfunction]
pub(crate) fn collective_fields_in_order() -> [&'static str; 9] {
    FIELDS
}

/// The timeline markers of events for Python: the fields of each marker, and the index of its
/// event, from which Python takes the metadata. The marker of a phase has no index, because its
/// fields already include the metadata.
#[pyfunction]
pub(crate) fn timeline_markers(
    py: Python<'_>,
    events: AnyEvents,
    include_phases: bool,
) -> PyResult<Vec<(Bound<'_, PyDict>, Option<usize>)>> {
    let found = match &events {
        AnyEvents::Rows(rows) => markers::of_events(rows, include_phases),
        AnyEvents::Loose(events) => markers::of_loose(events, include_phases),
    };
    found
        .iter()
        .map(|marker| marker_fields(py, marker))
        .collect()
}

fn marker_fields<'py>(
    py: Python<'py>,
    marker: &Marker,
) -> PyResult<(Bound<'py, PyDict>, Option<usize>)> {
    let fields = dict_of(py, marker)?;
    let (event_type, index) = match &marker.subject {
        Subject::Event { index, event_type } => (event_type.clone(), Some(*index)),
        Subject::Phase(span) => {
            fields.set_item("metadata", dict_of(py, &span.metadata())?)?;
            (Text::from("phase"), None)
        }
    };
    fields.set_item("event_type", text_to_python(py, &event_type)?)?;
    Ok((fields, index))
}
