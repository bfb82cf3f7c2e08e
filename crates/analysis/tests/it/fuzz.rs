//! A short run of the fuzzer; `examples/fuzz_loaders` runs as long as it is told to.

use crate::support::fixture;

#[path = "../../examples/fuzz_loaders/fuzzing.rs"]
mod fuzzing;

#[test]
fn mutated_artifacts_are_loaded_or_refused() {
    let corpus = fuzzing::Corpus::read(&[&fixture(".")]).expect("the fixtures are there");
    let mut fuzzer = fuzzing::Fuzzer::new(corpus, 20_240_501).expect("a folder");
    let failures: Vec<String> = (0..3000).filter_map(|_| fuzzer.execute()).collect();
    assert!(failures.is_empty(), "{}: {}", fuzzer.failures, failures[0]);
    // The inputs are neither all broken nor all whole.
    let counts: Vec<_> = fuzzer.counts().collect();
    assert_eq!(counts.len(), 11);
    assert!(
        counts
            .iter()
            .filter(|(_, count)| count.loaded > 0 && count.refused > 0)
            .count()
            > 7
    );
    assert!(!fuzzer.last().is_empty());
}
