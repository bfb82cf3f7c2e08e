//! Finds patterns in profiled calls that waste memory, such as leaks, fragmentation and spikes.

use crate::gap::regression::mean;
use serde::Serialize;
use stormlog_format::{Map, Text, Value};

use super::{ProfileThresholds, ProfiledCall, by_function, count, names, quantile, texts};
use crate::distinct;

const MEBIBYTE: i64 = 1 << 20;

/// A way in which profiled functions waste memory, such as a leak, with the functions in which it
/// was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct Pattern {
    pub pattern_type: &'static str,
    pub description: String,
    pub severity: &'static str,
    pub affected_functions: Vec<Text>,
    pub metrics: Map,
    pub suggestions: Vec<String>,
}

/// Finds all patterns of wasted memory in the calls: leaks, fragmentation, inefficient allocation,
/// spikes and repeated small allocations, in this order.
pub fn patterns(calls: &[ProfiledCall], thresholds: &ProfileThresholds) -> Vec<Pattern> {
    let mut found = leaks(calls, thresholds);
    found.extend(fragmentation(calls, thresholds));
    found.extend(inefficiency(calls, thresholds));
    found.extend(spikes(calls));
    found.extend(repetition(calls));
    found
}

fn leaks(calls: &[ProfiledCall], thresholds: &ProfileThresholds) -> Vec<Pattern> {
    let mut found = Vec::new();
    for (function, calls) in by_function(calls) {
        if (calls.len() as f64) < thresholds.min_calls_for_analysis {
            continue;
        }
        let growing = calls.iter().filter(|call| call.growth > 0).count();
        let total: i64 = calls.iter().map(|call| call.growth).sum();
        let ratio = growing as f64 / calls.len() as f64;
        if total <= 100 * MEBIBYTE || ratio <= thresholds.memory_leak_ratio {
            continue;
        }
        let mut metrics = Map::new();
        metrics.insert("total_memory_growth", total);
        let average = total as f64 / calls.len() as f64;
        metrics.insert("average_growth_per_call", Value::Float(average));
        metrics.insert("positive_growth_ratio", Value::Float(ratio));
        metrics.insert("call_count", count(calls.len()));
        found.push(Pattern {
            pattern_type: "memory_leak",
            description: format!("Function '{function}' shows potential memory leak pattern"),
            severity: if total > 1024 * MEBIBYTE {
                "critical"
            } else {
                "warning"
            },
            affected_functions: vec![function.clone()],
            metrics,
            suggestions: vec![
                format!("Review memory management in '{function}'"),
                "Check for uncleaned tensors or variables".into(),
                "Use torch.cuda.empty_cache() if appropriate".into(),
                "Consider using context managers for tensor lifecycle".into(),
            ],
        });
    }
    found
}

fn fragmentation(calls: &[ProfiledCall], thresholds: &ProfileThresholds) -> Option<Pattern> {
    let ratios: Vec<(&Text, f64)> = calls
        .iter()
        .filter(|call| call.reserved_after > 0)
        .map(|call| {
            let unused = (call.reserved_after - call.allocated_after) as f64;
            (&call.function, unused / call.reserved_after as f64)
        })
        .collect();
    let values: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
    if values.is_empty() {
        return None;
    }
    let average = mean(&values);
    if average <= thresholds.fragmentation_ratio {
        return None;
    }
    let high = ratios
        .iter()
        .filter(|(_, ratio)| *ratio > thresholds.fragmentation_ratio);
    let affected = distinct(high.map(|(function, _)| (*function).clone()));
    let mut metrics = Map::new();
    metrics.insert("average_fragmentation", Value::Float(average));
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    metrics.insert("max_fragmentation", Value::Float(highest));
    metrics.insert("high_fragmentation_functions", count(affected.len()));
    Some(Pattern {
        pattern_type: "fragmentation",
        description: "High memory fragmentation detected across operations".into(),
        severity: if average > 0.5 { "critical" } else { "warning" },
        affected_functions: affected,
        metrics,
        suggestions: texts(&[
            "Call torch.cuda.empty_cache() periodically",
            "Restructure code to reduce allocation/deallocation cycles",
            "Consider pre-allocating tensors when possible",
            "Use tensor.detach() to break computation graphs early",
        ]),
    })
}

fn inefficiency(calls: &[ProfiledCall], thresholds: &ProfileThresholds) -> Option<Pattern> {
    let mut affected = Vec::new();
    let mut efficiencies = Vec::new();
    for (function, calls) in by_function(calls) {
        let of_function: Vec<f64> = calls
            .iter()
            .filter(|call| call.allocated > 0)
            .map(|call| (call.peak - call.allocated_before) as f64 / call.allocated as f64)
            .filter(|efficiency| {
                *efficiency > 0.0 && *efficiency < thresholds.inefficient_allocation_ratio
            })
            .collect();
        if (of_function.len() as f64) < thresholds.min_calls_for_analysis || of_function.is_empty()
        {
            continue;
        }
        affected.push(function.clone());
        efficiencies.push(mean(&of_function));
    }
    if affected.is_empty() {
        return None;
    }
    let mut metrics = Map::new();
    metrics.insert("inefficient_function_count", count(affected.len()));
    metrics.insert("average_efficiency", Value::Float(mean(&efficiencies)));
    Some(Pattern {
        pattern_type: "inefficient_allocation",
        description: "Functions with inefficient memory allocation patterns detected".into(),
        severity: "warning",
        affected_functions: affected,
        metrics,
        suggestions: texts(&[
            "Review allocation patterns in inefficient functions",
            "Consider using in-place operations where possible",
            "Pre-allocate tensors to avoid repeated allocations",
            "Use tensor views instead of copies when appropriate",
        ]),
    })
}

fn spikes(calls: &[ProfiledCall]) -> Option<Pattern> {
    let allocating: Vec<&ProfiledCall> = calls.iter().filter(|call| call.allocated > 0).collect();
    if allocating.len() < 3 {
        return None;
    }
    let sizes: Vec<f64> = allocating
        .iter()
        .map(|call| call.allocated as f64)
        .collect();
    let (low, high) = (quantile(&sizes, 0.25), quantile(&sizes, 0.75));
    let threshold = high + 1.5 * (high - low);
    let spikes: Vec<&&ProfiledCall> = allocating
        .iter()
        .filter(|call| call.allocated as f64 > threshold)
        .collect();
    if spikes.is_empty() {
        return None;
    }
    let largest = spikes.iter().map(|call| call.allocated).max().unwrap_or(0);
    let mut metrics = Map::new();
    metrics.insert("spike_count", count(spikes.len()));
    metrics.insert("spike_threshold", Value::Float(threshold));
    metrics.insert("max_allocation", largest);
    metrics.insert("median_allocation", median(&allocating));
    Some(Pattern {
        pattern_type: "memory_spikes",
        description: format!("Detected {} memory allocation spikes", spikes.len()),
        severity: if spikes.len() < 5 {
            "warning"
        } else {
            "critical"
        },
        affected_functions: distinct(spikes.iter().map(|call| call.function.clone())),
        metrics,
        suggestions: texts(&[
            "Investigate functions causing memory spikes",
            "Consider batch processing to reduce peak memory",
            "Use gradient checkpointing for large models",
            "Implement memory monitoring in spike-prone functions",
        ]),
    })
}

/// The median number of bytes that a call allocated: an integer for an odd number of calls,
/// otherwise a float.
fn median(calls: &[&ProfiledCall]) -> Value {
    let mut sizes: Vec<i64> = calls.iter().map(|call| call.allocated).collect();
    sizes.sort_unstable();
    let middle = sizes.len() / 2;
    if sizes.len() % 2 == 1 {
        Value::Int(sizes[middle])
    } else {
        Value::Float(f64::midpoint(
            (sizes[middle - 1]) as f64,
            sizes[middle] as f64,
        ))
    }
}

fn repetition(calls: &[ProfiledCall]) -> Option<Pattern> {
    let mut repeated: Vec<(&Text, i64)> = by_function(calls)
        .into_iter()
        .filter(|(_, calls)| calls.len() >= 10)
        .map(|(function, calls)| {
            let total: i64 = calls.iter().map(|call| call.allocated).sum();
            (function, total, calls.len())
        })
        .filter(|(_, total, calls)| *total as f64 / (*calls as f64) < (50 * MEBIBYTE) as f64)
        .map(|(function, total, _)| (function, total))
        .collect();
    if repeated.is_empty() {
        return None;
    }
    repeated.sort_by_key(|(_, total)| std::cmp::Reverse(*total));
    let affected: Vec<Text> = repeated
        .iter()
        .map(|(function, _)| (*function).clone())
        .collect();
    let mut metrics = Map::new();
    metrics.insert("function_count", count(repeated.len()));
    metrics.insert("total_impact_functions", names(affected.iter().take(5)));
    let total: i64 = repeated.iter().map(|(_, total)| total).sum();
    metrics.insert("total_memory_from_repeated", total);
    Some(Pattern {
        pattern_type: "repeated_allocations",
        description: "Functions with frequent small allocations detected".into(),
        severity: "info",
        affected_functions: affected,
        metrics,
        suggestions: texts(&[
            "Consider pre-allocating memory for frequently called functions",
            "Use tensor pools or memory buffers for repeated allocations",
            "Batch operations to reduce allocation overhead",
            "Cache tensors between function calls when possible",
        ]),
    })
}
