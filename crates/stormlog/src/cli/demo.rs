//! `stormlog demo`: records this process while it allocates and leaks memory like a training
//! program, then analyzes the recording and draws it.

use std::ffi::OsString;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use stormlog_capture::collect::host::{self, HostCollector, Target};
use stormlog_capture::record::phases::PhaseThread;
use stormlog_capture::record::{RecordOptions, Recorder};
use stormlog_capture::store::SinkConfig;
use stormlog_format::SessionStatus;

use crate::console::Console;
use crate::recording::{IdentityArguments, positive_seconds, record_options};
use crate::signals::Signals;
use crate::{Dialect, Exit};

/// Bytes that every step of the demo allocates and frees.
const BATCH_BYTES: usize = 24 << 20;

/// Bytes that every step of the demo allocates and never frees.
const LEAK_BYTES: usize = 1 << 20;

/// The leak of the demo stops at this number of bytes, so that it never fills the machine's memory.
const MOST_LEAKED: usize = 512 << 20;

/// The memory size in bytes that the demo's device reports. The leak threshold is a share of the
/// device memory, so a fixed size gives the same result on a laptop and on a machine with a
/// terabyte of memory.
const LIMIT_BYTES: u64 = 2 << 30;

/// Record a small workload with a leak, analyze it and draw its timeline
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stormlog demo
  stormlog demo --seconds 20 --dir demo-run")]
pub(crate) struct Arguments {
    /// Write the recording to this directory
    #[arg(long, value_name = "DIR", default_value = "stormlog-demo")]
    dir: PathBuf,
    /// Run the workload for this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "6", value_parser = positive_seconds)]
    seconds: Duration,
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let collector = HostCollector::new(Target::ThisProcess, host::Detail::Resident)
        .limited_to(Some(LIMIT_BYTES));
    let identity = IdentityArguments::default().resolve()?;
    let (pid, interval) = (std::process::id(), Duration::from_millis(20));
    let options = RecordOptions {
        sink: Some(SinkConfig::new(&arguments.dir)),
        ..record_options("stormlog.demo", pid, identity, interval)
    };
    let recorder = Recorder::new(options, vec![Box::new(collector)], None);
    writeln!(
        console.err,
        "running {seconds} s of training with a leak of {leak} KiB per step on a {device} GiB \
         device",
        seconds = arguments.seconds.as_secs_f64(),
        leak = LEAK_BYTES >> 10,
        device = LIMIT_BYTES >> 30
    )?;
    let signals = Signals::that_end()?;
    recorder.start()?;
    let start = Instant::now();
    let mut leaked: Vec<Vec<u8>> = Vec::new();
    let mut steps = 0_u64;
    let main = PhaseThread {
        id: 1,
        name: "main".into(),
    };
    let epoch = recorder.enter_phase(&"train".into(), &main, None);
    while start.elapsed() < arguments.seconds && signals.take().is_none() {
        step(&mut leaked);
        steps += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    if let Some(Ok(epoch)) = epoch {
        let _ = recorder.exit_phase(&epoch.scope_id, main.id, None);
    }
    recorder.stop(SessionStatus::Completed);
    drop(leaked);
    writeln!(
        console.err,
        "{steps} steps recorded in '{}'; running 'stormlog analyze'",
        arguments.dir.display()
    )?;
    let analyze = [OsString::from("analyze"), arguments.dir.clone().into()];
    let exit = crate::run(Dialect::Stormlog, analyze, console);
    if exit != Exit::Fine {
        return Ok(exit);
    }
    let page = arguments.dir.join("timeline.html");
    let plot = [
        "plot".into(),
        arguments.dir.clone().into(),
        "-o".into(),
        page.into_os_string(),
    ];
    Ok(crate::run(Dialect::Stormlog, plot, console))
}

/// One training step: allocates and frees a batch, and leaks a little.
fn step(leaked: &mut Vec<Vec<u8>>) {
    let batch = touched(BATCH_BYTES);
    if leaked.len() * LEAK_BYTES < MOST_LEAKED {
        leaked.push(touched(LEAK_BYTES));
    }
    drop(black_box(batch));
}

/// Allocates memory and writes to each page, because the kernel provides no memory for a page that
/// was never written.
fn touched(bytes: usize) -> Vec<u8> {
    let mut block = vec![0_u8; bytes];
    for byte in block.iter_mut().step_by(4096) {
        *byte = 1;
    }
    block
}
