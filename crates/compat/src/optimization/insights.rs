//! Makes observations about the duration and the memory of profiled calls, such as slow functions.

use crate::gap::regression::{fit, mean, pearson, sample_deviation};
use serde::Serialize;
use stormlog_format::{Map, Text, Value};

use super::{ProfileThresholds, ProfiledCall, by_function, names, quantile, texts};
use crate::distinct;

/// An observation about profiled calls, such as slow functions, with recommendations.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct Insight {
    pub category: &'static str,
    pub title: &'static str,
    pub description: String,
    pub impact: &'static str,
    pub confidence: f64,
    pub data: Map,
    pub recommendations: Vec<String>,
}

/// All observations about the profiled calls: slow functions, varying durations, high memory use, a
/// correlation of duration and memory, and growing memory.
pub fn insights(calls: &[ProfiledCall], thresholds: &ProfileThresholds) -> Vec<Insight> {
    let all = [
        slow_functions(calls, thresholds),
        varying_functions(calls, thresholds),
        hungry_functions(calls, thresholds),
        correlation(calls),
        growth(calls),
    ];
    all.into_iter().flatten().collect()
}

/// For every function with at least `min_calls_for_analysis` calls, the durations of its calls in
/// seconds.
fn durations_by_function<'a>(
    calls: &'a [ProfiledCall],
    thresholds: &ProfileThresholds,
) -> Vec<(&'a Text, Vec<f64>)> {
    by_function(calls)
        .into_iter()
        .filter(|(_, calls)| calls.len() as f64 >= thresholds.min_calls_for_analysis)
        .map(|(function, calls)| (function, calls.iter().map(|call| call.seconds).collect()))
        .collect()
}

fn slow_functions(calls: &[ProfiledCall], thresholds: &ProfileThresholds) -> Option<Insight> {
    let times: Vec<(&Text, f64)> = durations_by_function(calls, thresholds)
        .into_iter()
        .map(|(function, times)| (function, mean(&times)))
        .collect();
    let means: Vec<f64> = times.iter().map(|(_, time)| *time).collect();
    if means.is_empty() {
        return None;
    }
    let threshold = quantile(&means, thresholds.slow_function_percentile);
    let slow: Vec<&(&Text, f64)> = times.iter().filter(|(_, time)| *time > threshold).collect();
    let slowest = slow
        .iter()
        .reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    let mut data = Map::new();
    data.insert(
        "slow_functions",
        names(slow.iter().map(|(function, _)| *function)),
    );
    data.insert("slowest_function", slowest.0.clone());
    data.insert("slowest_time", Value::Float(slowest.1));
    data.insert("threshold", Value::Float(threshold));
    Some(Insight {
        category: "execution_time",
        title: "Slow Function Detection",
        description: format!(
            "Identified {} functions with high execution times",
            slow.len()
        ),
        impact: if slow.len() > 3 { "high" } else { "medium" },
        confidence: 0.8,
        data,
        recommendations: texts(&[
            "Profile slow functions in detail",
            "Consider algorithmic optimizations",
            "Look for GPU/CPU synchronization issues",
            "Check for unnecessary memory transfers",
        ]),
    })
}

fn varying_functions(calls: &[ProfiledCall], thresholds: &ProfileThresholds) -> Option<Insight> {
    let varying: Vec<(&Text, f64)> = durations_by_function(calls, thresholds)
        .into_iter()
        .filter_map(|(function, times)| {
            let mean = mean(&times);
            (mean > 0.0).then(|| (function, sample_deviation(&times) / mean))
        })
        .filter(|(_, variation)| *variation > 0.5)
        .collect();
    let worst = varying
        .iter()
        .reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    let mut data = Map::new();
    data.insert(
        "variable_functions",
        names(varying.iter().map(|(function, _)| *function)),
    );
    let worst = vec![Value::Text(worst.0.clone()), Value::Float(worst.1)];
    data.insert("highest_variance", Value::List(worst));
    Some(Insight {
        category: "execution_time",
        title: "Inconsistent Execution Times",
        description: "Functions with highly variable execution times detected".into(),
        impact: "medium",
        confidence: 0.7,
        data,
        recommendations: texts(&[
            "Investigate causes of execution time variance",
            "Check for resource contention",
            "Look for input size dependencies",
            "Consider warming up functions before timing",
        ]),
    })
}

fn hungry_functions(calls: &[ProfiledCall], thresholds: &ProfileThresholds) -> Option<Insight> {
    let rates: Vec<(&Text, f64)> = calls
        .iter()
        .filter(|call| call.seconds > 0.0)
        .map(|call| (&call.function, call.allocated as f64 / call.seconds))
        .collect();
    let values: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
    if values.is_empty() {
        return None;
    }
    let threshold = quantile(&values, thresholds.high_memory_percentile);
    let hungry = rates.iter().filter(|(_, rate)| *rate > threshold);
    let hungry: Vec<&Text> = distinct(hungry.map(|(function, _)| *function));
    if hungry.is_empty() {
        return None;
    }
    let mut data = Map::new();
    data.insert("memory_intensive_functions", names(hungry.iter().copied()));
    data.insert("threshold_ratio", Value::Float(threshold));
    Some(Insight {
        category: "memory_efficiency",
        title: "Memory-Intensive Functions",
        description: format!("Identified {} memory-intensive functions", hungry.len()),
        impact: "medium",
        confidence: 0.75,
        data,
        recommendations: texts(&[
            "Optimize memory usage in intensive functions",
            "Consider using smaller data types",
            "Implement memory streaming for large operations",
            "Use gradient accumulation to reduce memory peaks",
        ]),
    })
}

fn correlation(calls: &[ProfiledCall]) -> Option<Insight> {
    if calls.len() < 10 {
        return None;
    }
    let times: Vec<f64> = calls.iter().map(|call| call.seconds).collect();
    let sizes: Vec<f64> = calls.iter().map(|call| call.allocated as f64).collect();
    let r = pearson(&times, &sizes)?;
    if r.abs() <= 0.7 {
        return None;
    }
    let mut data = Map::new();
    data.insert("correlation_coefficient", Value::Float(r));
    data.insert(
        "interpretation",
        if r > 0.0 { "positive" } else { "negative" },
    );
    Some(Insight {
        category: "correlation",
        title: "Time-Memory Correlation",
        description: format!("Strong correlation ({r:.2}) between execution time and memory"),
        impact: "medium",
        confidence: 0.8,
        data,
        recommendations: texts(&[
            "Memory allocation is a significant factor in execution time",
            "Consider memory pre-allocation strategies",
            "Optimize memory access patterns",
            "Monitor memory bandwidth utilization",
        ]),
    })
}

fn growth(calls: &[ProfiledCall]) -> Option<Insight> {
    if calls.len() < 5 {
        return None;
    }
    let mut by_time: Vec<&ProfiledCall> = calls.iter().collect();
    by_time.sort_by(|a, b| a.started_at.total_cmp(&b.started_at));
    let times: Vec<f64> = by_time.iter().map(|call| call.started_at).collect();
    let sizes: Vec<f64> = by_time
        .iter()
        .map(|call| call.allocated_after as f64)
        .collect();
    let line = fit(&times, &sizes)?;
    if line.slope <= 0.0 || line.r.abs() <= 0.5 || line.p_value >= 0.05 {
        return None;
    }
    let mut data = Map::new();
    data.insert("growth_rate", Value::Float(line.slope));
    data.insert("correlation", Value::Float(line.r));
    data.insert("p_value", Value::Float(line.p_value));
    let span = times.last()? - times.first()?;
    data.insert("time_span", Value::Float(span));
    Some(Insight {
        category: "temporal",
        title: "Memory Growth Trend",
        description: "Detected upward trend in memory usage over time".into(),
        impact: if line.slope > 1e6 { "high" } else { "medium" },
        confidence: line.r.abs(),
        data,
        recommendations: texts(&[
            "Investigate potential memory leaks",
            "Implement periodic memory cleanup",
            "Monitor long-running processes",
            "Consider memory usage limits",
        ]),
    })
}
