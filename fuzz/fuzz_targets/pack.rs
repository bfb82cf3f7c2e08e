#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| stormlog_fuzz::targets::pack(input));
