//! The command `ingest` stores recordings in the tables of a lake.
//!
//! Every table records in its own log how far each source is stored (`ledger` of the tables crate),
//! so each commit is complete in itself, and an ingest that was killed at any point is completed by
//! the next one. An ingest reads only what at least one table lacks. The recordings of one run are
//! stored and analyzed before those of the next, so that most files are parsed only once.

mod clusters;
mod derive;
mod facts;
mod identity;
mod plan;
mod progress;
mod reading;
mod replace;
mod rollups;
mod rows;
mod store;
mod table_rows;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use clap::Args;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use serde_json::{Value, json};
use stormlog_analysis::query::Catalog;
use stormlog_analysis::{Damage, ParsedFiles};
use stormlog_format::counted;
use stormlog_lake_tables::{Lake, Table, register_table};

use crate::output;
use derive::{Cluster, Derived, LARGEST_ANALYSIS};
use facts::Facts;
use plan::Unit;
use progress::Progress;
use reading::Reading;
use store::{Advance, Overtaken, Store};

pub(crate) use plan::{How, Known, Piece, offset, position, units};
pub(crate) use rows::is_sample;

/// How many times at most an ingest starts again because another ingest has stored the same
/// recordings meanwhile.
const MOST_RESTARTS: u32 = 10;
/// The number of runs whose rows in the tables about sessions and runs are replaced in one commit.
const RUNS_A_COMMIT: usize = 512;
/// If the recordings of a run have more bytes on disk than this, the rows that are not committed
/// yet are committed before the analysis. These rows and the analysis together would take too much
/// memory.
const LARGEST_BESIDE_ROWS: u64 = 256 << 20;

/// Store recordings in a lake; what is stored already is not stored again.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  stormlog lake ingest /runs --to /lake\n  stormlog lake ingest run.stormlog trace.jsonl.gz --to s3://bucket/fleet\n  stormlog lake ingest /runs/live --to /lake --json    # stores only what is new"
)]
pub(crate) struct IngestArgs {
    /// Sinks, bundles, packs, JSON, JSON lines, CSV, or directories of them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The lake: a directory or `s3://bucket/prefix`; created where there is none
    #[arg(long, value_name = "URL", env = "STORMLOG_LAKE")]
    to: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The counts that an ingest reports at its end.
#[derive(Debug, Default)]
struct Done {
    units: usize,
    /// How many units (sinks, files and bundles) had nothing new.
    unchanged: usize,
    samples: u64,
    events: u64,
    bytes: u64,
    runs: usize,
    damage: Vec<Damage>,
}

pub(crate) async fn run(args: IngestArgs) -> Result<ExitCode> {
    let lake = Lake::at(&args.to)?;
    for path in &args.paths {
        if !path.exists() {
            bail!("'{}' does not exist", path.display());
        }
    }
    let mut done = Done::default();
    for restart in 0.. {
        match ingest(&lake, &args.paths, &mut done).await {
            Err(error) if error.is::<Overtaken>() && restart < MOST_RESTARTS => {}
            outcome => {
                outcome?;
                break;
            }
        }
    }
    report(&args, &lake, &done)?;
    Ok(ExitCode::SUCCESS)
}

fn report(args: &IngestArgs, lake: &Lake, done: &Done) -> Result<()> {
    if args.json {
        return Ok(output::json(&json!({
            "schema_version": 1,
            "lake": lake.address(),
            "sources": done.units,
            "unchanged_sources": done.unchanged,
            "samples": done.samples,
            "events": done.events,
            "bytes_read": done.bytes,
            "runs_analyzed": done.runs,
            "damage": done.damage,
        }))?);
    }
    let mut lines = vec![format!(
        "{} and {} of {} stored in {} ({} had nothing new)",
        counted(done.samples, "sample"),
        counted(done.events, "other event"),
        counted(done.units, "source"),
        lake.address(),
        counted(done.unchanged, "source"),
    )];
    if !done.damage.is_empty() {
        lines.push(format!(
            "{}, see column 'damage' of table 'sources':",
            counted(done.damage.len(), "damaged place")
        ));
        let shown = done.damage.iter().take(5);
        lines.extend(shown.map(|one| format!("  {one}")));
    }
    Ok(output::lines(&lines)?)
}

async fn ingest(lake: &Lake, paths: &[PathBuf], done: &mut Done) -> Result<()> {
    let catalog = Catalog::open(paths);
    let units = Arc::new(units(&catalog, &known(lake).await?));
    if units.is_empty() {
        let names: Vec<String> = paths
            .iter()
            .map(|path| format!("'{}'", path.display()))
            .collect();
        bail!("no recordings in {}", names.join(", "));
    }
    let mut tables = RunTables::open(lake, &units).await?;
    let stores = Store::open_all(lake, &Table::APPENDED).await?;
    let progress = Progress::new(
        units
            .iter()
            .flat_map(|unit| &unit.pieces)
            .map(|piece| piece.bytes)
            .sum(),
    );
    let mut facts = Facts::new(stores, &progress);
    let now_ns = now_ns();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    done.unchanged = 0;
    let clusters: Vec<Vec<usize>> = clusters::clusters(&units, &catalog);
    let in_order = clusters.iter().flatten();
    let jobs = facts.jobs(in_order.map(|index| (*index, &units[*index])));
    let mut reading = Reading::start(&units, jobs);
    for part in clusters.chunks(RUNS_A_COMMIT) {
        let mut derived = Derived::default();
        let mut changed = Vec::new();
        for indexes in part {
            let cluster = Cluster {
                units: indexes.iter().map(|index| &units[*index]).collect(),
                catalog: &catalog,
                users: &users,
                now_ns,
            };
            let is_changed = tables.lack(indexes);
            let mut parsed = ParsedFiles::default();
            let is_kept = is_changed && cluster.bytes() <= LARGEST_ANALYSIS;
            for index in indexes {
                let parsed = is_kept.then_some(&mut parsed);
                let unit = (*index, &units[*index]);
                facts.store(unit, &mut reading, parsed).await?;
            }
            if !is_changed {
                done.unchanged += indexes.len();
                continue;
            }
            if cluster.bytes() > LARGEST_BESIDE_ROWS {
                facts.commit().await?;
            }
            cluster.derive(&facts.damage, &parsed, &mut derived);
            changed.push((indexes.as_slice(), cluster));
        }
        facts.commit().await?;
        if !changed.is_empty() {
            tables.replace(&changed, &derived).await?;
        }
        done.runs += changed.len();
    }
    done.samples += facts.samples;
    done.events += facts.events;
    done.bytes += facts.bytes;
    done.units = units.len();
    let unread = catalog.unread.iter();
    let unread = unread.map(|one| Damage::of_file(one.path.to_string(), &*one.message));
    done.damage = unread.collect();
    done.damage.extend(facts.damage.values().flatten().cloned());
    done.damage.extend(units.iter().filter_map(Unit::damage));
    progress.finish();
    Ok(())
}

/// The recordings that are already stored in the lake, by a hash of their content, so that a copy
/// or a moved file is recognized.
pub(crate) async fn known(lake: &Lake) -> Result<Known> {
    let mut known = Known::default();
    let Some(sources) = lake.table(Table::Sources).await? else {
        return Ok(known);
    };
    let session = SessionContext::from(lake.state()?.build());
    register_table(&session, Table::Sources, &sources)?;
    let question = "SELECT path, streams FROM sources ORDER BY path";
    for batch in session.sql(question).await?.collect().await? {
        let paths = cast(batch.column(0), &DataType::Utf8)?;
        let streams = cast(batch.column(1), &DataType::Utf8)?;
        let rows = paths
            .as_string::<i32>()
            .iter()
            .zip(streams.as_string::<i32>());
        for (path, streams) in rows {
            let Ok(Value::Object(streams)) = serde_json::from_str(streams.unwrap_or_default())
            else {
                continue;
            };
            for (content_id, source_id) in streams {
                let source_id = source_id.as_str().unwrap_or_default().to_owned();
                known.add(content_id, Path::new(path.unwrap_or_default()), source_id);
            }
        }
    }
    Ok(known)
}

/// The tables about sessions and runs, whose rows are replaced when anything in a run has changed.
struct RunTables<'u> {
    stores: Vec<Store>,
    units: &'u [Unit],
    /// The current state of each unit, a number that changes whenever its files change.
    states: Vec<i64>,
}

impl<'u> RunTables<'u> {
    async fn open(lake: &Lake, units: &'u [Unit]) -> Result<Self> {
        Ok(Self {
            stores: Store::open_all(lake, &Table::REPLACED).await?,
            units,
            states: units.iter().map(Unit::state).collect(),
        })
    }

    /// Whether the rows of at least one of the given units are missing or out of date in any table.
    fn lack(&self, indexes: &[usize]) -> bool {
        let is_stored = |store: &Store, index: usize| {
            store.ledger.position(&self.units[index].id) == Some(self.states[index])
        };
        let mut indexes = indexes.iter();
        !indexes.all(|index| self.stores.iter().all(|store| is_stored(store, *index)))
    }

    /// Replaces the rows of the given clusters (units that are analyzed together), each given with
    /// the indices of its units.
    async fn replace(
        &mut self,
        changed: &[(&[usize], Cluster<'_>)],
        derived: &Derived,
    ) -> Result<()> {
        for store in &mut self.stores {
            // A cluster of which no unit was stored before has no old rows, so no files are
            // searched for them.
            let is_stored =
                |unit: &&Unit| unit.is_known || store.ledger.position(&unit.id).is_some();
            let clusters = changed.iter().map(|(_, cluster)| cluster);
            let replaced = clusters.filter(|cluster| cluster.units.iter().any(is_stored));
            let source_ids: BTreeSet<String> = replaced.flat_map(Cluster::source_ids).collect();
            let indexes = changed.iter().flat_map(|(indexes, _)| *indexes);
            let advances = indexes.map(|index| Advance {
                source_id: self.units[*index].id.clone(),
                from: store.ledger.position(&self.units[*index].id),
                to: self.states[*index],
            });
            let advances: Vec<Advance> = advances.collect();
            let rows = derived.batch(store.table)?;
            store.replace(&source_ids, &rows, &advances).await?;
        }
        Ok(())
    }
}

fn now_ns() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}
