//! Draws the memory around a piece of evidence in a few lines of text.

use stormlog_analysis::issue::EvidenceLink;
use stormlog_analysis::query::{EventFilter, EventRow, Store};
use stormlog_format::{classify, human_duration};
use stormlog_report::{bytes, time};

/// How many nanoseconds are shown before and after evidence that is a single moment.
const AROUND_NS: i64 = 30_000_000_000;

/// The width of the timeline in characters.
const WIDTH: usize = 48;

/// How many events are listed below the timeline at most.
const LISTED: usize = 8;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The time range that the timeline covers, and the time `at_ns` of the evidence inside this range.
#[derive(Clone, Copy)]
struct Window {
    span_ns: (i64, i64),
    at_ns: i64,
}

impl Window {
    /// The time range to show. For a single moment, it begins 30 seconds before and ends 30 seconds
    /// after the moment. For a finding with a duration, it contains the finding and an equally long
    /// time before the finding.
    fn of(link: &EvidenceLink) -> Option<Self> {
        let at_ns = link.timestamp_ns?;
        let end = link.metadata.int("end_ns");
        let (before, after) = match end.map(|end| end.saturating_sub(at_ns)) {
            Some(lasts) if lasts > 0 => (lasts, lasts),
            _ => (AROUND_NS, AROUND_NS),
        };
        Some(Self {
            span_ns: (at_ns.saturating_sub(before), at_ns.saturating_add(after)),
            at_ns,
        })
    }

    /// The index of the timeline's column in which a given time is drawn.
    fn column(self, time_ns: i64) -> usize {
        let (from, to) = (i128::from(self.span_ns.0), i128::from(self.span_ns.1));
        let since = i128::from(time_ns) - from;
        let width = i128::try_from(WIDTH).unwrap_or(1);
        let all = to - from + 1;
        let index = usize::try_from(since * width / all).unwrap_or(0);
        index.min(WIDTH - 1)
    }
}

/// Draws the memory around a piece of evidence, and lists the other events in the same time range.
pub(super) fn around(link: &EvidenceLink, store: &Store) -> Option<Vec<String>> {
    let window = Window::of(link)?;
    let events = store.events(&EventFilter {
        session_id: Some(link.session_id.clone()?),
        rank: link.rank,
        time_start_ns: Some(window.span_ns.0),
        time_end_ns: Some(window.span_ns.1),
        ..EventFilter::default()
    });
    let mut lines = vec![format!(
        "around {} (±{}):",
        time::moment(window.at_ns),
        human_duration(window.at_ns.saturating_sub(window.span_ns.0))
    )];
    let at = |row: EventRow<'_>, value| (row.event.timestamp_ns(), value);
    let rows = || events.iter();
    let allocated = rows().map(|row| at(row, row.event.allocated_bytes()));
    lines.extend(bars("allocated", allocated, window));
    let reserved = rows().map(|row| at(row, row.event.reserved_bytes()));
    lines.extend(bars("reserved", reserved, window));
    let used = rows().map(|row| at(row, row.event.used_bytes()));
    lines.extend(bars("used", used, window));
    if lines.len() > 1 {
        let column = window.column(window.at_ns) + 1;
        lines.push(format!("  {:9}  {:>column$}", "", '^'));
    }
    let others = events
        .iter()
        .filter(|row| !classify::is_sample(row.event.event_type()));
    for row in others.take(LISTED) {
        let offset = row.event.timestamp_ns().saturating_sub(window.at_ns);
        let sign = if offset < 0 { "" } else { "+" };
        let kind = String::from_utf8_lossy(row.event.event_type());
        let message = row.event.context().map(String::from_utf8_lossy);
        let offset = format!("{sign}{}", human_duration(offset));
        let text = format!("  {offset:>9}  {kind}  {}", message.unwrap_or_default());
        lines.push(text.trim_end().to_owned());
    }
    (lines.len() > 1).then_some(lines)
}

/// Draws the highest value in each column as a bar, and prints the range of values.
fn bars(
    name: &str,
    values: impl Iterator<Item = (i64, Option<i64>)>,
    window: Window,
) -> Option<String> {
    let mut highest: [Option<i64>; WIDTH] = [None; WIDTH];
    for (time_ns, value) in values {
        let column = &mut highest[window.column(time_ns)];
        *column = (*column).max(value);
    }
    let least = *highest.iter().flatten().min()?;
    let most = *highest.iter().flatten().max()?;
    let range = (i128::from(most) - i128::from(least)).max(1);
    let bars: String = highest
        .iter()
        .map(|column| match column {
            None => ' ',
            Some(value) => {
                let step = (i128::from(*value) - i128::from(least)) * 7 / range;
                BARS[usize::try_from(step).unwrap_or(0).min(7)]
            }
        })
        .collect();
    let (least, most) = (bytes::human(least), bytes::human(most));
    let range = if least == most {
        least
    } else {
        format!("{least} to {most}")
    };
    Some(format!("  {name:9}  {bars}  {range}"))
}
