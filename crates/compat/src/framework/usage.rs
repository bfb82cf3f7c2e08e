//! Finds leaks, repetition and stepwise growth in a series of memory readings.

use crate::gap::regression::{mean, pearson, sample_deviation};
use stormlog_format::{Map, Text, Value};

use super::EDGE;

const FEWEST_FOR_LEAKS: usize = 10;
const FEWEST_FOR_PATTERNS: usize = 20;
const CHUNKS: usize = 4;

/// Signs of a leak in a series of memory readings in megabytes. `growth_rate` is not used for the
/// decision; it is copied into the result.
pub fn leaks(usage: &[f64], growth_rate: Value) -> Vec<Map> {
    let mut leaks = Vec::new();
    if usage.len() < FEWEST_FOR_LEAKS {
        return leaks;
    }
    let rising = usage.windows(2).filter(|pair| pair[1] > pair[0]).count();
    let share = rising as f64 / (usage.len() - 1) as f64;
    if share > 0.7 {
        let severity = if share > 0.9 { "high" } else { "medium" };
        let percent = share * 100.0;
        let description = format!("Memory shows monotonic increase in {percent:.1}% of samples");
        let mut leak = finding("monotonic_increase", severity, &description);
        leak.insert("growth_rate", growth_rate);
        leaks.push(leak);
    }
    let limit = mean(usage) + 3.0 * sample_deviation(usage);
    let spikes: Vec<Value> = usage
        .iter()
        .filter(|value| **value > limit)
        .map(|value| Value::Float(*value))
        .collect();
    if !spikes.is_empty() {
        let description = format!("Detected {} memory spikes above 3\u{3c3}", spikes.len());
        let mut leak = finding("memory_spikes", "medium", &description);
        leak.insert("spike_values", Value::List(spikes));
        leaks.push(leak);
    }
    let edge = |values: &[f64]| values.iter().sum::<f64>() / EDGE as f64;
    let (first, last) = (edge(&usage[..EDGE]), edge(&usage[usage.len() - EDGE..]));
    if last > first * 1.5 {
        let times = if first == 0.0 {
            "inf".to_owned()
        } else {
            format!("{:.1}", last / first)
        };
        let description = format!("Final memory {last:.1}MB is {times}x initial memory");
        let mut leak = finding("insufficient_cleanup", "medium", &description);
        leak.insert("initial_avg", Value::Float(first));
        leak.insert("final_avg", Value::Float(last));
        leaks.push(leak);
    }
    leaks
}

fn finding(kind: &str, severity: &str, description: &str) -> Map {
    let mut map = Map::new();
    map.insert("type", kind);
    map.insert("severity", severity);
    map.insert("description", Text::from(description));
    map
}

/// Patterns in a series of memory readings in megabytes, as entries for the report: a periodic
/// repetition, and many sudden rises (by more than 20 % from one reading to the next).
pub fn patterns(usage: &[f64]) -> Vec<Map> {
    let mut patterns = Vec::new();
    if usage.len() < FEWEST_FOR_PATTERNS {
        return patterns;
    }
    if let Some(likeness) = repetition(usage).filter(|likeness| *likeness > 0.7) {
        let mut pattern = Map::new();
        pattern.insert("type", "periodic_pattern");
        pattern.insert("correlation", Value::Float(likeness));
        let text = format!("Detected periodic memory pattern (correlation: {likeness:.3})");
        pattern.insert("description", Text::from(text));
        patterns.push(pattern);
    }
    let steps = usage
        .windows(2)
        .filter(|pair| pair[1] > pair[0] * 1.2)
        .count();
    if steps as f64 > usage.len() as f64 * 0.1 {
        let mut pattern = Map::new();
        pattern.insert("type", "step_pattern");
        pattern.insert("step_count", i64::try_from(steps).unwrap_or(i64::MAX));
        let text = format!("Detected {steps} sudden memory increases (step pattern)");
        pattern.insert("description", Text::from(text));
        patterns.push(pattern);
    }
    patterns
}

/// How similar neighbouring quarters of the series are: the mean of their correlation coefficients,
/// from -1 to 1. `None` when every pair of neighbouring quarters contains a quarter with constant
/// values.
fn repetition(usage: &[f64]) -> Option<f64> {
    let chunks: Vec<&[f64]> = usage
        .chunks_exact(usage.len() / CHUNKS)
        .take(CHUNKS)
        .collect();
    let likeness: Vec<f64> = chunks
        .windows(2)
        .filter_map(|pair| pearson(pair[0], pair[1]))
        .map(|likeness| likeness.clamp(-1.0, 1.0))
        .collect();
    (!likeness.is_empty()).then(|| mean(&likeness))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(found: &[Map]) -> Vec<String> {
        let kind = |map: &Map| map.text("type").map(Text::to_string);
        found.iter().filter_map(kind).collect()
    }

    fn ramp(count: u32, step: f64) -> Vec<f64> {
        (0..count).map(|n| 100.0 + f64::from(n) * step).collect()
    }

    #[test]
    fn growth_spikes_and_a_high_end_are_leaks() {
        assert_eq!(
            kinds(&leaks(&ramp(9, 10.0), Value::Int(0))),
            Vec::<String>::new()
        );
        assert_eq!(
            kinds(&leaks(&ramp(20, 10.0), Value::Int(0))),
            ["monotonic_increase", "insufficient_cleanup"]
        );
        let mut spiky = vec![100.0; 30];
        spiky[15] = 900.0;
        assert_eq!(kinds(&leaks(&spiky, Value::Int(0))), ["memory_spikes"]);
    }

    #[test]
    fn repetition_and_steps_are_patterns() {
        let wave: Vec<f64> = (0..40).map(|n| 100.0 + f64::from(n % 10)).collect();
        assert_eq!(kinds(&patterns(&wave)), ["periodic_pattern"]);
        let stairs: Vec<f64> = (0..20).map(|n| 1.5_f64.powi(n / 3)).collect();
        assert!(kinds(&patterns(&stairs)).contains(&"step_pattern".to_owned()));
        assert!(patterns(&[5.0; 40]).is_empty());
    }
}
