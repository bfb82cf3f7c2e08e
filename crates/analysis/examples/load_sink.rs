//! Loads an artifact and prints the time and memory it took, for `benches/speed/compare_load.py`.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "the example measures time and prints the result"
)]

use std::path::Path;
use std::time::Instant;

use stormlog_analysis::{LoadOptions, load_sessions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: load_sink PATH")?;
    let start = Instant::now();
    let loaded = load_sessions(Path::new(&path), &LoadOptions::default())?;
    let seconds = start.elapsed().as_secs_f64();
    let events: usize = loaded
        .sessions
        .iter()
        .map(|session| session.events.len())
        .sum();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak_kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak_kib: u64 = peak_kib
        .unwrap_or("0")
        .trim()
        .trim_end_matches(" kB")
        .parse()?;
    println!(
        "{{\"sessions\": {}, \"events\": {events}, \"seconds\": {seconds:.4}, \"peak_bytes\": {}}}",
        loaded.sessions.len(),
        peak_kib * 1024
    );
    Ok(())
}
