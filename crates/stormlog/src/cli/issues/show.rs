//! `stormlog issues show`: one issue, its evidence and the way to it.

use std::fmt::Write as _;

use clap::Args;
use stormlog_analysis::issue::{EvidenceLink, Issue};
use stormlog_analysis::query::{EventFilter, EventRows, Store};
use stormlog_format::{Text, Value};
use stormlog_report::escape::for_terminal;
use stormlog_report::{bytes, issues as render, time};

use super::{ArtifactSet, Form, Format, json, object};
use crate::Exit;
use crate::console::Console;

/// Show one issue: evidence, the way to it, and what happened around it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog issues show 876c8d runs/
  stormlog issues show 876c8d runs/ --evidence 50
  stormlog issues show 876c8d runs/ --json")]
pub(crate) struct Arguments {
    /// The issue: its id, or the beginning of it
    id: String,
    #[command(flatten)]
    set: ArtifactSet,
    #[command(flatten)]
    form: Form,
    /// Show so much of the evidence
    #[arg(long, default_value_t = 5)]
    evidence: usize,
}

/// How far the timeline reaches to either side.
const AROUND_NS: i64 = 30_000_000_000;

/// Columns of the timeline.
const WIDTH: usize = 48;

/// Events listed beside the timeline.
const LISTED: usize = 8;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let found = arguments.set.find(console)?;
    let issue = found.named(&arguments.id)?;
    let text = match arguments.form.format() {
        Format::Json => json(&Value::Map(object(issue, &found.states))),
        Format::Md => render::markdown(std::slice::from_ref(issue)),
        Format::Github => render::github(std::iter::once((issue.state, issue))),
        Format::Text => text(issue, &found.store, arguments.evidence),
    };
    console.out.write_all(text.as_bytes())?;
    found.finish()
}

fn text(issue: &Issue, store: &Store, most: usize) -> String {
    let mut out = render::text(std::slice::from_ref(issue));
    let mut line = |text: &str| {
        let _ = writeln!(out, "{}", for_terminal(text));
    };
    line("");
    for (key, value) in issue.details.iter().filter(|(_, value)| !value.is_null()) {
        line(&format!("  {key}: {}", super::super::query::cell(value)));
    }
    line("");
    line("evidence:");
    for link in issue.evidence.iter().take(most) {
        line(&format!("  {}", way_to(link)));
    }
    if issue.evidence.len() > most {
        let more = issue.evidence.len() - most;
        line(&format!("  and {more} more; --evidence shows them"));
    }
    if let Some(around) = issue
        .evidence
        .first()
        .and_then(|link| timeline(link, store))
    {
        line("");
        for text in around {
            line(&text);
        }
    }
    out
}

/// When, where and in which file.
fn way_to(link: &EvidenceLink) -> String {
    let mut parts = vec![link.timestamp_ns.map_or("no time".into(), time::moment)];
    let mut part = |name: &str, text: &Option<Text>| {
        if let Some(text) = text {
            parts.push(format!("{name} {text}"));
        }
    };
    part("session", &link.session_id);
    let rank = link.rank.map(|rank| Text::from(rank.to_string()));
    part("rank", &rank);
    part("in", &link.source_path);
    if link.bundle_path != link.source_path {
        part("bundle", &link.bundle_path);
    }
    parts.join("  ")
}

/// Used memory around a piece of evidence, and what else happened then.
fn timeline(link: &EvidenceLink, store: &Store) -> Option<Vec<String>> {
    let at = link.timestamp_ns?;
    let events = store.events(&EventFilter {
        session_id: Some(link.session_id.clone()?),
        rank: link.rank,
        time_start_ns: Some(at.saturating_sub(AROUND_NS)),
        time_end_ns: Some(at.saturating_add(AROUND_NS)),
        ..EventFilter::default()
    });
    let mut lines = vec![format!(
        "around it ({} to either side):",
        time::span(AROUND_NS)
    )];
    lines.extend(chart(&events, at).into_iter().flatten());
    let others = events
        .iter()
        .filter(|row| !matches!(row.event.event_type(), b"sample"));
    for row in others.take(LISTED) {
        let offset = row.event.timestamp_ns().saturating_sub(at);
        let sign = if offset < 0 { "" } else { "+" };
        let kind = String::from_utf8_lossy(row.event.event_type());
        let said = row.event.context().map(String::from_utf8_lossy);
        let offset = format!("{sign}{}", time::span(offset));
        lines.push(format!(
            "  {offset:>9}  {kind}  {}",
            said.unwrap_or_default()
        ));
    }
    (lines.len() > 1).then_some(lines)
}

/// The highest use of each stretch of time as a bar, with a mark below the moment.
fn chart(events: &EventRows, at: i64) -> Option<[String; 2]> {
    let mut highest: [Option<i64>; WIDTH] = [None; WIDTH];
    for row in events.iter() {
        let Some(used) = row.event.counters().device_used_bytes else {
            continue;
        };
        let since = row.event.timestamp_ns().saturating_sub(at - AROUND_NS);
        let place = usize::try_from(since).ok()?.saturating_mul(WIDTH)
            / usize::try_from(2 * AROUND_NS + 1).ok()?;
        let column = &mut highest[place.min(WIDTH - 1)];
        *column = (*column).max(Some(used));
    }
    let (least, most) = (
        highest.iter().flatten().min()?,
        highest.iter().flatten().max()?,
    );
    let bars: String = highest
        .iter()
        .map(|column| match column {
            None => ' ',
            Some(used) => {
                let range = (most - least).max(1);
                let step = i128::from(used - least) * 7 / i128::from(range);
                BARS[usize::try_from(step).unwrap_or(0).min(7)]
            }
        })
        .collect();
    let (least, most) = (bytes::human(*least), bytes::human(*most));
    Some([
        format!("  used  {bars}  {least} to {most}"),
        format!("        {:>1$}", '^', WIDTH / 2 + 1),
    ])
}
