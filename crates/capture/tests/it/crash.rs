//! Processes killed with SIGKILL while they write: nothing that was flushed is lost, and
//! every sink loads.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use stormlog_analysis::{EventRef, LoadOptions, OnError, load_sessions};
use stormlog_capture::store::{BackgroundSink, Sink, SinkConfig};
use stormlog_format::SessionStatus;

use crate::events::{sample, session};
use crate::process::{child, given_directory, kill};

/// How many directories, and how many processes are killed in each, one after the other.
const DIRECTORIES: u64 = 30;
const KILLS_EACH: u64 = 7;

fn config(directory: &Path) -> SinkConfig {
    SinkConfig {
        flush_every_events: 7,
        rollover_max_events: 60,
        // Pruning would delete flushed events on purpose.
        retention_max_files: 1_000_000,
        ..SinkConfig::new(directory)
    }
}

/// The program that is killed: records as fast as it can and prints, after every flush,
/// how many events it has flushed.
#[test]
fn victim() {
    let Some(directory) = given_directory() else {
        return;
    };
    let id = format!("session-{}", std::process::id());
    let report = |count: u64| {
        let mut out = std::io::stdout().lock();
        out.write_all(format!("\n@{count}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    };
    if std::process::id().is_multiple_of(2) {
        let sink = Sink::open(config(&directory)).unwrap();
        sink.start_session(Some(session(&id))).unwrap();
        for number in 0.. {
            sink.append(&sample(&id, number)).unwrap();
            if (number + 1) % 7 == 0 {
                report(number.cast_unsigned() + 1);
            }
        }
    } else {
        let sink = BackgroundSink::start(config(&directory), session(&id));
        for number in 0.. {
            sink.record(sample(&id, number));
            if (number + 1) % 20 == 0 && sink.flush(Duration::from_mins(1)) {
                report(number.cast_unsigned() + 1);
            }
        }
    }
}

/// A small generator; the seed is in every message, so that a failure can be repeated.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The facts about a killed process.
struct Killed {
    id: String,
    flushed: usize,
}

fn kill_one(directory: &Path, chance: &mut Chance) -> Killed {
    let mut victim = child("crash::victim", directory).spawn().unwrap();
    let id = format!("session-{}", victim.id());
    let mut out = victim.stdout.take().unwrap();
    let (first_word, has_begun) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut output = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(length) = out.read(&mut piece)
            && length > 0
        {
            output.extend_from_slice(&piece[..length]);
            if output.contains(&b'@') {
                // After the first time the receiver no longer exists.
                let _ = first_word.send(());
            }
        }
        output
    });
    // Some die while they open the sink, most while they write.
    if chance.below(8) > 0 {
        has_begun.recv_timeout(Duration::from_mins(2)).unwrap();
    }
    std::thread::sleep(Duration::from_micros(chance.below(40_000)));
    kill(victim);
    let output = reader.join().unwrap();
    let output = String::from_utf8_lossy(&output);
    // Only text between two newlines was printed completely.
    let complete = &output[..output.rfind('\n').unwrap_or(0)];
    let last = complete
        .rsplit('\n')
        .find_map(|line| line.strip_prefix('@'));
    Killed {
        id,
        flushed: last.map_or(0, |count| count.parse().unwrap()),
    }
}

/// All events of every killed process are there in order, from the first to at least the last that
/// it flushed.
fn check(directory: &Path, killed: &[Killed], seed: u64) -> usize {
    let options = LoadOptions {
        on_error: OnError::Raise,
        ..LoadOptions::default()
    };
    let has_manifest = directory.join("manifest.json").exists();
    let loaded = match load_sessions(directory, &options) {
        Ok(loaded) => loaded.sessions,
        // The process was killed before it had written anything.
        Err(_) if !has_manifest && killed.iter().all(|killed| killed.flushed == 0) => return 0,
        Err(error) => panic!(
            "seed {seed}: {} does not load: {error}",
            directory.display()
        ),
    };
    for killed in killed {
        let found = loaded
            .iter()
            .find(|session| session.summary.session_id == killed.id.as_str());
        let Some(found) = found else {
            assert_eq!(killed.flushed, 0, "seed {seed}: {} is gone", killed.id);
            continue;
        };
        let times: Vec<i64> = found.events.iter().map(EventRef::timestamp_ns).collect();
        let expected: Vec<i64> = (0..i64::try_from(times.len()).unwrap())
            .map(|number| sample("", number).timestamp_ns)
            .collect();
        assert!(
            times.len() >= killed.flushed,
            "seed {seed}: {} flushed {} events, {} are there",
            killed.id,
            killed.flushed,
            times.len()
        );
        assert_eq!(times, expected, "seed {seed}: {}", killed.id);
    }
    loaded.iter().map(|session| session.events.len()).sum()
}

#[test]
fn two_hundred_processes_killed_while_writing_lose_nothing() {
    let started = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = u64::from(now.subsec_nanos());
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let in_directory = |number: u64| {
        let mut chance = Chance(seed.wrapping_add(number));
        let directory: PathBuf = root.join(format!("sink-{number}"));
        let mut killed = Vec::new();
        let mut events = 0;
        for _ in 0..KILLS_EACH {
            killed.push(kill_one(&directory, &mut chance));
            events = check(&directory, &killed, seed);
        }
        // The next sink sets the status of the sessions and loses nothing either.
        let sink = Sink::open(config(&directory)).unwrap();
        assert_eq!(
            sink.directory(),
            directory,
            "seed {seed}: the lock is still held"
        );
        drop(sink);
        assert_eq!(check(&directory, &killed, seed), events, "seed {seed}");
        let flushed: usize = killed.iter().map(|killed| killed.flushed).sum();
        let left = load_sessions(&directory, &LoadOptions::default());
        for session in left.map(|loaded| loaded.sessions).unwrap_or_default() {
            assert_eq!(
                session.summary.status,
                SessionStatus::Interrupted,
                "seed {seed}"
            );
            assert!(session.summary.ended_at_ns.is_some());
        }
        (killed.len(), flushed, events)
    };
    let halves: Vec<(usize, usize, usize)> = std::thread::scope(|scope| {
        let half = |first: u64| {
            scope.spawn(move || {
                let mine = (first..DIRECTORIES).step_by(2).map(in_directory);
                mine.fold((0, 0, 0), |sum, one| {
                    (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2)
                })
            })
        };
        let halves = [half(0), half(1)];
        halves.map(|half| half.join().unwrap()).to_vec()
    });
    let (processes, flushed, found) = halves.into_iter().fold((0, 0, 0), |sum, one| {
        (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2)
    });
    println!(
        "{processes} processes killed, {flushed} events flushed, {found} found, 0 lost, in {:.1} s",
        started.elapsed().as_secs_f64()
    );
    assert!(processes >= 200);
    assert!(
        flushed > processes,
        "too few events to mean anything: {flushed}"
    );
}
