//! Finds evidence around a point in time, the most certain first.

mod evidence;
mod marker_evidence;
mod rollup_evidence;

use serde::Serialize;
use stormlog_analysis::query::{EventFilter, Store, fits};
use stormlog_analysis::record_id;
use stormlog_format::json::map_of;
use stormlog_format::{Map, Text};

pub use evidence::{EVIDENCE_KINDS, Evidence};

/// The default time window before and after the point in time, in nanoseconds.
pub const DEFAULT_WINDOW_NS: i64 = 60_000_000_000;

/// The sessions from which evidence may come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Only one session: that of the event to examine, or the one given with the time to examine.
    #[default]
    Session,
    /// All sessions of one job: that of the event to examine, or the one given with the time.
    Distributed,
}

stormlog_format::names!(Scope {
    Session => "session",
    Distributed => "distributed",
});

/// How certain it is that evidence is related to a point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// The evidence matches by session or by job, and its rank is the same or unknown.
    High,
    /// The evidence matches by session or by job, but it is from another rank.
    Medium,
    /// The evidence matches only by time.
    #[default]
    Low,
}

stormlog_format::names!(Confidence {
    High => "high",
    Medium => "medium",
    Low => "low",
});

/// The point in time to examine, and which evidence to return.
#[derive(Clone, Debug)]
#[expect(
    missing_docs,
    reason = "each field is a flag of `stormlog query`, described in its help"
)]
pub struct CorrelationFilter {
    pub session_id: Option<Text>,
    pub job_id: Option<Text>,
    pub rank: Option<i64>,
    pub scope: Scope,
    pub at_ns: Option<i64>,
    pub record_id: Option<Text>,
    pub window_ns: i64,
    pub kinds: Vec<Text>,
    pub limit: Option<usize>,
}

impl Default for CorrelationFilter {
    fn default() -> Self {
        Self {
            session_id: None,
            job_id: None,
            rank: None,
            scope: Scope::Session,
            at_ns: None,
            record_id: None,
            window_ns: DEFAULT_WINDOW_NS,
            kinds: Vec::new(),
            limit: None,
        }
    }
}

/// Why the point in time to examine cannot be determined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum CorrelationError {
    #[error("correlation requires --at-ns or --record-id")]
    NoAnchor,
    #[error("record_id not found: {0}")]
    UnknownRecord(Text),
    #[error("record_id timestamp does not match at_ns")]
    WrongTime,
}

/// A point in time, and the events, OOM bundles and attachments recorded around it.
#[derive(Clone, Debug, Serialize)]
pub struct CorrelationResult {
    /// The point in time that was examined.
    pub anchor: Map,
    /// The evidence around the point in time.
    pub evidence: Vec<Evidence>,
    /// Warnings from the query, such as files that could not be read.
    pub warnings: Vec<String>,
}

/// A point in time to examine, with its session, job and rank.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Moment {
    pub(crate) at_ns: i64,
    record_id: Option<Text>,
    session_id: Option<Text>,
    job_id: Option<Text>,
    rank: Option<i64>,
    world_size: Option<i64>,
    source_path: Option<Text>,
    source_kind: Option<Text>,
    event_type: Option<Text>,
    scope: Scope,
    pub(crate) window_ns: i64,
}

impl Moment {
    fn of(store: &Store, filter: &CorrelationFilter) -> Result<Self, CorrelationError> {
        let of_filter = Self {
            window_ns: filter.window_ns,
            scope: filter.scope,
            ..Self::default()
        };
        let Some(wanted) = &filter.record_id else {
            return Ok(Self {
                at_ns: filter.at_ns.ok_or(CorrelationError::NoAnchor)?,
                session_id: filter.session_id.clone(),
                job_id: filter.job_id.clone(),
                rank: filter.rank,
                ..of_filter
            });
        };
        let rows = store.events(&EventFilter::default());
        let found = rows.iter().find(|row| {
            let record = row.event.to_event().to_record();
            record_id(&record) == *wanted
        });
        let row = found.ok_or_else(|| CorrelationError::UnknownRecord(wanted.clone()))?;
        let at_ns = row.event.timestamp_ns();
        if filter.at_ns.is_some_and(|given| given != at_ns) {
            return Err(CorrelationError::WrongTime);
        }
        let origin = row.event.origin();
        Ok(Self {
            at_ns,
            record_id: Some(wanted.clone()),
            session_id: Some(origin.session_id.clone()),
            job_id: origin.job_id.clone(),
            rank: Some(origin.rank),
            world_size: Some(origin.world_size),
            source_path: Some(row.source_path.clone()),
            source_kind: Some(row.source_kind.as_str().into()),
            event_type: Some(Text::from_bytes(row.event.event_type())),
            ..of_filter
        })
    }

    fn to_map(&self) -> Map {
        let mut map = map_of(self);
        map.insert("clock_domain", "unix_epoch_ns");
        map.insert("clock_normalization", "producer_emitted_epoch_ns");
        let note = "correlation does not rewrite cross-host clocks";
        map.insert("clock_note", note);
        map
    }

    /// The time between evidence and the point in time, in nanoseconds; `None` when the evidence
    /// has no time.
    fn distance(&self, evidence: &Evidence) -> Option<i64> {
        let start = evidence.start_ns.or(evidence.end_ns)?;
        let end = evidence.end_ns.or(evidence.start_ns)?;
        Some(if self.at_ns < start {
            start.saturating_sub(self.at_ns)
        } else if self.at_ns > end {
            self.at_ns.saturating_sub(end)
        } else {
            0
        })
    }

    /// Rates evidence: adds its confidence and the reasons for it. `None` when the evidence is not
    /// related to the point in time.
    fn judge(&self, mut evidence: Evidence, filter: &CorrelationFilter) -> Option<Evidence> {
        let other_rank = |rank: i64| evidence.rank.is_some_and(|given| given != rank);
        if !fits(filter.session_id.as_ref(), evidence.session_id.as_ref())
            || !fits(filter.job_id.as_ref(), evidence.job_id.as_ref())
            || filter.rank.is_some_and(other_rank)
        {
            return None;
        }
        let distance = self.distance(&evidence);
        if distance.is_some_and(|distance| distance > self.window_ns) {
            return None;
        }
        let both = |own: &Option<Text>, given: &Option<Text>| {
            own.as_ref()
                .zip(given.as_ref())
                .map(|(own, given)| own == given)
        };
        let session = both(&self.session_id, &evidence.session_id);
        let job = both(&self.job_id, &evidence.job_id);
        let identity = match (session, job) {
            (Some(true), _) => Some("same_session"),
            (_, Some(true)) if self.scope == Scope::Distributed => Some("same_job_distributed"),
            (Some(false), _) => return None,
            _ => None,
        };
        let when = match distance {
            Some(_) => "overlaps_anchor_window",
            None if identity.is_some() => "identifier_only_no_time",
            None => return None,
        };
        evidence.reasons.push(when);
        let Some(identity) = identity else {
            if job == Some(false) && self.session_id.is_some() {
                return None;
            }
            evidence.reasons.push("time_only_missing_shared_identifier");
            return Some(evidence);
        };
        let same_rank = match (self.rank, evidence.rank) {
            (Some(own), Some(given)) => own == given,
            _ => true,
        };
        evidence.reasons.push(identity);
        evidence.reasons.push(match (same_rank, identity) {
            (true, _) => "same_rank_or_rank_agnostic",
            (false, "same_session") => "cross_rank_same_session",
            (false, _) => "cross_rank_same_job",
        });
        evidence.confidence = if same_rank {
            Confidence::High
        } else {
            Confidence::Medium
        };
        Some(evidence)
    }
}

/// The evidence around a point in time, sorted by confidence, then by distance in time.
pub fn correlate(
    store: &Store,
    filter: &CorrelationFilter,
) -> Result<CorrelationResult, CorrelationError> {
    let moment = Moment::of(store, filter)?;
    let mut evidence: Vec<Evidence> = evidence::candidates(store, &moment, &filter.kinds)
        .into_iter()
        .filter_map(|evidence| moment.judge(evidence, filter))
        .collect();
    evidence.sort_by_cached_key(|evidence| {
        (
            evidence.confidence,
            moment.distance(evidence).unwrap_or(0),
            evidence.kind,
            evidence.title.clone(),
        )
    });
    if let Some(limit) = filter.limit {
        evidence.truncate(limit);
    }
    let warnings = store.warnings().into_iter();
    Ok(CorrelationResult {
        anchor: moment.to_map(),
        evidence,
        warnings: warnings.map(|warning| warning.message).collect(),
    })
}
