//! The defaults in the sources of the Python package, which people read there, are those of the
//! recorder.

use std::fs;
use std::path::Path;

use stormlog_capture::oom::Retention;
use stormlog_capture::store::SinkConfig;

/// Checks that a source of the package contains lines such as `max_dumps: int = 5`.
fn check(file: &str, defaults: &[(&str, String)]) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/stormlog");
    let source = fs::read_to_string(package.join(file)).expect("the package is in the checkout");
    for (name, value) in defaults {
        let stated = source.lines().filter_map(|line| {
            let (declared, stated) = line.trim().split_once(" = ")?;
            let (declared, _) = declared.split_once(':')?;
            (declared == *name).then_some(stated.trim_end_matches(','))
        });
        let stated: Vec<_> = stated.collect();
        assert_eq!(stated, [value], "{file}: {name}");
    }
}

#[test]
fn sinks_have_the_same_defaults() {
    let config = SinkConfig::new("run");
    let mebibytes = |bytes: u64| format!("{} * 1024 * 1024", bytes >> 20);
    let grouped = |count: u64| format!("{}_{:03}", count / 1000, count % 1000);
    check(
        "telemetry_sink.py",
        &[
            ("flush_every_events", config.flush_every_events.to_string()),
            (
                "flush_every_seconds",
                format!("{:?}", config.flush_every.as_secs_f64()),
            ),
            ("rollover_max_bytes", mebibytes(config.rollover_max_bytes)),
            ("rollover_max_events", grouped(config.rollover_max_events)),
            (
                "retention_max_files",
                config.retention_max_files.to_string(),
            ),
            (
                "retention_max_total_bytes",
                mebibytes(config.retention_max_total_bytes),
            ),
            ("write_rollups", "True".to_owned()),
            (
                "rollup_window_seconds",
                config.rollup_window.as_secs().to_string(),
            ),
        ],
    );
    assert!(config.write_rollups && config.thinning.is_none());
}

#[test]
fn out_of_memory_bundles_have_the_same_defaults() {
    let Retention {
        max_dumps,
        max_total_mb,
    } = Retention::DEFAULT;
    let [most, megabytes] = [max_dumps, max_total_mb].map(|limit| limit.to_string());
    let of_config = [
        ("max_dumps", most.clone()),
        ("max_total_mb", megabytes.clone()),
    ];
    check("oom_flight_recorder.py", &of_config);
    let of_tracker = [("oom_max_dumps", most), ("oom_max_total_mb", megabytes)];
    check("tracker.py", &of_tracker);
    check("jax/tracker.py", &of_tracker);
}
