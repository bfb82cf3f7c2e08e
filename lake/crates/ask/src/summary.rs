//! The query `summary`: one number per session, rank or status, computed by the SQL engine.

use datafusion::arrow::array::RecordBatch;
use stormlog_analysis::query::{GroupBy, Metric, SourceKind, SummaryRow};
use stormlog_format::{EventType, Map, SEGMENT_PREFIX, Text};

use crate::asker::{Asker, quoted};
use crate::columns::{Ints, Texts};
use crate::error::AskError;
use crate::recorded::store_of_sessions;

/// Computes a metric for each session, each rank or each status, as `group_by` says. Sessions,
/// ranks or statuses for which the metric has no value are left out.
pub(crate) async fn summarize(
    asker: &Asker,
    metric: Metric,
    group_by: GroupBy,
) -> Result<Vec<SummaryRow>, AskError> {
    let value = match metric {
        // These metrics are computed from sessions alone, without events.
        Metric::SessionCountByStatus | Metric::InterruptedSessionsWithOomBundles => {
            return Ok(store_of_sessions(asker).await?.summarize(metric, group_by));
        }
        Metric::PeakAllocatorAllocatedBytes => "allocator_allocated_bytes",
        Metric::PeakAllocatorReservedBytes => "allocator_reserved_bytes",
        Metric::PeakDeviceUsedBytes => "device_used_bytes",
        Metric::AlertCount | Metric::CollectorDegradationTransitions => "CAST(0 AS BIGINT)",
        Metric::HiddenMemoryGapGrowth => "device_used_bytes - allocator_reserved_bytes",
    };
    let transitions = format!(
        "event_type IN ('{}', '{}')",
        EventType::CollectorDegraded.as_str(),
        EventType::CollectorRecovered.as_str()
    );
    let is_sample = format!("event_type = '{}'", EventType::Sample.as_str());
    // The conditions for the rows of `samples` and of `events` that count for the metric.
    let (of_samples, of_events) = match metric {
        // A sample counts as an alert only when its metadata contain a severity.
        Metric::AlertCount => (
            "metadata LIKE '%severity%' AND is_alert(event_type, metadata)".to_owned(),
            "is_alert".to_owned(),
        ),
        Metric::CollectorDegradationTransitions => ("FALSE".to_owned(), transitions),
        Metric::HiddenMemoryGapGrowth => (is_sample.clone(), is_sample),
        _ => ("TRUE".to_owned(), "TRUE".to_owned()),
    };
    let select = |table: &str, condition: &str| {
        format!(
            "SELECT source_id, seq, session_id, rank, timestamp_ns, {value} AS value \
             FROM {table} WHERE {condition} AND {value} IS NOT NULL"
        )
    };
    let seen = format!(
        "{} UNION ALL {}",
        select("samples", &of_samples),
        select("events", &of_events)
    );
    // Several processes may record one session, each as a source of its own, and the table `sessions`
    // may have a row for only some of these sources. An event of a source without a row gets the
    // status of another row with the same session id.
    let keys = match group_by {
        GroupBy::Session => "seen.session_id AS session_id",
        GroupBy::SessionRank => "seen.session_id AS session_id, seen.rank AS rank",
        GroupBy::Rank => "seen.rank AS rank",
        GroupBy::Status => "COALESCE(own.status, known.status) AS status",
    };
    let group = match group_by {
        GroupBy::Session => "seen.session_id",
        GroupBy::SessionRank => "seen.session_id, seen.rank",
        GroupBy::Rank => "seen.rank",
        GroupBy::Status => "COALESCE(own.status, known.status)",
    };
    let order = "seen.timestamp_ns, seen.session_id, seen.source_id, seen.seq";
    let sql = format!(
        "WITH seen AS ({seen}), \
         known AS (SELECT session_id, min(status) AS status FROM sessions \
          WHERE source_kind <> {} OR first_file LIKE {} GROUP BY session_id), \
         own AS (SELECT source_id, session_id, min(status) AS status FROM sessions \
          GROUP BY source_id, session_id) \
         SELECT {keys}, count(*) AS events, max(value) AS peak, \
         first_value(seen.timestamp_ns ORDER BY value DESC, {order}) AS peak_ns, \
         first_value(value ORDER BY {order}) AS first, \
         last_value(value ORDER BY {order}) AS latest \
         FROM seen JOIN known ON seen.session_id = known.session_id \
         LEFT JOIN own ON seen.source_id = own.source_id AND seen.session_id = own.session_id \
         GROUP BY {group}",
        // Sessions known only from the timeline file of a diagnose bundle are left out. A sink inside
        // a bundle counts like any other sink.
        quoted(SourceKind::DiagnoseBundle.as_str()),
        quoted(&format!("%/{SEGMENT_PREFIX}%")),
    );
    let mut rows = Vec::new();
    for batch in asker.batches(&sql).await? {
        rows.extend(rows_of(&batch, metric, group_by)?);
    }
    SummaryRow::sort(&mut rows);
    Ok(rows)
}

fn rows_of(
    batch: &RecordBatch,
    metric: Metric,
    group_by: GroupBy,
) -> Result<Vec<SummaryRow>, AskError> {
    let text = |name| batch.column_by_name(name).map(|_| Texts::of(batch, name));
    let (session_id, status) = (text("session_id").transpose()?, text("status").transpose()?);
    let rank = batch
        .column_by_name("rank")
        .map(|_| Ints::of(batch, "rank"));
    let rank = rank.transpose()?;
    let int = |name| Ints::of(batch, name);
    let (events, peak, peak_ns) = (int("events")?, int("peak")?, int("peak_ns")?);
    let (first, latest) = (int("first")?, int("latest")?);
    let rows = (0..batch.num_rows()).map(|row| {
        let mut details = Map::new();
        let value = match metric {
            Metric::AlertCount | Metric::CollectorDegradationTransitions => events.number(row),
            Metric::HiddenMemoryGapGrowth => {
                details.insert("first_gap_bytes", first.number(row));
                details.insert("latest_gap_bytes", latest.number(row));
                details.insert("peak_gap_bytes", peak.number(row));
                details.insert("sample_count", events.number(row));
                latest.number(row).saturating_sub(first.number(row))
            }
            _ => {
                details.insert("timestamp_ns", peak_ns.number(row));
                peak.number(row)
            }
        };
        let known = |column: &Option<Texts>| column.as_ref()?.get(row).map(Text::from);
        SummaryRow {
            metric,
            group_by,
            session_id: known(&session_id),
            rank: rank.as_ref().and_then(|rank| rank.get(row)),
            status: known(&status),
            value,
            details,
        }
    });
    Ok(rows.collect())
}
