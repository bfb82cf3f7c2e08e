//! Artifacts of many ranks on one page, as stormlog 0.3.9's diagnostics tab loads them and sums
//! them up. Reads files; what it cannot read becomes a warning.

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
