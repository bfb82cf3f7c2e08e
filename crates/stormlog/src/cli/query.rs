//! `stormlog query`: lists the runs, sessions, events, out-of-memory bundles and issues in many
//! recordings, and summarizes them.

mod findings;
mod output;
mod questions;
mod run_table;
mod watch;

use std::collections::HashMap;

use clap::{Args, Subcommand};
use stormlog_analysis::issue::IssueFilter;
use stormlog_analysis::query::{
    EventFilter, OomBundle, OomFilter, RunAttachmentFilter, RunRow, SessionFilter, Store,
};
use stormlog_compat::correlate::{self, CorrelationFilter};
use stormlog_compat::hidden_memory_anomalies;
use stormlog_format::json::map_of;
use stormlog_report::rows::{Columns, Rows};

use super::sources::{Sources, warn};
use crate::Exit;
use crate::console::Console;
use crate::machine::on_this_machine;
use questions::{Attachments, Correlate, Events, Issues, Ooms, Runs, Sessions, Summary};

/// Query sinks, files and bundles: sessions, events, runs, issues, summaries
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  stormlog query runs
  stormlog query sessions runs/ --status interrupted
  stormlog query events runs/sink --has-alert --limit 20 --json
  stormlog query summary runs/ --metric peak_device_used_bytes
  stormlog query correlate runs/ --at-ns 1762000507000000000
  stormlog query watch runs/"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    question: Question,
}

#[derive(Debug, Subcommand)]
enum Question {
    Runs(Runs),
    Attachments(Attachments),
    Sessions(Sessions),
    Events(Events),
    Ooms(Ooms),
    Issues(Issues),
    Summary(Summary),
    Correlate(Correlate),
    Watch(watch::Arguments),
}

/// Runs the subcommand of `stormlog query` that the user gave, such as `sessions` or `events`.
pub(crate) fn run(arguments: Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    match arguments.question {
        Question::Runs(question) => runs(question, console),
        Question::Attachments(question) => attachments(question, console),
        Question::Sessions(question) => sessions(question, console),
        Question::Events(question) => events(question, console),
        Question::Ooms(question) => ooms(question, console),
        Question::Issues(question) => issues(question, console),
        Question::Summary(question) => summary(&question, console),
        Question::Correlate(question) => correlate(question, console),
        Question::Watch(arguments) => watch::run(&arguments, console),
    }
}

/// Combines two opposite flags, such as `--has-alert` and `--no-has-alert`; `None` if neither was
/// given.
fn choice(yes: bool, no: bool) -> Option<bool> {
    match (yes, no) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// Opens the recordings at the given paths, calls `ask` to run the query and print its rows, and
/// then prints warnings, for example about files that could not be read.
fn answer(
    sources: &Sources,
    console: &mut Console<'_>,
    ask: impl FnOnce(&Store, &mut Console<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let store = sources.open(console)?;
    ask(&store, console)?;
    warn(&store, console)?;
    Ok(Exit::Fine)
}

fn runs(question: Runs, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let filter = question.wanted.filter();
    let sources = question.sources.resolve()?;
    answer(&sources, console, |store, console| {
        let rows = store.runs(&filter);
        if question.output.is_for_people() {
            let text = |width| on_this_machine(|here| run_table::text(&rows, width, here));
            return question.output.print_text(text, console);
        }
        let rows = Rows::new(Columns::RUNS, rows.iter().map(RunRow::to_map));
        question.output.print(rows, console)
    })
}

fn attachments(question: Attachments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let filter = RunAttachmentFilter {
        run: question.wanted.filter(),
        kind: question.kind,
    };
    answer(&question.sources, console, |store, console| {
        let rows = store.run_attachments(&filter);
        let rows = Rows::new(Columns::ATTACHMENTS, rows.iter().map(map_of));
        question.output.print(rows, console)
    })
}

fn sessions(question: Sessions, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let filter = SessionFilter {
        session_id: question.session_id,
        status: question.status,
        job_id: question.job_id,
        rank: question.rank,
        world_size: question.world_size,
        has_oom_bundle: choice(question.has_oom_bundle, question.no_has_oom_bundle),
        source_kind: question.source_kind,
    };
    answer(&question.sources, console, |store, console| {
        let rows = on_this_machine(|here| store.sessions(&filter, Some(here)));
        let rows = Rows::new(Columns::SESSIONS, rows.iter().map(map_of));
        question.output.print(rows, console)
    })
}

fn events(question: Events, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let filter = EventFilter {
        session_id: question.session_id,
        event_type: question.event_type,
        rank: question.rank,
        collector: question.collector,
        status: question.status,
        time_start_ns: question.time_start_ns,
        time_end_ns: question.time_end_ns,
        has_alert: choice(question.has_alert, question.no_has_alert),
        collector_health_status: question.collector_health_status,
        backend: question.backend,
        limit: question.limit,
    };
    answer(&question.sources, console, |store, console| {
        let rows = Rows::new(Columns::EVENTS, store.event_stream(&filter));
        question.output.print(rows.streamed(), console)
    })
}

fn ooms(question: Ooms, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let filter = OomFilter {
        session_id: question.session_id,
        backend: question.backend,
        reason: question.reason,
        created_after: question.created_after,
        created_before: question.created_before,
    };
    answer(&question.sources, console, |store, console| {
        let rows = store.oom_bundles(&filter);
        let rows = Rows::new(Columns::OOMS, rows.iter().map(OomBundle::to_row));
        question.output.print(rows, console)
    })
}

fn issues(question: Issues, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let filter = IssueFilter {
        fingerprint_id: question.fingerprint_id,
        kind: question.kind,
        state: question.state,
        severity: question.severity,
        session_id: question.session_id,
    };
    answer(&question.sources, console, |store, console| {
        let rows = store.issues_with(|| hidden_memory_anomalies(store), &filter, &HashMap::new());
        let rows = Rows::new(Columns::ISSUES, rows.iter().map(map_of));
        question.output.print(rows, console)
    })
}

fn summary(question: &Summary, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let group_by = question.group_by.unwrap_or_default();
    answer(&question.sources, console, |store, console| {
        let rows = store.summarize(question.metric, group_by);
        let rows = Rows::new(Columns::SUMMARY, rows.iter().map(map_of));
        question.output.print(rows, console)
    })
}

fn correlate(question: Correlate, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let filter = CorrelationFilter {
        session_id: question.session_id,
        job_id: question.job_id,
        rank: question.rank,
        scope: question.scope,
        at_ns: question.anchor.at_ns,
        record_id: question.anchor.record_id,
        window_ns: question.window_ns,
        kinds: question.kind,
        limit: question.limit,
    };
    answer(&question.sources, console, |store, console| {
        let result = correlate::correlate(store, &filter)?;
        let rows = result.evidence.iter().map(map_of);
        let rows = Rows::new(Columns::CORRELATE, rows).with_document(map_of(&result));
        question.output.print(rows, console)
    })
}
