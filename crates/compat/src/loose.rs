//! Events that callers of the Python API pass as plain mappings. Such events need not follow the
//! schema.

use stormlog_analysis::EventRef;
use stormlog_format::{Map, Text, Value};

use crate::phases::{Boundary, Moment};

/// An event in which any field may be missing.
#[derive(Clone, Debug, Default)]
#[expect(
    missing_docs,
    reason = "each field has the name of its key in the record"
)]
pub struct LooseEvent {
    pub session_id: Option<Text>,
    pub timestamp_ns: Option<i64>,
    pub event_type: Option<Text>,
    pub context: Option<Text>,
    pub rank: LooseRank,
    pub local_rank: Option<i64>,
    pub world_size: Option<i64>,
    pub metadata: Map,
}

/// A rank as callers of the API may write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LooseRank {
    /// The event has no rank.
    #[default]
    Missing,
    /// The rank is a number.
    Number(i64),
    /// The rank is a text that contains a number.
    Spelled(i64),
    /// The value is not a rank.
    Unusable,
}

impl LooseRank {
    /// Converts a value to a rank.
    pub fn of(value: Option<&Value>) -> Self {
        match value {
            None => Self::Missing,
            Some(Value::Int(rank)) => Self::Number(*rank),
            Some(Value::Text(text)) => {
                stormlog_format::integer_of_text(text).map_or(Self::Unusable, Self::Spelled)
            }
            Some(_) => Self::Unusable,
        }
    }

    /// The rank, if it is a number.
    pub fn number(self) -> Option<i64> {
        match self {
            Self::Number(rank) => Some(rank),
            _ => None,
        }
    }

    /// The rank for computing the time spans of phases: a text with a number is accepted, and a
    /// missing rank is rank 0.
    pub fn for_replay(self) -> Option<i64> {
        match self {
            Self::Missing => Some(0),
            Self::Number(rank) | Self::Spelled(rank) => Some(rank),
            Self::Unusable => None,
        }
    }
}

impl LooseEvent {
    /// Converts a row of the event columns.
    pub fn of_row(event: EventRef<'_>) -> Self {
        let origin = event.origin();
        Self {
            session_id: Some(origin.session_id.clone()),
            timestamp_ns: Some(event.timestamp_ns()),
            event_type: Some(Text::from_bytes(event.event_type())),
            context: event.context().map(Text::from_bytes),
            rank: LooseRank::Number(origin.rank),
            local_rank: Some(origin.local_rank),
            world_size: Some(origin.world_size),
            metadata: event.metadata(),
        }
    }

    /// The part of the event that is needed to compute the time spans of phases; `None` when a
    /// required field is missing.
    pub fn moment(&self) -> Option<Moment> {
        let event_type = self.event_type.as_ref();
        Some(Moment {
            session_id: self.session_id.clone()?,
            rank: self.rank.for_replay()?,
            timestamp_ns: self.timestamp_ns?,
            boundary: event_type.and_then(|kind| Boundary::of(kind, &self.metadata)),
        })
    }
}
