//! Loads and summarizes the artifacts of many ranks, like the diagnostics tab of stormlog 0.3.9.
//! Files that cannot be read are reported as warnings.

mod candidates;
mod directory;
mod gather;
mod group;
mod model;
mod rank_choice;
mod rank_filter;
mod table;
mod timeline;

pub use candidates::Candidate;
pub use gather::{GatherError, Gathered, gather};
pub use model::{Indicator, Model, RankRow, RankTimeline, model};
pub use rank_filter::{RankFilterError, parse_rank_filter};
