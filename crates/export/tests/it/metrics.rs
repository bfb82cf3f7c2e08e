//! The numbers of recordings in Prometheus and OTLP form.

use std::collections::BTreeMap;
use std::path::Path;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Datum;
use prost::Message as _;
use stormlog_export::levels::{DeviceId, Labels, Metric, Number};
use stormlog_export::{Levels, Recordings, otlp, prometheus};
use stormlog_format::{Counters, Event, Map, Value, Version};

const NOW: i64 = 1_790_000_000_000_000_000;
const UUID: &str = "GPU-0b7c5a2e-1f7e-4a53-9a3a-000000000001";

fn sample(device_id: i64, at_ns: i64) -> Event {
    Event {
        version: Version::V3,
        session_id: "s".into(),
        timestamp_ns: at_ns,
        event_type: "sample".into(),
        collector: "c".into(),
        sampling_interval_ms: 100,
        pid: 4711,
        host: "node7".into(),
        job_id: Some("job-1".into()),
        rank: 3,
        local_rank: 3,
        world_size: 8,
        device_id,
        counters: Counters {
            allocator_allocated_bytes: Some(1000),
            allocator_reserved_bytes: Some(2000),
            allocator_change_bytes: Some(0),
            device_used_bytes: Some(3000),
            device_free_bytes: Some(5000),
            device_total_bytes: Some(8000),
            ..Counters::default()
        },
        context: None,
        metadata: Map::new(),
    }
}

fn gpu() -> DeviceId {
    DeviceId {
        uuid: Some(UUID.into()),
    }
}

fn of_samples(events: &[(Event, DeviceId)]) -> Levels {
    let mut levels = Levels::default();
    for (event, device) in events {
        levels.add_sample(event, device);
        levels.add_steps(event, device);
    }
    levels
}

fn lines(levels: &Levels) -> Vec<String> {
    let text = prometheus::render(levels);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_sample_is_recognized_however_its_type_is_spelled() {
    let mut event = sample(0, NOW);
    event.event_type = "Sample".into();
    let mut levels = Levels::default();
    let fresh = Recordings::default().add_latest(&[event], NOW, &mut levels);
    assert_eq!(fresh.len(), 1);
}

#[test]
fn a_device_and_its_process_have_their_own_series() {
    let mut event = sample(0, NOW);
    event.metadata.insert("process_device_used_bytes", 2500);
    event.metadata.insert("step_count", 40);
    let mut others = Map::new();
    others.insert("815", 400);
    others.insert("x", 1);
    event.metadata.insert("other_processes", Value::Map(others));
    let lines = lines(&of_samples(&[(event, gpu())]));
    let device = format!("host=\"node7\",device=\"{UUID}\",gpu=\"0\"");
    let process = format!(
        "host=\"node7\",job_id=\"job-1\",rank=\"3\",pid=\"4711\",device=\"{UUID}\",gpu=\"0\""
    );
    for line in [
        format!("stormlog_device_memory_used_bytes{{{device}}} 3000"),
        format!("stormlog_device_memory_free_bytes{{{device}}} 5000"),
        format!("stormlog_device_memory_total_bytes{{{device}}} 8000"),
        format!("stormlog_process_device_memory_used_bytes{{{process}}} 2500"),
        format!(
            "stormlog_process_device_memory_used_bytes{{host=\"node7\",pid=\"815\",device=\"{UUID}\",gpu=\"0\"}} 400"
        ),
        format!("stormlog_allocator_allocated_bytes{{{process}}} 1000"),
        format!("stormlog_allocator_reserved_bytes{{{process}}} 2000"),
        format!("stormlog_steps_total{{{process}}} 40"),
        format!("stormlog_last_sample_timestamp_seconds{{{process}}} 1790000000"),
        "stormlog_series_left_out 0".to_owned(),
    ] {
        assert!(lines.contains(&line), "{line} is not in {lines:#?}");
    }
}

#[test]
fn numbers_that_are_no_counts_have_no_series() {
    let mut device = sample(0, NOW);
    device.metadata.insert("process_device_used_bytes", -5);
    device.metadata.insert("allocator_peak_bytes", "7");
    device
        .metadata
        .insert("pinned_bytes", Value::Float(f64::NAN));
    device.metadata.insert("step_count", Value::Bool(true));
    let mut others = Map::new();
    others.insert("815", -1);
    others.insert("816", Value::Null);
    device
        .metadata
        .insert("other_processes", Value::Map(others));
    let mut host = sample(-1, NOW);
    let row = Value::List([4712, -1, 2].map(Value::Int).to_vec());
    host.metadata.insert("processes", Value::List(vec![row]));
    let lines = lines(&of_samples(&[(device, gpu()), (host, DeviceId::default())]));
    for metric in [
        "process_device_memory_used",
        "allocator_peak",
        "host_memory_pinned",
        "steps",
        "process_host_memory_",
    ] {
        let prefix = format!("stormlog_{metric}");
        assert!(!lines.iter().any(|line| line.starts_with(&prefix)));
    }
}

#[test]
fn host_memory_is_that_of_the_program_and_of_each_process() {
    let mut event = sample(-1, NOW);
    let row = |numbers: [i64; 4]| Value::List(numbers.map(Value::Int).to_vec());
    let rows = vec![row([4711, 10, 1, 0]), row([4712, 20, 2, 0]), Value::Null];
    event.metadata.insert("processes", Value::List(rows));
    let lines = lines(&of_samples(&[(event, DeviceId::default())]));
    let of = |pid: u32| format!("host=\"node7\",job_id=\"job-1\",rank=\"3\",pid=\"{pid}\"");
    for line in [
        format!("stormlog_host_memory_used_bytes{{{}}} 3000", of(4711)),
        format!("stormlog_host_memory_limit_bytes{{{}}} 8000", of(4711)),
        format!(
            "stormlog_process_host_memory_anonymous_bytes{{{}}} 20",
            of(4712)
        ),
        format!(
            "stormlog_process_host_memory_shared_bytes{{{}}} 1",
            of(4711)
        ),
    ] {
        assert!(lines.contains(&line), "{line} is not in {lines:#?}");
    }
    assert!(!lines.iter().any(|line| line.contains("device_memory")));
}

#[test]
fn what_is_unknown_is_absent() {
    let mut event = sample(0, NOW);
    event.counters.device_free_bytes = None;
    // A version 3 record must have these numbers; the metadata marks them as unknown.
    let partial = ["device_used_bytes", "allocator_allocated_bytes"].map(Value::from);
    let partial = Value::List(partial.to_vec());
    event.metadata.insert("collector_partial_fields", partial);
    let levels = of_samples(&[(event, DeviceId::default())]);
    let count = |metric| levels.series(metric).count();
    assert_eq!(
        (count(Metric::DeviceUsed), count(Metric::DeviceFree)),
        (0, 0)
    );
    assert_eq!((count(Metric::Allocated), count(Metric::Reserved)), (0, 1));
    assert_eq!((count(Metric::Steps), count(Metric::DeviceTotal)), (0, 1));
    let text = prometheus::render(&levels);
    assert!(!text.contains("device_memory_used"), "{text}");
    assert!(!text.contains("device=\""), "{text}");
}

#[test]
fn a_mig_instance_has_a_label_of_its_own() {
    let mig = DeviceId {
        uuid: Some("MIG-77".into()),
    };
    let lines = lines(&of_samples(&[(sample(0, NOW), mig)]));
    let used = "stormlog_device_memory_used_bytes{host=\"node7\",mig=\"MIG-77\",gpu=\"0\"} 3000";
    assert!(lines.contains(&used.to_owned()), "{lines:#?}");
}

#[test]
fn hostile_names_are_escaped_and_shortened() {
    let mut event = sample(0, NOW);
    event.host = "a\"b\\c\nd\r\u{1b}[31m".into();
    event.job_id = Some("x".repeat(100_000).into());
    let text = prometheus::render(&of_samples(&[(event, DeviceId::default())]));
    assert!(
        text.contains("host=\"a\\\"b\\\\c\\nd\u{fffd}\u{fffd}[31m\""),
        "{text}"
    );
    assert!(text.len() < 10_000);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let value = line.rsplit(' ').next().unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    let secret = Labels::new().with("job_id", "https://me:hunter2@host");
    assert!(!format!("{secret:?}").contains("hunter2"));
}

#[test]
fn of_too_many_series_the_largest_are_sent_and_the_others_counted() {
    let mut levels = Levels::default();
    for pid in 0..5000 {
        let labels = Labels::new().with("pid", pid);
        levels.set(Metric::ProcessAnonymous, labels, Number::Int(pid), NOW);
    }
    let lines = lines(&levels);
    let kept = lines.iter().filter(|line| line.contains("pid="));
    assert_eq!(kept.count(), 1000);
    assert!(lines.contains(&"stormlog_series_left_out 4000".to_owned()));
    assert!(
        lines
            .iter()
            .any(|line| line.ends_with("{pid=\"4999\"} 4999"))
    );
}

#[test]
fn of_one_series_the_latest_number_counts() {
    let later = sample(0, NOW + 1);
    let mut earlier = sample(0, NOW);
    earlier.counters.device_used_bytes = Some(1);
    let levels = of_samples(&[(later, gpu()), (earlier, gpu())]);
    let used: Vec<Number> = levels
        .series(Metric::DeviceUsed)
        .map(|(_, point)| point.number)
        .collect();
    assert_eq!(used, [Number::Int(3000)]);
}

/// Attributes by name.
fn named(attributes: &[KeyValue]) -> BTreeMap<&str, String> {
    let text = |attribute: &KeyValue| match &attribute.value.as_ref().unwrap().value {
        Some(Any::StringValue(text)) => text.clone(),
        Some(Any::IntValue(number)) => format!("{number}i"),
        other => panic!("{other:?}"),
    };
    let attributes = attributes.iter();
    attributes
        .map(|attribute| (attribute.key.as_str(), text(attribute)))
        .collect()
}

#[test]
fn otlp_has_every_number_with_its_time_unit_and_resource() {
    let mut event = sample(0, NOW);
    event.metadata.insert("process_device_used_bytes", 2500);
    event.metadata.insert("step_count", 40);
    let levels = of_samples(&[(event, gpu())]);
    let body = otlp::render(&levels, NOW - 7);
    let request = ExportMetricsServiceRequest::decode(&*body).unwrap();
    let mut found = BTreeMap::new();
    for of_resource in &request.resource_metrics {
        let resource = named(&of_resource.resource.as_ref().unwrap().attributes);
        assert_eq!(resource["service.name"], "stormlog");
        assert_eq!(resource["host.name"], "node7");
        let [scope] = &of_resource.scope_metrics[..] else {
            panic!("one scope")
        };
        assert_eq!(scope.scope.as_ref().unwrap().name, "stormlog");
        for metric in &scope.metrics {
            let (points, is_sum, is_monotonic) = match metric.data.as_ref().unwrap() {
                Data::Gauge(gauge) => (&gauge.data_points, false, false),
                Data::Sum(sum) => {
                    assert_eq!(sum.aggregation_temporality, 2);
                    (&sum.data_points, true, sum.is_monotonic)
                }
                other => panic!("{other:?}"),
            };
            let [point] = &points[..] else {
                panic!("one point")
            };
            assert_eq!(point.time_unix_nano, u64::try_from(NOW).unwrap());
            assert_eq!(point.start_time_unix_nano, u64::try_from(NOW - 7).unwrap());
            let attributes = named(&point.attributes);
            assert_eq!(attributes["hw.id"], UUID);
            assert_eq!(attributes["stormlog.gpu.index"], "0i");
            let is_of_process = resource.contains_key("stormlog.rank");
            assert_eq!(is_of_process, attributes.contains_key("process.pid"));
            if is_of_process {
                assert_eq!(resource["stormlog.rank"], "3i");
                assert_eq!(resource["stormlog.job_id"], "job-1");
                assert_eq!(attributes["process.pid"], "4711i");
            }
            let value = match point.value.unwrap() {
                Datum::AsInt(value) => value.to_string(),
                Datum::AsDouble(value) => format!("{value:?}"),
            };
            let kind = (is_sum, is_monotonic);
            let entry = (value, metric.unit.clone(), kind, is_of_process);
            assert_eq!(found.insert(metric.name.clone(), entry), None);
        }
    }
    let expected = [
        ("hw.gpu.memory.limit", "8000", "By", (true, false), false),
        ("hw.gpu.memory.usage", "3000", "By", (true, false), false),
        (
            "hw.gpu.memory.utilization",
            "0.375",
            "1",
            (false, false),
            false,
        ),
        (
            "stormlog.allocator_allocated",
            "1000",
            "By",
            (false, false),
            true,
        ),
        (
            "stormlog.allocator_reserved",
            "2000",
            "By",
            (false, false),
            true,
        ),
        (
            "stormlog.device_memory_free",
            "5000",
            "By",
            (false, false),
            false,
        ),
        (
            "stormlog.last_sample_timestamp",
            "1790000000.0",
            "s",
            (false, false),
            true,
        ),
        (
            "stormlog.process_device_memory_used",
            "2500",
            "By",
            (false, false),
            true,
        ),
        ("stormlog.steps", "40", "1", (true, true), true),
    ];
    let expected = expected.map(|(name, value, unit, kind, of_process)| {
        let entry = (value.to_owned(), unit.to_owned(), kind, of_process);
        (name.to_owned(), entry)
    });
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn several_devices_of_a_host_share_a_resource() {
    let events = [
        (sample(0, NOW), DeviceId::default()),
        (sample(1, NOW), DeviceId::default()),
    ];
    let body = otlp::render(&of_samples(&events), NOW);
    let request = ExportMetricsServiceRequest::decode(&*body).unwrap();
    assert_eq!(request.resource_metrics.len(), 2);
    let of_host = &request.resource_metrics[0].scope_metrics[0].metrics;
    let utilization = of_host.last().unwrap();
    assert_eq!(utilization.name, "hw.gpu.memory.utilization");
    let Some(Data::Gauge(gauge)) = &utilization.data else {
        panic!("a gauge")
    };
    let ids: Vec<String> = gauge
        .data_points
        .iter()
        .map(|point| named(&point.attributes)["hw.id"].clone())
        .collect();
    assert_eq!(ids, ["gpu-0", "gpu-1"]);
}

fn write_sink(directory: &Path, status: &str, lines: &[Event]) {
    let text: Vec<String> = lines.iter().map(Event::to_line).collect();
    let text = text.join("\n") + "\n";
    std::fs::write(directory.join("segment-000001.jsonl"), &text).unwrap();
    let manifest = format!(
        "{{\"schema_version\": 2, \"format\": \"stormlog-telemetry-sink\", \"dropped_event_count\": 5, \
         \"sessions\": [{{\"session_id\": \"s\", \"status\": \"{status}\", \"started_at_ns\": 1, \
         \"ended_at_ns\": null, \"host\": \"node7\", \"pid\": 4711, \"job_id\": null, \"rank\": 3, \
         \"local_rank\": 3, \"world_size\": 8, \"source\": \"test\"}}], \
         \"segments\": [{{\"filename\": \"segment-000001.jsonl\", \"event_count\": {}, \
         \"size_bytes\": {}, \"closed\": false, \"session_id\": \"s\"}}]}}",
        lines.len(),
        text.len()
    );
    std::fs::write(directory.join("manifest.json"), manifest).unwrap();
}

fn read(directory: &Path, now_ns: i64) -> Levels {
    let mut levels = Levels::default();
    Recordings::default().read_below(directory, now_ns, &mut levels);
    levels
}

#[test]
fn of_a_sink_the_latest_samples_are_read_with_the_id_of_the_device() {
    let folder = tempfile::tempdir().unwrap();
    let mut start = sample(0, NOW - 100);
    start.event_type = "start".into();
    start.metadata.insert("device_uuid", UUID);
    let mut events = vec![start];
    for number in 0..5000 {
        let mut event = sample(0, NOW - 50_000 + number);
        event.counters.device_used_bytes = Some(number);
        // The last step ended some samples ago.
        if number <= 4990 {
            event.metadata.insert("step_count", number);
        }
        events.push(event);
    }
    write_sink(folder.path(), "running", &events);
    let levels = read(folder.path(), NOW);
    let number = |metric: Metric| {
        let series: Vec<_> = levels.series(metric).collect();
        let [(labels, point)] = &series[..] else {
            panic!("{metric:?}: {series:?}")
        };
        ((*labels).clone(), point.number)
    };
    let (labels, used) = number(Metric::DeviceUsed);
    assert_eq!(used, Number::Int(4999));
    assert_eq!(labels.get("device"), Some(UUID));
    assert_eq!(number(Metric::Steps).1, Number::Int(4990));
    assert_eq!(number(Metric::Recorded).1, Number::Int(5001));
    assert_eq!(number(Metric::Dropped).1, Number::Int(5));
}

#[test]
fn what_ended_or_fell_silent_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let events = [sample(0, NOW)];
    write_sink(folder.path(), "running", &events);
    assert_eq!(
        read(folder.path(), NOW).series(Metric::DeviceUsed).count(),
        1
    );
    let minutes = 120_000_000_000;
    let silent = read(folder.path(), NOW + minutes);
    assert_eq!(silent.series(Metric::DeviceUsed).count(), 0);
    assert_eq!(silent.series(Metric::Recorded).count(), 0);
    write_sink(folder.path(), "completed", &events);
    assert_eq!(
        read(folder.path(), NOW).series(Metric::DeviceUsed).count(),
        0
    );
}
