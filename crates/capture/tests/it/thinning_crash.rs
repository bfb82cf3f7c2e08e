//! Processes killed with SIGKILL while they thin: kept samples stay, nothing is doubled, and every
//! removed sample was counted.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use stormlog_analysis::{EventRef, LoadOptions, OnError, load_sessions, read_manifest};
use stormlog_capture::store::{BackgroundSink, Sink, SinkConfig, Thinning};
use stormlog_format::{Event, Manifest, json};

use crate::events::session;
use crate::process::{child, given_directory, kill};
use crate::scripted::wait_until;
use crate::thinning::busy_sample;

const DIRECTORIES: u64 = 20;
const KILLS_EACH: u64 = 10;

/// The budget is small, so that segments are rewritten all the time.
const BUDGET: u64 = 256 << 10;

/// A process is killed when it has thinned away at least this many samples. Ten processes together
/// thin away more samples than the budget can hold.
const LEAST_THINNED: i64 = 100;

/// One event in this many is not a sample and must survive.
const ALERT_EVERY: i64 = 499;

/// The length of the longest interval, in samples.
const HOUR: i64 = 36_000;

fn config(directory: &Path) -> SinkConfig {
    SinkConfig {
        flush_every_events: 7,
        rollover_max_events: 20,
        thinning: Some(Thinning {
            budget_bytes: BUDGET,
        }),
        ..SinkConfig::new(directory)
    }
}

fn event(id: &str, number: i64) -> Event {
    let mut event = busy_sample(id, number);
    if number % ALERT_EVERY == 0 {
        event.event_type = "warning".into();
    }
    event
}

/// The program that is killed: records no faster than thinning works, and prints how many
/// events it has flushed.
#[test]
fn victim() {
    let Some(directory) = given_directory() else {
        return;
    };
    let id = format!("session-{}", std::process::id());
    let report = |count: i64| {
        let mut out = std::io::stdout().lock();
        out.write_all(format!("\n@{count}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    };
    let pause = || std::thread::sleep(Duration::from_micros(300));
    let is_full = |bytes: u64| bytes > BUDGET;
    if std::process::id().is_multiple_of(2) {
        let sink = Sink::open(config(&directory)).unwrap();
        sink.start_session(Some(session(&id))).unwrap();
        for number in 0.. {
            sink.append(&event(&id, number)).unwrap();
            if (number + 1) % 35 == 0 {
                sink.flush(true).unwrap();
                report(number + 1);
                while is_full(sink.diagnostics().final_retained_bytes) {
                    pause();
                }
            }
        }
    } else {
        let sink = BackgroundSink::start(config(&directory), session(&id));
        for number in 0.. {
            sink.record(event(&id, number));
            if (number + 1) % 35 == 0 && sink.flush(Duration::from_mins(1)) {
                report(number + 1);
                while is_full(sink.diagnostics().final_retained_bytes) {
                    pause();
                }
            }
        }
    }
}

/// The facts about a killed process.
struct Killed {
    id: String,
    flushed: i64,
}

fn kill_one(directory: &Path, delay: Duration) -> Killed {
    let mut victim = child("thinning_crash::victim", directory).spawn().unwrap();
    let id = format!("session-{}", victim.id());
    let out = BufReader::new(victim.stdout.take().unwrap());
    let thinned_before = samples_thinned(directory);
    let reader = std::thread::spawn(move || {
        let mut last = 0;
        for line in out.split(b'\n').map_while(Result::ok) {
            let count = line.strip_prefix(b"@").map(String::from_utf8_lossy);
            if let Some(count) = count.and_then(|count| count.parse().ok()) {
                last = count;
            }
        }
        last
    });
    wait_until("the process has thinned", || {
        samples_thinned(directory) >= thinned_before + LEAST_THINNED
    });
    std::thread::sleep(delay);
    kill(victim);
    Killed {
        id,
        // A number that was cut off is smaller than the printed one.
        flushed: reader.join().unwrap(),
    }
}

/// The number of samples that the manifest on disk counts as thinned away.
fn samples_thinned(directory: &Path) -> i64 {
    let thinned = read_manifest(&directory.join("manifest.json"));
    let thinned = thinned.and_then(|manifest| manifest.thinned);
    thinned.unwrap_or_default().samples_dropped
}

/// The manifest on disk, before the loader settles it.
fn manifest(directory: &Path) -> Manifest {
    let text = std::fs::read(directory.join("manifest.json")).unwrap();
    Manifest::from_value(&json::parse(&text).unwrap()).unwrap()
}

/// Checks a directory; returns the number of events, the number of thinned samples, and whether the
/// last process was killed between announcing a rewrite and settling it.
fn check(directory: &Path, killed: &[Killed], seed: u64) -> (i64, i64, bool) {
    let options = LoadOptions {
        on_error: OnError::Raise,
        ..LoadOptions::default()
    };
    let loaded = load_sessions(directory, &options)
        .unwrap_or_else(|error| panic!("seed {seed}: {} {error}", directory.display()));
    let torn = |damage: &stormlog_analysis::Damage| damage.is_tear();
    assert!(
        loaded.damage.iter().all(torn),
        "seed {seed}: {:?}",
        loaded.damage
    );
    let (mut recorded, mut kept) = (0, 0);
    for killed in killed {
        let found = loaded
            .sessions
            .iter()
            .find(|session| session.summary.session_id == killed.id.as_str());
        let found = found.unwrap_or_else(|| panic!("seed {seed}: {} is gone", killed.id));
        let start = busy_sample("", 0).timestamp_ns;
        let numbers: Vec<i64> = found
            .events
            .iter()
            .map(|event| (event.timestamp_ns() - start) / 100_000_000)
            .collect();
        assert!(
            numbers.is_sorted_by(|a, b| a < b),
            "seed {seed}: {} has events twice",
            killed.id
        );
        let count = numbers.last().map_or(0, |last| last + 1);
        assert!(
            count >= killed.flushed,
            "seed {seed}: {} flushed {}, {count} are there",
            killed.id,
            killed.flushed
        );
        let alerts = numbers.iter().filter(|number| **number % ALERT_EVERY == 0);
        let expected = usize::try_from((count + ALERT_EVERY - 1) / ALERT_EVERY).unwrap();
        assert_eq!(alerts.count(), expected, "seed {seed}: {}", killed.id);
        // The first sample, and the extremes of the longest interval.
        let level = |number: i64| {
            let counters = busy_sample("", number).counters;
            counters.allocator_allocated_bytes
        };
        for hour in 0..=count / HOUR {
            let all = hour * HOUR..count.min((hour + 1) * HOUR);
            let samples = || all.clone().filter(|number| number % ALERT_EVERY != 0);
            let left = || numbers.iter().filter(|number| all.contains(number));
            let left = || left().copied().filter(|number| number % ALERT_EVERY != 0);
            assert_eq!(left().map(level).max(), samples().map(level).max());
            assert_eq!(left().map(level).min(), samples().map(level).min());
            assert_eq!(left().next(), samples().next(), "seed {seed}");
        }
        recorded += count;
        kept += i64::try_from(numbers.len()).unwrap();
        // The line is the written one, byte for byte.
        for event in found.events.iter().step_by(97).map(EventRef::to_event) {
            let number = (event.timestamp_ns - start) / 100_000_000;
            assert_eq!(event, self::event(&killed.id, number));
        }
    }
    let thinned = loaded.removed.thinned.unwrap_or_default().samples_dropped;
    assert_eq!(loaded.removed.pruned, None, "seed {seed}");
    assert_eq!(
        recorded,
        kept + thinned,
        "seed {seed}: {}",
        directory.display()
    );
    (kept, thinned, manifest(directory).rewriting.is_some())
}

#[test]
fn two_hundred_processes_killed_while_thinning_lose_nothing_that_was_kept() {
    let started = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = u64::from(now.subsec_nanos());
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let in_directory = |number: u64| {
        let directory = root.join(format!("sink-{number}"));
        let mut killed = Vec::new();
        let mut interrupted = 0;
        for round in 0..KILLS_EACH {
            let chance = seed
                .wrapping_mul(number + 1)
                .wrapping_add(round * 7_368_787)
                >> 3;
            killed.push(kill_one(
                &directory,
                Duration::from_micros(chance % 150_000),
            ));
            interrupted += u64::from(check(&directory, &killed, seed).2);
        }
        let before = check(&directory, &killed, seed);
        // The next sink settles what was left and continues to thin.
        drop(Sink::open(config(&directory)).unwrap());
        let after = check(&directory, &killed, seed);
        assert_eq!(before.0 + before.1, after.0 + after.1, "seed {seed}");
        (killed.len(), interrupted, after.0, after.1)
    };
    let halves: Vec<(usize, u64, i64, i64)> = std::thread::scope(|scope| {
        let half = |first: u64| {
            scope.spawn(move || {
                let mine = (first..DIRECTORIES).step_by(2).map(in_directory);
                mine.fold((0, 0, 0, 0), |sum, one| {
                    (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2, sum.3 + one.3)
                })
            })
        };
        [half(0), half(1)].map(|half| half.join().unwrap()).to_vec()
    });
    let (processes, interrupted, kept, thinned) =
        halves.into_iter().fold((0, 0, 0, 0), |sum, one| {
            (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2, sum.3 + one.3)
        });
    println!(
        "{processes} processes killed, {interrupted} of them within a rewrite's last steps; \
         {kept} events kept, {thinned} thinned away and counted, 0 lost, in {:.1} s",
        started.elapsed().as_secs_f64()
    );
    assert!(processes >= 200);
    assert!(
        thinned > kept,
        "only {thinned} of {} samples were thinned",
        thinned + kept
    );
}
