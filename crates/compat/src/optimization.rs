//! Analyses profiled function calls with the rules of stormlog 0.3.9: patterns, insights and a
//! score.

mod insights;
mod patterns;
mod score;

use hashbrown::HashMap;
use stormlog_format::whole_count;
use stormlog_format::{Map, Text, Value};

pub use insights::{Insight, insights};
pub use patterns::{Pattern, patterns};
pub use score::{Recommendation, Score, recommendations, score};

/// One call of a function, as the profiler of stormlog 0.3.9 measures it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledCall {
    /// The name of the called function.
    pub function: Text,
    /// Duration of the call in seconds.
    pub seconds: f64,
    /// Start time of the call in seconds.
    pub started_at: f64,
    /// End time of the call in seconds.
    pub ended_at: f64,
    /// Bytes allocated before the call.
    pub allocated_before: i64,
    /// Bytes allocated after the call.
    pub allocated_after: i64,
    /// Bytes reserved after the call.
    pub reserved_after: i64,
    /// Highest number of bytes allocated during the call.
    pub peak: i64,
    /// Bytes that the call allocated, including bytes that it freed again.
    pub allocated: i64,
    /// Bytes that the call left allocated, as counted by the profiler.
    pub growth: i64,
}

/// The thresholds above which patterns and insights are reported.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the thresholds are those of stormlog 0.3.9")]
pub struct ProfileThresholds {
    pub memory_leak_ratio: f64,
    pub fragmentation_ratio: f64,
    pub inefficient_allocation_ratio: f64,
    pub slow_function_percentile: f64,
    pub high_memory_percentile: f64,
    pub min_calls_for_analysis: f64,
}

impl Default for ProfileThresholds {
    fn default() -> Self {
        Self {
            memory_leak_ratio: 0.7,
            fragmentation_ratio: 0.3,
            inefficient_allocation_ratio: 0.5,
            slow_function_percentile: 0.9,
            high_memory_percentile: 0.9,
            min_calls_for_analysis: 3.0,
        }
    }
}

/// The totals of all profiled calls, for the key `summary` of a report.
pub fn summary(calls: &[ProfiledCall]) -> Map {
    let total: i64 = calls.iter().map(|call| call.allocated).sum();
    let seconds = if calls.is_empty() {
        Value::Int(0)
    } else {
        Value::Float(calls.iter().map(|call| call.seconds).sum())
    };
    let mut summary = Map::new();
    summary.insert("total_functions_analyzed", count(by_function(calls).len()));
    summary.insert("total_function_calls", count(calls.len()));
    summary.insert("total_memory_allocated", total);
    summary.insert("total_execution_time", seconds);
    let last = calls
        .last()
        .map_or(Value::Null, |call| Value::Float(call.ended_at));
    summary.insert("analysis_timestamp", last);
    summary
}

/// The calls of each function, with the functions in the order of their first calls.
fn by_function(calls: &[ProfiledCall]) -> Vec<(&Text, Vec<&ProfiledCall>)> {
    let mut indices: HashMap<&Text, usize> = HashMap::new();
    let mut functions: Vec<(&Text, Vec<&ProfiledCall>)> = Vec::new();
    for call in calls {
        let index = *indices.entry(&call.function).or_insert_with(|| {
            functions.push((&call.function, Vec::new()));
            functions.len() - 1
        });
        functions[index].1.push(call);
    }
    functions
}

/// The value below which the given share of the values lies (0.5 is the median), with linear
/// interpolation; NaN when there are no values.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = share.clamp(0.0, 1.0) * (sorted.len().saturating_sub(1)) as f64;
    let below = whole_count(at);
    let low = sorted.get(below).copied().unwrap_or(f64::NAN);
    let high = sorted.get(below + 1).copied().unwrap_or(low);
    low + (high - low) * (at - below as f64)
}

fn count(value: usize) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn names<'a>(functions: impl IntoIterator<Item = &'a Text>) -> Value {
    Value::List(functions.into_iter().cloned().map(Value::Text).collect())
}
