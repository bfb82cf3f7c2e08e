//! Renders metrics in the text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use crate::bounded::MOST_SERIES;
use crate::levels::{Kind, Labels, Levels, Metric, Number, Point};

/// The content type of the Prometheus text format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The full name of a metric for Prometheus, such as `stormlog_device_memory_used_bytes`.
#[must_use]
pub fn name(metric: Metric) -> String {
    let mut name = format!("stormlog_{}", metric.name());
    if !metric.unit().is_empty() {
        name.push('_');
        name.push_str(metric.unit());
    }
    if metric.kind() == Kind::Counter {
        name.push_str("_total");
    }
    name
}

/// Renders the current values of all metrics. Metrics without a known value are left out. If a
/// metric has very many series, only the series with the largest values are rendered and
/// `stormlog_series_left_out` counts the others.
#[must_use]
pub fn render(levels: &Levels) -> String {
    let mut text = String::new();
    let version = env!("CARGO_PKG_VERSION");
    header(
        &mut text,
        "stormlog_build_info",
        Kind::Gauge,
        "Version of the program.",
    );
    let _ = writeln!(text, "stormlog_build_info{{version=\"{version}\"}} 1");
    let mut left_out = 0;
    for metric in Metric::ALL {
        let mut series: Vec<(&Labels, &Point)> = levels.series(*metric).collect();
        if series.is_empty() {
            continue;
        }
        left_out += largest(&mut series);
        let name = name(*metric);
        header(&mut text, &name, metric.kind(), metric.help());
        for (labels, point) in series {
            sample(&mut text, &name, labels, point.number);
        }
    }
    let name = "stormlog_series_left_out";
    let help =
        format!("Series left out of this scrape: at most {MOST_SERIES} per metric are sent.");
    header(&mut text, name, Kind::Gauge, &help);
    let _ = writeln!(text, "{name} {left_out}");
    text
}

/// Keeps the series with the largest values, in the order of their labels, and returns how many
/// series were left out.
pub(crate) fn largest(series: &mut Vec<(&Labels, &Point)>) -> usize {
    let left_out = series.len().saturating_sub(MOST_SERIES);
    if left_out > 0 {
        let value = |point: &Point| match point.number {
            Number::Int(value) => value as f64,
            Number::Float(value) => value,
        };
        series.sort_by(|a, b| value(b.1).total_cmp(&value(a.1)).then(a.0.cmp(b.0)));
        series.truncate(MOST_SERIES);
        series.sort_by(|a, b| a.0.cmp(b.0));
    }
    left_out
}

fn header(text: &mut String, name: &str, kind: Kind, help: &str) {
    let kind = match kind {
        Kind::Gauge => "gauge",
        Kind::Counter => "counter",
    };
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn sample(text: &mut String, name: &str, labels: &Labels, number: Number) {
    text.push_str(name);
    let mut open = '{';
    for (label, value) in labels.iter() {
        text.push(open);
        let _ = write!(text, "{label}=\"");
        escape(text, value);
        text.push('"');
        open = ',';
    }
    if open == ',' {
        text.push('}');
    }
    let _ = match number {
        Number::Int(value) => writeln!(text, " {value}"),
        Number::Float(value) => writeln!(text, " {value}"),
    };
}

/// Escapes a label value. The Prometheus format requires escapes for three characters; other
/// control characters are replaced, because people cannot read them.
fn escape(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c if c.is_control() => text.push('\u{fffd}'),
            c => text.push(c),
        }
    }
}
