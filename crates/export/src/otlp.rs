//! Renders metrics in the OpenTelemetry protocol, as protobuf over HTTP. GPU metrics have the names
//! that OpenTelemetry's semantic conventions define (`hw.gpu.memory.*`), all others begin with
//! `stormlog.`. Host, job and rank are sent as attributes of the OpenTelemetry resource.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Datum;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric as Message, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

use crate::address::{Address, AddressError};
use crate::levels::{Kind, Labels, Levels, Metric, Number, Point};
use crate::prometheus::largest;

/// The HTTP content type of a request with metrics in the OpenTelemetry protocol.
pub const CONTENT_TYPE: &str = "application/x-protobuf";

/// The path that is appended to a collector's address to send metrics.
const PATH: &str = "/v1/metrics";

/// Labels that OpenTelemetry expects as attributes of the resource, with the names of these
/// attributes.
const RESOURCE: [(&str, &str); 3] = [
    ("host", "host.name"),
    ("job_id", "stormlog.job_id"),
    ("rank", "stormlog.rank"),
];

/// The address to which metrics are sent, made from the base address of a collector.
pub fn metrics_address(base: &Address) -> Result<Address, AddressError> {
    base.with_suffix(PATH)
}

/// Renders the current values of all metrics as a request body. `since_ns` is the time at which the
/// counters started.
#[must_use]
pub fn render(levels: &Levels, since_ns: i64) -> Vec<u8> {
    request(levels, since_ns).encode_to_vec()
}

/// The attributes of an OpenTelemetry resource: their names and values.
type Attributes = Vec<(&'static str, String)>;

fn request(levels: &Levels, since_ns: i64) -> ExportMetricsServiceRequest {
    let mut points: BTreeMap<(Attributes, Metric), Vec<NumberDataPoint>> = BTreeMap::new();
    for metric in Metric::ALL {
        let mut series: Vec<(&Labels, &Point)> = levels.series(*metric).collect();
        largest(&mut series);
        for (labels, point) in series {
            let key = (resource_of(labels), *metric);
            let point = data_point(labels, datum(point.number), point.at_ns, since_ns);
            points.entry(key).or_default().push(point);
        }
    }
    let mut resources: BTreeMap<Attributes, Vec<Message>> = BTreeMap::new();
    for ((resource, metric), points) in points {
        let message = message(metric, points);
        resources.entry(resource).or_default().push(message);
    }
    let mut shares: BTreeMap<Attributes, Vec<NumberDataPoint>> = BTreeMap::new();
    for (resource, point) in utilization(levels, since_ns) {
        shares.entry(resource).or_default().push(point);
    }
    for (resource, data_points) in shares {
        resources.entry(resource).or_default().push(Message {
            name: "hw.gpu.memory.utilization".into(),
            description: "Fraction of the device's memory that is in use.".into(),
            unit: "1".into(),
            data: Some(Data::Gauge(Gauge { data_points })),
            ..Message::default()
        });
    }
    let scope = InstrumentationScope {
        name: "stormlog".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    };
    let resource_metrics = resources.into_iter().map(|(resource, metrics)| {
        let service = text("service.name", "stormlog");
        let attributes = resource.iter().map(|(name, value)| match *name {
            "stormlog.rank" => integer(name, value),
            name => text(name, value),
        });
        ResourceMetrics {
            resource: Some(Resource {
                attributes: std::iter::once(service).chain(attributes).collect(),
                ..Resource::default()
            }),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(scope.clone()),
                metrics,
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }
    });
    ExportMetricsServiceRequest {
        resource_metrics: resource_metrics.collect(),
    }
}

fn resource_of(labels: &Labels) -> Attributes {
    let known = RESOURCE.iter();
    let known = known.filter_map(|(label, name)| Some((*name, labels.get(label)?.to_owned())));
    known.collect()
}

/// Computes the used share of each device's memory, for the devices whose used and total bytes are
/// both known.
fn utilization(
    levels: &Levels,
    since_ns: i64,
) -> impl Iterator<Item = (Attributes, NumberDataPoint)> {
    let totals: BTreeMap<&Labels, &Point> = levels.series(Metric::DeviceTotal).collect();
    levels
        .series(Metric::DeviceUsed)
        .filter_map(move |(labels, used)| {
            let (Number::Int(used_bytes), Number::Int(total)) =
                (used.number, totals.get(labels)?.number)
            else {
                return None;
            };
            let share = (total > 0).then(|| used_bytes as f64 / total as f64)?;
            let point = data_point(labels, Datum::AsDouble(share), used.at_ns, since_ns);
            Some((resource_of(labels), point))
        })
}

fn datum(number: Number) -> Datum {
    match number {
        Number::Int(value) => Datum::AsInt(value),
        Number::Float(value) => Datum::AsDouble(value),
    }
}

fn data_point(labels: &Labels, value: Datum, at_ns: i64, since_ns: i64) -> NumberDataPoint {
    let nanos = |at_ns: i64| u64::try_from(at_ns).unwrap_or(0);
    NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: nanos(since_ns),
        time_unix_nano: nanos(at_ns),
        value: Some(value),
        ..NumberDataPoint::default()
    }
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    let mut attributes = Vec::new();
    if labels.get("gpu").is_some() {
        let id = labels.get("mig").or(labels.get("device"));
        let id = id.map_or_else(
            || format!("gpu-{}", labels.get("gpu").unwrap_or_default()),
            str::to_owned,
        );
        attributes.push(text("hw.id", &id));
    }
    for (name, value) in labels.iter() {
        match name {
            "gpu" => attributes.push(integer("stormlog.gpu.index", value)),
            "pid" => attributes.push(integer("process.pid", value)),
            "device" | "mig" => {}
            name if RESOURCE.iter().any(|(label, _)| *label == name) => {}
            name => attributes.push(text(&format!("stormlog.{name}"), value)),
        }
    }
    attributes
}

/// The metric's name in OpenTelemetry's semantic conventions, if they define one.
fn conventional(metric: Metric) -> Option<&'static str> {
    match metric {
        Metric::DeviceUsed => Some("hw.gpu.memory.usage"),
        Metric::DeviceTotal => Some("hw.gpu.memory.limit"),
        _ => None,
    }
}

fn message(metric: Metric, data_points: Vec<NumberDataPoint>) -> Message {
    let conventional = conventional(metric);
    let name = conventional.map_or_else(|| format!("stormlog.{}", metric.name()), str::to_owned);
    let unit = match metric.unit() {
        "bytes" => "By",
        "seconds" => "s",
        _ => "1",
    };
    // OpenTelemetry's conventions define memory usage and memory limit as non-monotonic sums.
    let is_sum = conventional.is_some() || metric.kind() == Kind::Counter;
    let data = if is_sum {
        Data::Sum(Sum {
            data_points,
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
            is_monotonic: metric.kind() == Kind::Counter,
        })
    } else {
        Data::Gauge(Gauge { data_points })
    };
    Message {
        name,
        description: metric.help().into(),
        unit: unit.into(),
        data: Some(data),
        ..Message::default()
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Any::StringValue(value.to_owned()))
}

fn integer(key: &str, value: &str) -> KeyValue {
    match value.parse() {
        Ok(number) => attribute(key, Any::IntValue(number)),
        Err(_) => text(key, value),
    }
}

fn attribute(key: &str, value: Any) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}
