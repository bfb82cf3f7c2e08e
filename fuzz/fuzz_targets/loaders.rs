#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        // The loaders read files in parallel. An input is a few kilobytes: waking another thread for
        // it takes many times as long as reading it.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
        let _ = pool.use_current_thread().build_global();
    },
    |input: &[u8]| stormlog_fuzz::targets::loaders(input)
);
