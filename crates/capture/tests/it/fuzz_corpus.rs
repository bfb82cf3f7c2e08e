//! Replays the corpus of the fuzzer (`fixtures/fuzz`) with the stable compiler: each input is
//! accepted or refused without a panic, in time, and in little memory.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

#[allow(unreachable_pub, reason = "a library of its own for the fuzzer")]
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;
#[allow(unreachable_pub, reason = "a library of its own for the fuzzer")]
#[path = "../../../../fuzz/src/targets.rs"]
mod targets;

/// Set in the process that replays.
const REPLAY: &str = "STORMLOG_TEST_REPLAY";

/// The memory limit for a few kilobytes of input; most of it is the address space of threads.
const MOST_KIB: u64 = 1 << 20;

/// The time limit. A few milliseconds are usual, but machines may be busy.
const LONGEST: Duration = Duration::from_secs(20);

#[test]
fn every_input_is_accepted_or_refused_in_bounds() {
    if std::env::var_os(REPLAY).is_some() {
        return replay();
    }
    // The limit applies to a whole process, and other tests share this one.
    let limited = format!("ulimit -v {MOST_KIB} && exec \"$0\" \"$@\"");
    let this = std::env::current_exe().unwrap();
    let test = "fuzz_corpus::every_input_is_accepted_or_refused_in_bounds";
    let done = Command::new("bash")
        .args(["-c", &limited])
        .arg(this)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(REPLAY, "1")
        .env("RAYON_NUM_THREADS", "2")
        .env("MALLOC_ARENA_MAX", "2")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{output}{errors}");
    assert!(output.contains("1 passed"), "{output}{errors}");
}

fn replay() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/fuzz");
    for (name, target) in targets::TARGETS {
        let inputs = corpus::read(&folder.join(format!("{name}.gz"))).expect("a corpus");
        assert!(inputs.len() >= 20, "{} inputs for {name}", inputs.len());
        for input in inputs {
            let begun = Instant::now();
            target(&input);
            let took = begun.elapsed();
            assert!(
                took < LONGEST,
                "{name}: {took:?} for {}",
                input.escape_ascii()
            );
        }
    }
}
