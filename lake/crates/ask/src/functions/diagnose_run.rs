//! The SQL function `diagnose_run(…)` returns what the detectors find in the sessions of one run,
//! as a JSON list. This is the second aggregate of a diagnosis; it needs all tracks of a run,
//! because ranks are compared with one another.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{ScalarValue, exec_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use serde_json::{Value, json};
use stormlog_analysis::detect::{self, Options};
use stormlog_analysis::timeline::{
    BundleNumbers, Member, fill_oom_marks, newest_first, run_of, runs_newest_first,
};
use stormlog_analysis::{Events, LoadedSession};
use stormlog_format::json::parse;
use stormlog_format::{SessionStatus, SessionSummary, Text};

use super::packed::{PackedRows, state_field, unpack};
use crate::columns::{Ints, Texts};
use crate::event_rows::events_of;

/// The first arguments of the function: columns of `sessions`. Three more follow: the events of the
/// session, the details of its OOM bundles, and `oom_horizon_hours`.
pub(crate) const ARGUMENTS: [&str; 12] = [
    "session_id",
    "effective_status",
    "started_at_ns",
    "ended_at_ns",
    "host",
    "pid",
    "job_id",
    "rank",
    "local_rank",
    "world_size",
    "source",
    "thinned_until_ns",
];

const INTS: [&str; 7] = [
    "started_at_ns",
    "ended_at_ns",
    "pid",
    "rank",
    "local_rank",
    "world_size",
    "thinned_until_ns",
];

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DiagnoseRun {
    signature: Signature,
}

impl Default for DiagnoseRun {
    fn default() -> Self {
        Self {
            signature: Signature::any(ARGUMENTS.len() + 3, Volatility::Immutable),
        }
    }
}

impl AggregateUDFImpl for DiagnoseRun {
    fn name(&self) -> &'static str {
        "diagnose_run"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::LargeUtf8)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let mut columns: Vec<(&str, DataType)> = ARGUMENTS
            .into_iter()
            .map(|name| {
                let is_int = INTS.contains(&name);
                (
                    name,
                    if is_int {
                        DataType::Int64
                    } else {
                        DataType::Utf8
                    },
                )
            })
            .collect();
        let item = Field::new_list_field(DataType::Utf8, true);
        columns.push(("events", DataType::LargeBinary));
        columns.push(("details", DataType::List(item.into())));
        columns.push(("oom_horizon_hours", DataType::Float64));
        Ok(Box::new(Gathering(PackedRows::new(&columns))))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(state_field(args.name))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

#[derive(Debug)]
struct Gathering(PackedRows);

impl Accumulator for Gathering {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.push(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let text = diagnoses(&self.0.joined()?)?;
        Ok(ScalarValue::LargeUtf8(Some(text)))
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.0.pack()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge(&states[0])
    }
}

/// Diagnoses the sessions in the given rows and returns a JSON list with one entry per run. All
/// sessions of a job have the same run id in the tables, but a job that was started again is
/// several runs.
fn diagnoses(rows: &RecordBatch) -> Result<String> {
    let mut sessions = sessions_of(rows)?;
    newest_first(&mut sessions, |session| session);
    let members = sessions.iter().map(|session| Member {
        artifact: 0,
        session,
    });
    let (bundles, options) = (bundles_of(rows)?, options_of(rows));
    let diagnosed = runs_newest_first(members).into_iter().map(|run| {
        let sessions: Vec<&LoadedSession> = run.iter().map(|index| &sessions[*index]).collect();
        let mut run = run_of(&sessions);
        fill_oom_marks(&mut run, bundles.clone());
        let diagnosis = detect::diagnose(&run, &options);
        let ids = sessions
            .iter()
            .map(|session| session.summary.session_id.to_string());
        json!({
            "session_ids": ids.collect::<Vec<_>>(),
            "headline": diagnosis.headline(),
            "is_too_short": diagnosis.is_too_short(),
            "findings": diagnosis.findings(),
        })
    });
    Ok(Value::Array(diagnosed.collect()).to_string())
}

fn options_of(rows: &RecordBatch) -> Options {
    let hours = rows.column_by_name("oom_horizon_hours");
    let hours = hours.and_then(|column| column.as_primitive_opt::<Float64Type>());
    let hours = hours.filter(|hours| !hours.is_empty() && hours.is_valid(0));
    hours.map_or_else(Options::default, |hours| Options {
        oom_horizon_hours: hours.value(0),
    })
}

fn sessions_of(rows: &RecordBatch) -> Result<Vec<LoadedSession>> {
    let text = |name| Texts::of(rows, name);
    let int = |name| Ints::of(rows, name);
    let (session_id, status) = (text("session_id")?, text("effective_status")?);
    let (started_at_ns, ended_at_ns) = (int("started_at_ns")?, int("ended_at_ns")?);
    let (host, pid, job_id) = (text("host")?, int("pid")?, text("job_id")?);
    let (rank, local_rank) = (int("rank")?, int("local_rank")?);
    let (world_size, source) = (int("world_size")?, text("source")?);
    let thinned_until_ns = int("thinned_until_ns")?;
    let events = rows.column_by_name("events");
    let events = events.and_then(|column| column.as_binary_opt::<i64>());
    let events = events.ok_or_else(|| exec_datafusion_err!("the rows have no column 'events'"))?;
    let sessions = (0..rows.num_rows()).map(|row| {
        let word = status.text(row);
        let status = SessionStatus::from_word(&Text::from(word))
            .ok_or_else(|| exec_datafusion_err!("'{word}' is not the status of a session"))?;
        let packed = events.is_valid(row).then(|| events.value(row));
        Ok(LoadedSession {
            summary: SessionSummary {
                session_id: session_id.text(row).into(),
                status,
                started_at_ns: started_at_ns.number(row),
                ended_at_ns: ended_at_ns.get(row),
                host: host.text(row).into(),
                pid: pid.number(row),
                job_id: job_id.get(row).map(Text::from),
                rank: rank.number(row),
                local_rank: local_rank.number(row),
                world_size: world_size.number(row),
                source: source.text(row).into(),
                recorder: None,
            },
            events: packed.map_or_else(|| Ok(Events::default()), unpacked_events)?,
            sources: Vec::new(),
            damage: Vec::new(),
            thinned_until_ns: thinned_until_ns.get(row),
        })
    });
    sessions.collect()
}

fn unpacked_events(packed: &[u8]) -> Result<Events> {
    let parts = unpack(packed)?;
    let parts = parts.iter().map(events_of).collect::<Result<Vec<_>>>()?;
    Ok(Events::joined(&parts.iter().collect::<Vec<_>>()))
}

/// The numbers in the OOM bundles (reports about out-of-memory errors) of the sessions, from the
/// column `details` of their rows.
fn bundles_of(rows: &RecordBatch) -> Result<Vec<BundleNumbers>> {
    let details = rows.column_by_name("details");
    let Some(details) = details.and_then(|column| column.as_list_opt::<i32>()) else {
        return Ok(Vec::new());
    };
    let mut bundles = Vec::new();
    for texts in details.iter().flatten() {
        let texts = RecordBatch::try_from_iter([("details", texts)])?;
        let column = Texts::of(&texts, "details")?;
        for row in 0..texts.num_rows() {
            let document = parse(column.text(row).as_bytes()).ok();
            bundles.extend(document.and_then(|document| BundleNumbers::of(document.as_map()?)));
        }
    }
    Ok(bundles)
}
