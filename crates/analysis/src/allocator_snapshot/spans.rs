//! Named stretches of time that PyTorch wrote beside the history, such as steps of the optimizer.

use super::read::Snapshot;
use super::stack::shortened;

/// The number of listed spans.
const MOST_SPANS: usize = 2000;
/// The number of spans open at once; each is checked for every end.
const MOST_OPEN: usize = 64;
/// The number of starts and ends read for every device: as many as PyTorch keeps entries.
const MOST_ANNOTATIONS: usize = 200_000;

/// A stretch of time with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// When it begins.
    pub start_ns: i64,
    /// When it ends.
    pub end_ns: i64,
    /// In how many others it is.
    pub depth: usize,
}

/// Pairs the beginnings and the ends of annotations; one that does not end is left out.
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
        } else if let Some(place) = open.iter().rposition(|(known, _)| *known == name) {
            let (name, start_ns) = open.remove(place);
            spans.push(Span {
                name: name.to_owned(),
                start_ns,
                end_ns: time_ns.max(start_ns),
                depth: place,
            });
        }
    }
    spans.sort_by_key(|span| (span.start_ns, span.depth));
    spans
}
