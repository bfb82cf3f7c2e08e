//! `stormlog issues resolve`, `ignore` and `reopen`: store a decision about an issue in its state
//! file.

use anyhow::Context;
use clap::Args;
use stormlog_analysis::issue::{DecidedState, Decision, store_decision};
use stormlog_analysis::query::parse_time;
use stormlog_format::{Text, parse_duration};
use stormlog_report::escape::{for_terminal, path_for_terminal};

use super::ArtifactSet;
use crate::Exit;
use crate::console::Console;
use crate::machine::now_ns;

/// The issue and the decision about it.
#[derive(Debug, Args)]
pub(super) struct Settle {
    /// Issue id, or its first characters
    id: String,
    #[command(flatten)]
    set: ArtifactSet,
    /// Reason, stored with the decision
    #[arg(long)]
    reason: Option<String>,
    /// Name stored with the decision
    #[arg(long, env = "USER", default_value = "unknown", hide_env_values = true)]
    by: String,
}

/// Ignore an issue, permanently or until a date
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog issues ignore 4071770 runs/ --reason 'known, harmless'
  stormlog issues ignore 4071770 runs/ --until 2026-12-01
  stormlog issues ignore 4071770 runs/ --for 14d")]
pub(super) struct Ignore {
    #[command(flatten)]
    settle: Settle,
    /// Until this ISO date or time
    #[arg(long, value_name = "TIME", conflicts_with = "duration")]
    until: Option<String>,
    /// For this long: 14d, 12h, 1h30m
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<String>,
}

pub(super) fn ignore(arguments: Ignore, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let until_ns = until(&arguments)?;
    let state = DecidedState::Ignored { until_ns };
    settle(arguments.settle, state, console)
}

/// Stores a decision about an issue.
pub(super) fn settle(
    arguments: Settle,
    state: DecidedState,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    let found = arguments.set.find(console)?.sound()?;
    let issue = found.named(&arguments.id)?;
    let decision = Decision {
        state,
        by: arguments.by.into(),
        at_ns: now_ns(),
        reason: arguments.reason.map(Text::from),
    };
    let file = arguments.set.sidecar();
    let states = store_decision(&file, &found.issues, issue, &decision)?;
    let state = states.state_of(issue, now_ns());
    let line = format!("{} is {state}: {}", issue.fingerprint_id, issue.title);
    writeln!(console.out, "{}", for_terminal(&line))?;
    writeln!(console.err, "saved in '{}'", path_for_terminal(&file))?;
    Ok(Exit::Fine)
}

/// The time until which an issue is ignored; `None` if it is ignored permanently.
fn until(arguments: &Ignore) -> anyhow::Result<Option<i64>> {
    if let Some(time) = &arguments.until {
        let until =
            parse_time(time).with_context(|| format!("'{time}' is not an ISO date or time"))?;
        return Ok(Some(until));
    }
    let Some(text) = &arguments.duration else {
        return Ok(None);
    };
    parse_duration(text)
        .and_then(|length| length.checked_add(now_ns()))
        .map(Some)
        .with_context(|| format!("'{text}' is not a duration such as 14d, 12h or 1h30m"))
}
