//! Answers queries from rollups, the totals and extremes that a sink's recorder keeps while it
//! writes.

use std::sync::Arc;

use stormlog_format::rollup::{CounterSummary, Peak, RollupFile, SessionRollup};

use super::catalog::SourceKind;
use super::summary::{Group, GroupBy, Metric, SummaryRow};
use crate::in_order::InOrder;

impl super::Store {
    /// Computes the summary of a query from rollups. `None` unless every source is a sink whose
    /// rollups are up to date and can answer the query.
    pub(crate) fn summarize_rollups(
        &self,
        metric: Metric,
        group_by: GroupBy,
    ) -> Option<Vec<SummaryRow>> {
        let sources = &self.catalog().sources;
        if sources.is_empty() || sources.iter().any(|source| source.kind != SourceKind::Sink) {
            return None;
        }
        let files: Vec<Arc<RollupFile>> = (0..sources.len())
            .map(|index| self.rollups(index))
            .collect::<Option<_>>()?;
        let sessions: Vec<&SessionRollup> = files.iter().flat_map(|file| &file.sessions).collect();
        match metric {
            Metric::AlertCount => counts(metric, group_by, &sessions, |session| {
                session.alerts.total_count
            }),
            Metric::CollectorDegradationTransitions => {
                counts(metric, group_by, &sessions, |session| {
                    session.collector_health.transition_count
                })
            }
            Metric::HiddenMemoryGapGrowth => gap_growth(group_by, &sessions),
            _ => Some(peaks(metric, group_by, &sessions)),
        }
    }
}

fn key(group_by: GroupBy, session: &SessionRollup, rank: i64) -> Group {
    let summary = &session.session;
    group_by.key(&summary.session_id, rank, summary.status.as_str())
}

/// Counts events by group. `None` when grouped by rank, because rollups count events only per
/// session.
fn counts(
    metric: Metric,
    group_by: GroupBy,
    sessions: &[&SessionRollup],
    count: impl Fn(&SessionRollup) -> i64,
) -> Option<Vec<SummaryRow>> {
    if matches!(group_by, GroupBy::Rank | GroupBy::SessionRank) {
        return None;
    }
    let mut totals: InOrder<Group, i64> = InOrder::default();
    for session in sessions {
        let total = totals.entry(key(group_by, session, 0));
        *total = total.saturating_add(count(session));
    }
    let seen = totals
        .into_entries()
        .into_iter()
        .filter(|(_, count)| *count > 0);
    Some(
        seen.map(|(group, count)| SummaryRow::new(metric, group_by, group, count))
            .collect(),
    )
}

fn peaks(metric: Metric, group_by: GroupBy, sessions: &[&SessionRollup]) -> Vec<SummaryRow> {
    let pick = |counters: &CounterSummary| match metric {
        Metric::PeakAllocatorAllocatedBytes => counters.allocator_allocated_bytes,
        Metric::PeakAllocatorReservedBytes => counters.allocator_reserved_bytes,
        _ => counters.device_used_bytes,
    };
    let mut totals: InOrder<Group, Peak> = InOrder::default();
    let mut see = |group: Group, peak: Peak| {
        let best = totals.entry(group);
        if peak.value > best.value {
            *best = peak;
        }
    };
    for session in sessions {
        match group_by {
            GroupBy::Session | GroupBy::Status => {
                see(key(group_by, session, 0), pick(&session.counters));
            }
            GroupBy::Rank | GroupBy::SessionRank => {
                for rank in &session.ranks {
                    see(key(group_by, session, rank.rank), pick(&rank.counters));
                }
            }
        }
    }
    let rows = totals
        .into_entries()
        .into_iter()
        .filter_map(|(group, peak)| {
            let row = SummaryRow::new(metric, group_by, group, peak.value?);
            Some(row.with("timestamp_ns", peak.timestamp_ns))
        });
    rows.collect()
}

/// The growth of the hidden-memory gap (used minus reserved bytes) by group. Rollups store the
/// growth per session and rank. The result is `None` unless the groups are pairs of session and
/// rank, or the ranks of a single session.
fn gap_growth(group_by: GroupBy, sessions: &[&SessionRollup]) -> Option<Vec<SummaryRow>> {
    match group_by {
        GroupBy::SessionRank => {}
        GroupBy::Rank if sessions.len() == 1 => {}
        _ => return None,
    }
    let mut rows = Vec::new();
    for session in sessions {
        for rank in &session.ranks {
            let (Some(first), Some(latest), Some(delta)) = (
                rank.hidden_gap_first_bytes,
                rank.hidden_gap_latest_bytes,
                rank.hidden_gap_delta_bytes,
            ) else {
                continue;
            };
            let group = key(group_by, session, rank.rank);
            let row = SummaryRow::new(Metric::HiddenMemoryGapGrowth, group_by, group, delta);
            rows.push(
                row.with("first_gap_bytes", first)
                    .with("latest_gap_bytes", latest)
                    .with("peak_gap_bytes", rank.hidden_gap_peak_bytes)
                    .with("sample_count", rank.sample_count),
            );
        }
    }
    Some(rows)
}
