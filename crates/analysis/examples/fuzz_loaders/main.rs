//! Feeds mutated artifacts to every loader: `fuzz_loaders EXECUTIONS [SEED]`.
//!
//! The corpus is `fixtures/runs` and the conformance kit's artifacts. Ends with 1 when a
//! loader panicked, hung, or gave different events when streaming and when loading.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "an example measures and talks to its caller"
)]

mod fuzzing;

use std::path::Path;
use std::time::Instant;

use fuzzing::{Corpus, Fuzzer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let executions: u64 = arguments
        .next()
        .ok_or("usage: fuzz_loaders EXECUTIONS [SEED]")?
        .parse()?;
    let seed: u64 = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let corpus = Corpus::read(&[
        &root.join("fixtures/runs"),
        &root.join("tests/conformance/artifacts"),
    ])?;
    // What panics is counted and shown with its input; the default message would drown it.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let start = Instant::now();
    let mut fuzzer = Fuzzer::new(corpus, seed)?;
    let mut slowest = 0.0_f64;
    for done in 1..=executions {
        let before = start.elapsed();
        if let Some(failure) = fuzzer.execute() {
            println!("failure: {failure}");
        }
        let took = start.elapsed().saturating_sub(before).as_secs_f64();
        slowest = slowest.max(took);
        if took > 5.0 {
            fuzzer.failures += 1;
            println!("failure: {took:.1} s in {}", fuzzer.last());
        }
        if done % 100_000 == 0 {
            eprintln!("{done} executions, {:.0} s", start.elapsed().as_secs_f64());
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{executions} executions from seed {seed} in {seconds:.0} s, slowest {slowest:.3} s");
    for (target, count) in fuzzer.counts() {
        println!(
            "  {target:<12} {:>9} executions, {:>9} loaded, {:>9} refused",
            count.loaded + count.refused,
            count.loaded,
            count.refused
        );
    }
    println!("{} failures", fuzzer.failures);
    if fuzzer.failures > 0 {
        return Err("some executions failed".into());
    }
    Ok(())
}
