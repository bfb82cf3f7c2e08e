//! The queries of `stormlog query` over a lake, with the same rows as over files. SQL selects the
//! data for a query; the rows are made by the same code as for files, so that the results have the
//! same form.

use std::collections::HashMap;

use futures::TryStreamExt;
use stormlog_analysis::issue::{Issue, IssueFilter};
use stormlog_analysis::query::{
    GroupBy, Metric, OomBundle, OomFilter, SessionFilter, SessionRow, Store, SummaryRow,
};
use stormlog_analysis::record_id;
use stormlog_compat::correlate::{self, CorrelationError, CorrelationFilter, CorrelationResult};
use stormlog_format::json::parse;
use stormlog_format::{EventType, metadata_keys};

use crate::asker::{Asker, quoted};
use crate::columns::Texts;
use crate::error::AskError;
use crate::event_rows::{EventQuery, events_of};
use crate::recorded::{Gathered, Recorded, store_of_sessions};
use crate::summary;

impl Asker {
    /// The sessions in the lake that the filter selects, the newest first.
    pub async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionRow>, AskError> {
        Ok(store_of_sessions(self).await?.sessions(filter, None))
    }

    /// The OOM bundles (reports about out-of-memory errors) in the lake that the filter selects,
    /// the oldest first.
    pub async fn ooms(&self, filter: &OomFilter) -> Result<Vec<OomBundle>, AskError> {
        Ok(store_of_sessions(self).await?.oom_bundles(filter))
    }

    /// Computes a metric, such as the peak of used device memory, for each session, rank or status.
    pub async fn summary(
        &self,
        metric: Metric,
        group_by: GroupBy,
    ) -> Result<Vec<SummaryRow>, AskError> {
        summary::summarize(self, metric, group_by).await
    }

    /// What happened shortly before and after a given time, sorted by confidence (how certainly an
    /// entry is related to that time), then by distance in time.
    pub async fn correlate(
        &self,
        filter: &CorrelationFilter,
    ) -> Result<CorrelationResult, AskError> {
        let at_ns = match &filter.record_id {
            Some(id) => self.time_of(&id.to_str_lossy()).await?,
            None => filter.at_ns.ok_or(CorrelationError::NoAnchor)?,
        };
        let first = at_ns.saturating_sub(filter.window_ns);
        let last = at_ns.saturating_add(filter.window_ns);
        let mut events = Gathered::default();
        // Of the sessions that were recorded at that time, all rows of `events` are read, because a
        // phase may begin long before that time.
        let sessions = sessions_between(first, last);
        let queries = [
            EventQuery {
                with: format!("WITH chosen AS ({sessions})"),
                of_samples: Some(format!("timestamp_ns BETWEEN {first} AND {last}")),
                of_events: Some("TRUE".to_owned()),
            },
            ends_of_samples(&sessions, first, last),
        ];
        let sql = queries.map(|query| query.sql("chosen"));
        self.gather(&sql, &mut events).await?;
        let parts = Recorded::read(self).await?.into_parts(events);
        Ok(correlate::correlate(&Store::of_parts(parts), filter)?)
    }

    /// The issues (recurring problems) in the lake, as `stormlog query` lists them for files: the
    /// worst and latest first.
    pub async fn issues(&self, filter: &IssueFilter) -> Result<Vec<Issue>, AskError> {
        let mut events = Gathered::default();
        let trouble = EventQuery {
            with: String::new(),
            of_samples: Some(marked()),
            of_events: Some(format!("{} OR {}", troubled_types(), marked())),
        };
        self.gather(&[trouble.sql("")], &mut events).await?;
        let recorded = Recorded::read(self).await?;
        let anomalies = self.anomalies(&recorded).await?;
        let store = Store::of_parts(recorded.into_parts(events));
        Ok(store.issues_with(|| anomalies, filter, &HashMap::new()))
    }

    /// The hidden-memory anomalies, which were detected from all samples of a session when the
    /// session was ingested.
    async fn anomalies(&self, recorded: &Recorded) -> Result<Vec<Issue>, AskError> {
        let sql = "SELECT source_id, document FROM issues WHERE kind = 'hidden_memory_anomaly'";
        let mut found: Vec<(usize, Issue)> = Vec::new();
        for batch in self.batches(sql).await? {
            let source_id = Texts::of(&batch, "source_id")?;
            let document = Texts::of(&batch, "document")?;
            for row in 0..batch.num_rows() {
                let parsed = parse(document.text(row).as_bytes()).ok();
                let issue = parsed.and_then(|parsed| Issue::from_map(parsed.as_map()?));
                let issue = issue.ok_or_else(|| AskError::Cell {
                    table: "issues",
                    column: "document",
                    reason: "a value does not describe an issue".to_owned(),
                })?;
                found.push((recorded.index_of(source_id.text(row)), issue));
            }
        }
        found.sort_by_key(|(index, _)| *index);
        Ok(found.into_iter().map(|(_, issue)| issue).collect())
    }

    /// The time of the event with this id. The ids of events are hashes of whole records, so every
    /// event is read until one matches.
    async fn time_of(&self, wanted: &str) -> Result<i64, AskError> {
        let query = EventQuery {
            with: String::new(),
            of_samples: Some("TRUE".to_owned()),
            of_events: Some("TRUE".to_owned()),
        };
        let mut batches = self.stream(&query.sql("")).await?;
        while let Some(batch) = batches.try_next().await? {
            let events = events_of(&batch)?;
            let mut ids = events.iter();
            let is_it = |record: &_| record_id(record) == wanted;
            if let Some(event) = ids.find(|event| is_it(&event.to_event().to_record())) {
                return Ok(event.timestamp_ns());
            }
        }
        Err(CorrelationError::UnknownRecord(wanted.into()).into())
    }

    /// Runs queries for events and adds all their events, ordered by time within each session, to
    /// `events`.
    async fn gather(&self, queries: &[String], events: &mut Gathered) -> Result<(), AskError> {
        let parts: Vec<String> = queries
            .iter()
            .map(|sql| format!("SELECT * FROM ({sql})"))
            .collect();
        let sql = format!(
            "SELECT * FROM ({}) ORDER BY source_id, session_id, timestamp_ns, seq",
            parts.join(" UNION ALL ")
        );
        let mut batches = self.stream(&sql).await?;
        while let Some(batch) = batches.try_next().await? {
            events.add(&batch)?;
        }
        Ok(())
    }
}

/// A SQL query for the sessions that were recorded at some time between `first` and `last`.
fn sessions_between(first: i64, last: i64) -> String {
    format!(
        "SELECT source_id, session_id FROM \
         (SELECT source_id, session_id, first_ns, last_ns FROM rollups \
          UNION ALL SELECT source_id, session_id, timestamp_ns AS first_ns, \
          timestamp_ns AS last_ns FROM events) \
         GROUP BY source_id, session_id \
         HAVING min(first_ns) <= {last} AND max(last_ns) >= {first}"
    )
}

/// A query for the first and the last sample of each rank in sessions that have phases, if these
/// samples are not between `first` and `last`. The last one is needed because a phase that was
/// never left ends with the last event of its rank.
fn ends_of_samples(sessions: &str, first: i64, last: i64) -> EventQuery {
    let phases = format!(
        "event_type IN ({}, {})",
        quoted(EventType::PhaseEnter.as_str()),
        quoted(EventType::PhaseExit.as_str())
    );
    EventQuery {
        with: format!(
            "WITH phased AS (SELECT DISTINCT source_id, session_id FROM events WHERE {phases}), \
             recorded AS ({sessions}), \
             chosen AS (SELECT samples.source_id, samples.session_id, samples.rank AS of_rank, \
              min(samples.seq) AS first_seq, max(samples.seq) AS last_seq FROM samples \
              JOIN phased ON samples.source_id = phased.source_id \
              AND samples.session_id = phased.session_id \
              JOIN recorded ON samples.source_id = recorded.source_id \
              AND samples.session_id = recorded.session_id \
              GROUP BY samples.source_id, samples.session_id, samples.rank)"
        ),
        of_samples: Some(format!(
            "rank = of_rank AND seq IN (first_seq, last_seq) \
             AND timestamp_ns NOT BETWEEN {first} AND {last}"
        )),
        of_events: None,
    }
}

/// A SQL condition for events that report an error, a warning or a degraded collector by their
/// type.
fn troubled_types() -> String {
    let types = [
        EventType::Error,
        EventType::Critical,
        EventType::Warning,
        EventType::CollectorDegraded,
    ];
    let types = types.map(|one| quoted(one.as_str()));
    format!("event_type IN ({})", types.join(", "))
}

/// A condition for events whose metadata may contain a severity or a collector's health. Any
/// metadata with a backslash matches too, because there the key may be written with escape
/// sequences.
fn marked() -> String {
    let keys = [
        metadata_keys::SEVERITY,
        metadata_keys::COLLECTOR_HEALTH_STATUS,
        r"\",
    ];
    let keys = keys.map(|key| format!("strpos(metadata, {}) > 0", quoted(key)));
    keys.join(" OR ")
}
