//! Analyses memory profiles and recordings of TensorFlow and JAX programs. All sizes of memory are
//! in megabytes. The rules are the same for both frameworks, but the advice is worded for each of
//! them.

mod advice;
mod usage;

use crate::gap::regression::mean;
use stormlog_format::{Map, Text, Value, names};

pub use advice::{priority_actions, suggestions};
pub use usage::{leaks, patterns};

/// Number of values that are averaged at each end of a series to compute its trend.
const EDGE: usize = 5;

/// Minimum number of values that a series needs for a trend.
const FEWEST_FOR_TREND: usize = 10;

/// The framework of the profiled program. The advice names functions and options of this framework.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framework {
    /// TensorFlow.
    TensorFlow,
    /// JAX.
    Jax,
}

// The names under which programs import the frameworks.
names!(Framework {
    TensorFlow => "tensorflow",
    Jax => "jax",
});

/// The totals of all calls of one function in a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionProfile {
    /// The name of the function.
    pub name: Text,
    /// Number of calls.
    pub calls: i64,
    /// Duration of all calls together, in seconds.
    pub total_seconds: f64,
    /// Memory left in use by all calls together, in megabytes.
    pub total_memory_mb: f64,
    /// Highest memory in use during any call, in megabytes.
    pub peak_memory_mb: f64,
}

impl FunctionProfile {
    /// Memory left in use and seconds per call; `None` for a function that was not called.
    fn per_call(&self) -> Option<(f64, f64)> {
        let calls = self.calls as f64;
        (self.calls > 0).then(|| (self.total_memory_mb / calls, self.total_seconds / calls))
    }
}

/// Fragmentation: the share of reserved memory that is not in use, over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fragmentation {
    /// The mean share of reserved memory that is not in use, from 0 to 1.
    pub score: f64,
    /// The unused share at the end minus the unused share at the beginning.
    pub trend: f64,
    /// The largest and the smallest unused share, if any memory was reserved.
    pub range: Option<(f64, f64)>,
}

impl Fragmentation {
    /// Computes the fragmentation from snapshots in order of time; each is a pair of the megabytes
    /// in use and the megabytes reserved.
    pub fn of(snapshots: &[(f64, f64)]) -> Self {
        if snapshots.len() < 2 {
            return Self::default();
        }
        let reserved = snapshots.iter().filter(|(_, reserved)| *reserved > 0.0);
        let shares: Vec<f64> = reserved
            .map(|(used, reserved)| (reserved - used) / reserved)
            .collect();
        if shares.is_empty() {
            return Self::default();
        }
        let trend = if shares.len() >= FEWEST_FOR_TREND {
            mean(&shares[shares.len() - EDGE..]) - mean(&shares[..EDGE])
        } else {
            0.0
        };
        let largest = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let smallest = shares.iter().copied().fold(f64::INFINITY, f64::min);
        Self {
            score: mean(&shares),
            trend,
            range: Some((largest, smallest)),
        }
    }

    /// The fragmentation values as a map. `trend_name` is the key for the trend, which differs
    /// between reports.
    pub fn to_map(self, trend_name: &str) -> Map {
        let mut map = Map::new();
        map.insert("fragmentation_score", Value::Float(self.score));
        map.insert(trend_name, Value::Float(self.trend));
        if let Some((largest, smallest)) = self.range {
            map.insert("max_fragmentation", Value::Float(largest));
            map.insert("min_fragmentation", Value::Float(smallest));
        }
        map
    }
}

/// The efficiency score of a profile, from 0 to 10: 10, minus deductions for a high peak of memory,
/// for growth of memory, for fragmentation, and for signs of a leak in the readings `usage`.
pub fn efficiency(peak_mb: f64, growth: f64, fragmentation: f64, usage: Option<&[f64]>) -> f64 {
    let mut score = 10.0;
    score -= tier(peak_mb, (8000.0, 3.0), (4000.0, 1.5));
    score -= tier(growth, (200.0, 2.0), (100.0, 1.0));
    score -= tier(fragmentation, (0.5, 2.0), (0.3, 1.0));
    let leaks = usage.map(|usage| leaks(usage, Value::Float(0.0)));
    let leaks = leaks.unwrap_or_default();
    if !leaks.is_empty() {
        let high = Value::from("high");
        let severe = leaks.iter().any(|leak| leak.get("severity") == Some(&high));
        score -= if severe { 3.0 } else { 1.5 };
    }
    score.max(0.0)
}

fn tier(value: f64, high: (f64, f64), low: (f64, f64)) -> f64 {
    let tiers = [high, low].into_iter();
    let mut reached = tiers.filter(|(limit, _)| value > *limit);
    reached.next().map_or(0.0, |(_, cost)| cost)
}

/// The part of the report about functions: memory and time per call of every function that was
/// called, with recommendations.
pub fn performance(framework: Framework, functions: &[FunctionProfile]) -> Map {
    let mut by_name = Vec::new();
    let mut advice = Vec::new();
    for function in functions {
        let Some((memory, seconds)) = function.per_call() else {
            continue;
        };
        let mut map = Map::new();
        map.insert("avg_memory_per_call", Value::Float(memory));
        map.insert("avg_duration_per_call", Value::Float(seconds));
        let score = function_score((memory, seconds));
        map.insert("efficiency_score", Value::Float(score));
        map.insert("total_calls", function.calls);
        by_name.push((function.name.clone(), Value::Map(map)));
        let name = function.name.to_str_lossy();
        if memory > 2000.0 {
            advice.push(format!(
                "Function '{name}' uses high memory per call - consider optimization"
            ));
        }
        if function.calls > 100 && seconds > 0.1 {
            let remedy = match framework {
                Framework::TensorFlow => "caching or @tf.function",
                Framework::Jax => "caching or @jax.jit",
            };
            advice.push(format!(
                "Function '{name}' called frequently - consider {remedy}"
            ));
        }
    }
    let mut map = Map::new();
    map.insert("memory_duration_correlation", Value::Float(0.0));
    let by_name = Value::Map(Map::from_entries(by_name));
    map.insert("function_efficiency", by_name);
    map.insert("recommendations", list(advice));
    map
}

fn list(texts: Vec<String>) -> Value {
    let texts = texts.into_iter().map(|text| Value::Text(text.into()));
    Value::List(texts.collect())
}

fn function_score((memory_per_call, seconds_per_call): (f64, f64)) -> f64 {
    let memory = if memory_per_call > 1000.0 { 0.5 } else { 1.0 };
    let time = if seconds_per_call > 1.0 { 0.7 } else { 1.0 };
    memory * time
}

/// The part of the report with recommendations and the scores of a profile, from 0 to 10: memory
/// efficiency, fragmentation, performance, and the mean of the three. A profile without snapshots
/// has no fragmentation score, which then counts as 5 in the mean.
pub fn score(
    efficiency: f64,
    fragmentation: Option<f64>,
    functions: &[FunctionProfile],
    suggestions: Vec<String>,
) -> Map {
    let mut categories = Map::new();
    categories.insert("memory_efficiency", Value::Float(efficiency));
    let unfragmented = fragmentation.map(|share| (10.0 - share * 10.0).max(0.0));
    if let Some(unfragmented) = unfragmented {
        categories.insert("fragmentation", Value::Float(unfragmented));
    }
    let unfragmented = unfragmented.unwrap_or(5.0);
    let called = functions.iter().filter_map(FunctionProfile::per_call);
    let scores: Vec<f64> = called.map(function_score).collect();
    let performance = if scores.is_empty() {
        5.0
    } else {
        mean(&scores) * 10.0
    };
    categories.insert("performance", Value::Float(performance));
    let mut map = Map::new();
    let overall = (efficiency + unfragmented + performance) / 3.0;
    map.insert("overall_score", Value::Float(overall));
    map.insert("categories", Value::Map(categories));
    map.insert("top_recommendations", list(suggestions));
    let actions = priority_actions(efficiency, unfragmented, performance);
    map.insert("priority_actions", list(actions));
    map
}
