//! Writes synthetic recordings of a job. They are used to measure the speed of a lake with more
//! data than there is in real recordings.
//!
//! `generate_fleet FOLDER JOB FIRST_RANK RANKS SAMPLES START_SECONDS` writes a sink for each rank.
//! A sink has one sample a second with the counters and metadata that `stormlog run` records, and
//! it has steps and an evaluation every ten minutes. One rank of 97 has a leak, and one rank of 501
//! has an out-of-memory error.
//! `FIRST_RANK` counts ranks over the whole fleet, so that the sinks and sessions of different jobs
//! have different names; in the recordings, the ranks of each job start at 0.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::json;
use stormlog_format::json::{Layout, Writer};
use stormlog_format::{Counters, Event, MANIFEST_VERSION, Map, SINK_FORMAT, Value, Version};

const COLLECTOR: &str = "stormlog.cuda_tracker";
const DEVICES_A_HOST: i64 = 8;
const MIB: i64 = 1 << 20;
const DEVICE_BYTES: i64 = 80 * 1024 * MIB;

/// A generator of pseudorandom numbers, which are the same in every run of the program.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((self.0 >> 33) % most).unwrap_or(0)
    }
}

/// The job whose recordings are written, as the arguments of the program describe it.
struct Job {
    number: i64,
    first_rank: i64,
    ranks: i64,
    samples: i64,
    start_s: i64,
}

/// Creates the event of a rank at the given second of the job.
fn event(job: &Job, rank: i64, second: i64, kind: &str, numbers: &mut Numbers) -> Event {
    let weights = (20 + job.number % 16) * 1024 * MIB;
    let leaked = if rank % 97 == 5 { second * 2 * MIB } else { 0 };
    let evaluating = second % 600 < 20;
    let activations = if evaluating {
        2048
    } else {
        6 * 1024 + numbers.below(512)
    } * MIB;
    let allocated = (weights + activations + leaked).min(DEVICE_BYTES - 1024 * MIB);
    let peak = weights + leaked + 7 * 1024 * MIB;
    let reserved = peak.min(DEVICE_BYTES - 768 * MIB);
    let used = reserved + 600 * MIB;
    let mut host = Map::new();
    host.insert(
        "anonymous",
        Value::Int(4096 * MIB + numbers.below(4096) * 4096),
    );
    host.insert("file", Value::Int(900 * MIB));
    host.insert("shared", Value::Int(512 * MIB));
    let timestamp_ns = (job.start_s + second) * 1_000_000_000 + numbers.below(900_000);
    let mut metadata = Map::new();
    metadata.insert("allocator_peak_bytes", Value::Int(peak));
    metadata.insert(
        "allocator_read_ns",
        Value::Int(timestamp_ns - numbers.below(400_000)),
    );
    metadata.insert("backend", "cuda");
    metadata.insert("host_memory", Value::Map(host));
    metadata.insert("optimizer", Value::Int(0));
    metadata.insert("process_device_used_bytes", Value::Int(used));
    metadata.insert("step", Value::Int(second * 3));
    metadata.insert("step_count", Value::Int(second * 3));
    Event {
        version: Version::V3,
        session_id: session_of(rank).as_str().into(),
        timestamp_ns,
        event_type: kind.into(),
        collector: COLLECTOR.into(),
        sampling_interval_ms: 1000,
        pid: 10_000 + rank % DEVICES_A_HOST,
        host: host_of(rank).as_str().into(),
        job_id: Some(format!("job-{}", job.number).as_str().into()),
        rank: rank - job.first_rank,
        local_rank: rank % DEVICES_A_HOST,
        world_size: job.ranks,
        device_id: rank % DEVICES_A_HOST,
        counters: Counters {
            allocator_allocated_bytes: Some(allocated),
            allocator_reserved_bytes: Some(reserved),
            allocator_active_bytes: Some(allocated + 12 * MIB),
            allocator_inactive_bytes: Some(reserved - allocated),
            allocator_change_bytes: Some(numbers.below(64) * MIB),
            device_used_bytes: Some(used),
            device_free_bytes: Some(DEVICE_BYTES - used),
            device_total_bytes: Some(DEVICE_BYTES),
        },
        context: Some("Collected telemetry sample.".into()),
        metadata,
    }
}

/// Adds what a start event contains about the program. The fleet has five programs, each of which
/// ran with an old commit and an old PyTorch, and with a new commit and a new PyTorch.
fn describe_program(job: &Job, metadata: &mut Map) {
    let is_new = job.number / 5 % 2 == 1;
    let mut run = Map::new();
    run.insert("id", format!("job-{}", job.number).as_str());
    run.insert("program", format!("train_{}.py", job.number % 5).as_str());
    run.insert("git_commit", if is_new { "b71c2f0" } else { "9d4e0aa" });
    let mut versions = Map::new();
    versions.insert("torch", if is_new { "2.9.0" } else { "2.8.0" });
    metadata.insert("run", Value::Map(run));
    metadata.insert("versions", Value::Map(versions));
}

fn host_of(rank: i64) -> String {
    format!("node-{:04}", rank / DEVICES_A_HOST)
}

fn session_of(rank: i64) -> String {
    format!("fleet-{rank:05}")
}

fn write_rank(folder: &Path, job: &Job, rank: i64) -> io::Result<()> {
    let seed = u64::try_from(rank * 1_000_003 + job.start_s).unwrap_or(0);
    let mut numbers = Numbers(seed);
    let writer = Writer::new(Layout::Line).sorted();
    let sink = folder.join(format!("rank-{rank:05}"));
    std::fs::create_dir_all(&sink)?;
    let segment = sink.join("segment-000001.jsonl");
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&segment)?);
    let (mut first_ns, mut last_ns) = (None, 0);
    for second in 0..job.samples {
        let kind = match second {
            0 => "start",
            _ if second == job.samples - 1 && rank % 501 == 7 => "error",
            _ => "sample",
        };
        let mut event = event(job, rank, second, kind, &mut numbers);
        match kind {
            "start" => describe_program(job, &mut event.metadata),
            "error" => event.metadata.insert("oom_reason", "cuda_oom"),
            _ => {}
        }
        last_ns = event.timestamp_ns;
        first_ns.get_or_insert(last_ns);
        writeln!(file, "{}", writer.map_to_string(&event.to_record()))?;
    }
    file.flush()?;
    let manifest = json!({
        "schema_version": MANIFEST_VERSION,
        "format": SINK_FORMAT,
        "sessions": [{
            "session_id": session_of(rank),
            "status": "completed",
            "started_at_ns": first_ns,
            "ended_at_ns": last_ns,
            "host": host_of(rank),
            "pid": 10_000 + rank % DEVICES_A_HOST,
            "job_id": format!("job-{}", job.number),
            "rank": rank - job.first_rank,
            "local_rank": rank % DEVICES_A_HOST,
            "world_size": job.ranks,
            "source": COLLECTOR,
        }],
        "segments": [{
            "filename": "segment-000001.jsonl",
            "event_count": job.samples,
            "session_id": session_of(rank),
            "size_bytes": segment.metadata()?.len(),
            "closed": true,
        }],
    });
    std::fs::write(sink.join("manifest.json"), manifest.to_string())
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage =
        || io::Error::other("generate_fleet FOLDER JOB FIRST_RANK RANKS SAMPLES START_SECONDS");
    let folder = arguments.next().ok_or_else(usage)?;
    let mut number = || {
        let text = arguments.next();
        text.and_then(|text| text.parse::<i64>().ok())
            .ok_or_else(usage)
    };
    let job = Job {
        number: number()?,
        first_rank: number()?,
        ranks: number()?,
        samples: number()?,
        start_s: number()?,
    };
    for rank in job.first_rank..job.first_rank + job.ranks {
        write_rank(Path::new(&folder), &job, rank)?;
    }
    Ok(())
}
