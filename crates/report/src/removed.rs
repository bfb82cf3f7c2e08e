//! Describes as text which data is missing from sinks: samples removed by thinning, segments
//! deleted by retention, and events that could not be written.

use stormlog_analysis::Removed;
use stormlog_format::{Pruned, counted};

use crate::time;

/// A label and a sentence for each kind of missing data. The list is empty when nothing is missing.
pub fn removed_lines(removed: &Removed) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(thinned) = removed.thinned {
        lines.push((
            "thinned",
            format!(
                "{samples} removed before {until}; \
                 the first, last, lowest and highest values of each interval are kept",
                samples = counted(thinned.samples_dropped, "sample"),
                until = time::moment(thinned.until_ns)
            ),
        ));
    }
    if let Some(pruned) = removed.pruned {
        lines.push((
            "pruned",
            format!("{} deleted by retention", pruned_text(pruned)),
        ));
    }
    if removed.dropped_events > 0 {
        let events = counted(removed.dropped_events, "event");
        lines.push(("dropped", format!("{events} could not be written")));
    }
    lines
}

fn pruned_text(pruned: Pruned) -> String {
    let segments = counted(pruned.segments, "segment");
    match pruned.events {
        Some(events) => format!("{} in {segments}", counted(events, "event")),
        None => segments,
    }
}

#[cfg(test)]
mod tests {
    use stormlog_format::Thinned;

    use super::*;

    #[test]
    fn one_line_for_each_kind() {
        assert_eq!(removed_lines(&Removed::default()), []);
        let removed = Removed {
            thinned: Some(Thinned {
                samples_dropped: 1_234_567,
                segments: 57,
                until_ns: 1_794_700_000_000_000_000,
            }),
            pruned: Some(Pruned {
                segments: 1,
                events: Some(10_000),
            }),
            dropped_events: 1,
        };
        let expected = [
            (
                "thinned",
                "1,234,567 samples removed before 2026-11-14 23:46:40 UTC; \
                 the first, last, lowest and highest values of each interval are kept",
            ),
            ("pruned", "10,000 events in 1 segment deleted by retention"),
            ("dropped", "1 event could not be written"),
        ];
        let expected = expected.map(|(label, text)| (label, text.to_owned()));
        assert_eq!(removed_lines(&removed), expected);
    }
}
