//! Everything that exists only to match stormlog 0.3.9: its analyses with the same numbers, keys
//! and texts, the evidence around a point in time (`correlate`), its conversion of records for
//! telemetry tools (`projection`), and the values that it derives from counters (`derived`).
//!
//! Existing scripts and dashboards read the reports of stormlog 0.3.9, so thresholds, sort orders
//! and rounding are the same as in stormlog 0.3.9, including its quirks. The findings for users
//! come from `analysis::detect` and not from this crate. Only the front ends depend on this crate:
//! the program, the Python crate and the lake. They run its analyses only when they write the keys,
//! lines or rows of stormlog 0.3.9.

mod analyses;
pub mod collective;
pub mod correlate;
pub mod cross_rank;
pub mod derived;
pub mod distributed;
mod document;
pub mod framework;
pub mod gap;
mod issues;
mod lines;
pub mod loose;
pub mod markers;
pub mod optimization;
pub mod phases;
pub mod projection;
mod rank_story;

pub use analyses::Analyses;
pub use document::ReportDocument;
pub use issues::hidden_memory_anomalies;
pub use lines::lines;
pub use rank_story::story_of_ranks;

/// The items without repetitions, in the order of their first occurrence.
fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct: Vec<T> = Vec::new();
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}
