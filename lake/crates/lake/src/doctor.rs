//! The command `doctor` compares the tables of a lake with each other, and with their sources where
//! these still exist.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::prelude::SessionContext;
use hashbrown::HashMap;
use serde_json::{Value, json};
use stormlog_analysis::query::Catalog;
use stormlog_analysis::{
    EventRef, Events, LoadError, LoadOptions, OnError, stream_events, stream_lines,
};
use stormlog_format::{counted, grouped};
use stormlog_lake_tables::{Lake, Ledger, Table, read_ledger};

use crate::error::FAILED_GATE;
use crate::ingest::{How, Known, Piece, is_sample, known, offset, units};
use crate::output;

/// Check the tables of a lake against each other and against their sources.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  stormlog lake doctor --at /lake\n  stormlog lake doctor --at s3://bucket/fleet --json\n\nExits with 2 when rows are missing or doubled."
)]
pub(crate) struct DoctorArgs {
    /// The lake: a directory or `s3://bucket/prefix`
    #[arg(long, value_name = "URL", env = "STORMLOG_LAKE")]
    at: String,
    /// Do not read the sources
    #[arg(long)]
    tables_only: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The totals of a session that are compared between a source and the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    samples: i64,
    /// The sum of the allocated bytes of all samples in which they are known.
    allocated_sum: i128,
    events: i64,
}

type BySession = HashMap<(String, String), Totals>;

pub(crate) async fn run(args: DoctorArgs) -> Result<ExitCode> {
    let lake = Lake::at(&args.at)?;
    let session = lake.session().await?;
    let mut problems = between_tables(&session).await?;
    let stored = totals_stored(&session).await?;
    let mut checked = 0;
    let mut gone = 0;
    if !args.tables_only {
        let samples = lake.existing(Table::Samples).await?;
        let ledger = read_ledger(Table::Samples, &samples).await?;
        let known = known(&lake).await?;
        for path in paths(&session).await? {
            if !path.exists() {
                gone += 1;
                continue;
            }
            checked += 1;
            let found = against_source(&path, &known, &ledger, &stored);
            problems.extend(found);
        }
    }
    if args.json {
        output::json(&json!({
            "schema_version": 1,
            "lake": lake.address(),
            "sessions": stored.len(),
            "sources_checked": checked,
            "sources_gone": gone,
            "problems": problems,
        }))?;
    } else {
        let mut lines: Vec<String> = problems
            .iter()
            .map(|problem| problem["text"].as_str().unwrap_or_default().to_owned())
            .collect();
        lines.push(format!(
            "{}; {} compared with the tables, {} no longer exist",
            counted(problems.len(), "problem"),
            counted(checked, "source"),
            grouped(gone)
        ));
        output::lines(&lines)?;
    }
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED_GATE)
    })
}

/// SQL queries that compare tables with each other; each comes with the meaning of a row in its
/// result.
const BETWEEN: [(&str, &str); 4] = [
    (
        "samples are stored twice",
        "SELECT source_id, count(*) AS n FROM (SELECT source_id, seq FROM samples GROUP BY source_id, seq \
         HAVING count(*) > 1) GROUP BY source_id",
    ),
    (
        "events are stored twice",
        "SELECT source_id, count(*) AS n FROM (SELECT source_id, seq FROM events GROUP BY source_id, seq \
         HAVING count(*) > 1) GROUP BY source_id",
    ),
    (
        "the number of samples differs from table rollups",
        "SELECT source_id, sum(n) AS difference FROM (SELECT source_id, count(*) AS n FROM samples GROUP BY source_id \
         UNION ALL SELECT source_id, -sum(samples) AS n FROM rollups GROUP BY source_id) GROUP BY source_id \
         HAVING sum(n) <> 0",
    ),
    (
        "the number of samples at the end of a step differs from table steps",
        "SELECT source_id, sum(n) AS difference FROM (SELECT source_id, count(*) AS n FROM samples WHERE step IS NOT NULL \
         GROUP BY source_id UNION ALL SELECT source_id, -count(*) AS n FROM steps GROUP BY source_id) \
         GROUP BY source_id HAVING sum(n) <> 0",
    ),
];

async fn between_tables(session: &SessionContext) -> Result<Vec<Value>> {
    let mut problems = Vec::new();
    for (what, question) in BETWEEN {
        for batch in session.sql(question).await?.collect().await? {
            let ids = cast(batch.column(0), &DataType::Utf8)?;
            let counts = cast(batch.column(1), &DataType::Int64)?;
            for row in 0..batch.num_rows() {
                let source_id = ids.as_string::<i32>().value(row);
                // In the last two queries of `BETWEEN`, the count is the difference between two
                // tables in their numbers of rows, which may be negative.
                let count = counts.as_primitive::<Int64Type>().value(row).unsigned_abs();
                problems.push(json!({
                    "source_id": source_id,
                    "problem": what,
                    "rows": count,
                    "text": format!("source {source_id}: {count} {what}"),
                }));
            }
        }
    }
    Ok(problems)
}

async fn paths(session: &SessionContext) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let question = "SELECT DISTINCT path FROM sources ORDER BY path";
    for batch in session.sql(question).await?.collect().await? {
        let column = cast(batch.column(0), &DataType::Utf8)?;
        let column = column.as_string::<i32>();
        paths.extend(column.iter().flatten().map(PathBuf::from));
    }
    Ok(paths)
}

async fn totals_stored(session: &SessionContext) -> Result<BySession> {
    let mut totals = BySession::new();
    let samples = "SELECT source_id, session_id, count(*), \
                   CAST(sum(CAST(allocator_allocated_bytes AS DECIMAL(38, 0))) AS VARCHAR) \
                   FROM samples GROUP BY source_id, session_id";
    let events = "SELECT source_id, session_id, count(*), CAST(NULL AS VARCHAR) FROM events \
                  GROUP BY source_id, session_id";
    for (question, is_samples) in [(samples, true), (events, false)] {
        for batch in session.sql(question).await?.collect().await? {
            let text = |index: usize| cast(batch.column(index), &DataType::Utf8);
            let (sources, sessions, sums) = (text(0)?, text(1)?, text(3)?);
            let (sources, sessions, sums) = (
                sources.as_string::<i32>(),
                sessions.as_string::<i32>(),
                sums.as_string::<i32>(),
            );
            let counts = cast(batch.column(2), &DataType::Int64)?;
            let counts = counts.as_primitive::<Int64Type>();
            for row in 0..batch.num_rows() {
                let key = (
                    sources.value(row).to_owned(),
                    sessions.value(row).to_owned(),
                );
                let entry = totals.entry(key).or_default();
                if is_samples {
                    entry.samples = counts.value(row);
                    let sum = sums.is_valid(row).then(|| sums.value(row).parse().ok());
                    entry.allocated_sum = sum.flatten().unwrap_or(0);
                } else {
                    entry.events = counts.value(row);
                }
            }
        }
    }
    Ok(totals)
}

/// Compares the tables with the part of a source that was ingested; returns a problem for each
/// session with missing or extra rows.
fn against_source(path: &Path, known: &Known, ledger: &Ledger, stored: &BySession) -> Vec<Value> {
    let catalog = Catalog::open(&[path]);
    let mut found = BySession::new();
    let mut is_whole = true;
    for unit in units(&catalog, known)
        .iter()
        .filter(|unit| unit.path == path)
    {
        // A sink that has deleted or thinned old segments has fewer events than the lake, so then
        // only missing rows are a problem.
        is_whole &= unit
            .manifest
            .as_ref()
            .is_none_or(|manifest| manifest.thinned.is_none() && manifest.pruned.is_none());
        is_whole &= unit
            .pieces
            .first()
            .is_none_or(|first| first.start <= crate::ingest::position(1, 0));
        for piece in &unit.pieces {
            let Some(position) = ledger.position(&piece.source_id) else {
                continue;
            };
            let mut add = |events: &Events| {
                for event in events.iter() {
                    add(&mut found, &piece.source_id, event);
                }
            };
            if let Err(error) = read(piece, unit.manifest.as_ref(), position, &mut add) {
                return vec![json!({
                    "path": path.to_string_lossy(),
                    "problem": "the source cannot be read",
                    "text": format!("'{}' cannot be read: {error}", path.display()),
                })];
            }
        }
    }
    let mut problems = Vec::new();
    for ((source_id, session_id), source) in &found {
        let key = (source_id.clone(), session_id.clone());
        let lake = stored.get(&key).copied().unwrap_or_default();
        let lacks = lake.samples < source.samples || lake.events < source.events;
        let differs = lake != *source;
        if lacks || is_whole && differs {
            problems.push(json!({
                "path": path.to_string_lossy(),
                "source_id": source_id,
                "session_id": session_id,
                "problem": if lacks { "rows are missing" } else { "rows are doubled or changed" },
                "samples": {"lake": lake.samples, "source": source.samples},
                "events": {"lake": lake.events, "source": source.events},
                "text": format!(
                    "'{}' session {session_id}: {} samples and {} events stored, {} and {} in the source",
                    path.display(), lake.samples, lake.events, source.samples, source.events
                ),
            }));
        }
    }
    problems
}

fn add(found: &mut BySession, source_id: &str, event: EventRef<'_>) {
    let session = event.origin().session_id.to_str_lossy();
    let key = (source_id.to_owned(), session.into_owned());
    let totals = found.entry(key).or_default();
    if is_sample(event) {
        totals.samples += 1;
        totals.allocated_sum += i128::from(event.allocated_bytes().unwrap_or(0));
    } else {
        totals.events += 1;
    }
}

fn read(
    piece: &Piece,
    manifest: Option<&stormlog_format::Manifest>,
    position: i64,
    visit: &mut dyn FnMut(&Events),
) -> Result<(), LoadError> {
    let options = LoadOptions {
        on_error: OnError::Skip,
        ..LoadOptions::default()
    };
    let end = match piece.read {
        _ if position <= piece.start => return Ok(()),
        How::Whole => return stream_events(&piece.file, &options, visit).map(drop),
        How::Lines if position < piece.end => offset(position),
        How::Lines => offset(piece.end),
        How::CompressedLines => u64::MAX,
    };
    stream_lines(&piece.file, manifest, 0..end, &options, visit).map(drop)
}
