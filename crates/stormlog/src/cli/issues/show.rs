//! `stormlog issues show`: prints one issue, its evidence, and the files that contain the evidence.

use std::fmt::Write as _;

use clap::Args;
use stormlog_analysis::issue::{EvidenceLink, Issue, StateInfo};
use stormlog_analysis::query::Store;
use stormlog_format::{Text, Value, human_rate, whole};
use stormlog_report::document::pretty;
use stormlog_report::escape::for_terminal;
use stormlog_report::rows::cell;
use stormlog_report::{bytes, issues as render, time, wrap};

use super::{ArtifactSet, Form, ListFormat, timeline};
use crate::Exit;
use crate::console::Console;

/// Show one issue: evidence, files, and what else happened at that time
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog issues show 876c8d runs/
  stormlog issues show 876c8d runs/ --evidence 50
  stormlog issues show 876c8d runs/ --json")]
pub(crate) struct Arguments {
    /// Issue id, or its first characters
    id: String,
    #[command(flatten)]
    set: ArtifactSet,
    #[command(flatten)]
    form: Form,
    /// Show at most this many pieces of evidence
    #[arg(long, default_value_t = 5)]
    evidence: usize,
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let found = arguments.set.find(console)?;
    let issue = found.named(&arguments.id)?;
    let text = match arguments.form.format() {
        ListFormat::Json => pretty(issue),
        ListFormat::Md => render::markdown(std::slice::from_ref(issue)),
        ListFormat::Github => render::github(std::iter::once((issue.state, issue))),
        ListFormat::Text => {
            let width = console.terminal(None).width;
            text(issue, &found.store, arguments.evidence, width)
        }
    };
    console.out.write_all(text.as_bytes())?;
    found.finish()
}

fn text(issue: &Issue, store: &Store, most: usize, width: usize) -> String {
    let mut out = render::text(std::slice::from_ref(issue));
    let mut line = |text: &str| {
        let _ = writeln!(out, "{}", for_terminal(text));
    };
    if let Some(decision) = issue.state_info.as_ref().and_then(decision) {
        line(&format!("          {decision}"));
    }
    line("");
    for (key, value) in issue.details.iter().filter(|(_, value)| !value.is_null()) {
        let detail = format!("{key}: {}", detail_text(&key.to_str_lossy(), value));
        // The second and further lines of a wrapped detail are indented by two more columns.
        for (index, part) in wrap(&detail, "", width - 4).lines().enumerate() {
            let indent = if index == 0 { "  " } else { "    " };
            line(&format!("{indent}{part}"));
        }
    }
    line("");
    line("evidence:");
    for link in issue.evidence.iter().take(most) {
        line(&format!("  {}", way_to(link)));
    }
    if issue.evidence.len() > most {
        let more = issue.evidence.len() - most;
        line(&format!(
            "  and {more} more pieces of evidence; --evidence shows them"
        ));
    }
    // The memory is drawn around the time of the latest evidence, because the latest evidence is
    // the most useful to investigate.
    let latest = issue.evidence.iter().max_by_key(|link| link.timestamp_ns);
    if let Some(around) = latest.and_then(|link| timeline::around(link, store)) {
        line("");
        for text in around {
            line(&text);
        }
    }
    out
}

/// Describes the last decision about an issue (resolved, ignored or reopened): who made it, when
/// and why. `None` if nobody has decided about the issue yet.
fn decision(info: &StateInfo) -> Option<String> {
    let when = info.changed_at_ns.as_int()?;
    let by = info.changed_by.as_text();
    let by = by.map_or_else(String::new, |by| format!(" by {by}"));
    let reason = info.reason.as_text();
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let until = info.ignored_until_ns.as_int();
    let until = until.map_or_else(String::new, |until| {
        format!(", until {}", time::moment(until))
    });
    Some(format!(
        "decided{by} on {date}{until}{reason}",
        date = time::moment(when)
    ))
}

/// Formats a detail of an issue with readable numbers; `--json` prints the exact numbers.
fn detail_text(key: &str, value: &Value) -> String {
    match value {
        Value::Int(value) if key.ends_with("_bytes") => bytes::human(*value),
        Value::Float(value) if key == "rate_bytes_per_s" => human_rate(*value),
        Value::Float(value) if key.ends_with("_bytes") => size(*value),
        Value::Float(value) => format!("{value:.3}"),
        Value::Map(map) => {
            let parts = map.iter().filter(|(_, value)| !value.is_null());
            let parts = parts.map(|(key, value)| {
                let name = key.to_str_lossy();
                format!("{name} {}", detail_text(&name, value))
            });
            parts.collect::<Vec<_>>().join(", ")
        }
        value => cell(value),
    }
}

/// Formats a computed number of bytes, which may be fractional.
fn size(value: f64) -> String {
    bytes::human(whole(value))
}

/// Describes where a piece of evidence for an issue is found: its time, session, rank and file.
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
