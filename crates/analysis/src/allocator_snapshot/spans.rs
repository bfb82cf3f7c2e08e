//! Named time spans that PyTorch records in a snapshot next to the allocator's history, such as
//! optimizer steps.

use super::read::Snapshot;
use super::stack::shortened;

/// Maximum number of named time spans that are listed.
const MOST_SPANS: usize = 2000;
/// Maximum number of time spans open at once; the limit exists because every end is compared with
/// all open spans.
const MOST_OPEN: usize = 64;
/// Maximum number of annotations that are read. An annotation is the start or the end of a time
/// span, so these are 100,000 time spans.
const MOST_ANNOTATIONS: usize = 200_000;

/// A time span that PyTorch recorded with a name, such as an optimizer step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The name of the time span.
    pub name: String,
    /// Start time of the span in nanoseconds.
    pub start_ns: i64,
    /// End time of the span in nanoseconds.
    pub end_ns: i64,
    /// Number of other time spans that contain this one.
    pub depth: usize,
}

/// The time spans on a device, each from an annotation of its start and one of its end. Time spans
/// without an end are left out.
pub(super) fn spans_of(snapshot: &Snapshot<'_>, device: i64) -> Vec<Span> {
    let mut open: Vec<(&str, i64)> = Vec::new();
    let mut spans = Vec::new();
    for one in snapshot
        .external_annotations
        .0
        .iter()
        .take(MOST_ANNOTATIONS)
    {
        if one.device.is_some_and(|on| on != device) || spans.len() >= MOST_SPANS {
            continue;
        }
        let Some(time_ns) = one.time_us.map(|time| time.saturating_mul(1000)) else {
            continue;
        };
        let name = shortened(one.name);
        if one.stage == "START" {
            if open.len() < MOST_OPEN {
                open.push((name, time_ns));
            }
        } else if let Some(index) = open.iter().rposition(|(known, _)| *known == name) {
            let (name, start_ns) = open.remove(index);
            spans.push(Span {
                name: name.to_owned(),
                start_ns,
                end_ns: time_ns.max(start_ns),
                depth: index,
            });
        }
    }
    spans.sort_by_key(|span| (span.start_ns, span.depth));
    spans
}
