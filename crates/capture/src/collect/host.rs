//! Reads the memory of processes from the kernel's files.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use stormlog_format::{Map, signed};

use super::cgroup::{self, MemoryGroup, Room, Roots, kilobytes};
use super::{CollectError, Collector, CounterSource, Reading};
use crate::clock::now_ns;
use crate::kept_file::KeptFile;

/// The least time between two readings of the total memory, the free memory and the peak, which is
/// the highest resident size of the process so far, as the kernel counts it. These three values
/// cost twenty times more to read than the resident size. No peak is missed between two readings,
/// because the kernel keeps the highest value.
const SLOW_PERIOD: Duration = Duration::from_millis(500);

/// The environment variable that declares how many bytes a process and its children may use, where
/// no control group sets a limit.
pub const DECLARED_LIMIT: &str = "STORMLOG_MEMORY_LIMIT_BYTES";

/// The process whose memory is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The current process.
    ThisProcess,
    /// The process with this pid.
    Process(u32),
}

/// Which sizes are read in addition to the resident size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The resident size only.
    #[default]
    Resident,
    /// The proportional and the unique set size are read too; for these two sizes, the kernel walks
    /// the page tables.
    Shared,
}

/// Sizes of one process in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Virtual size.
    pub virtual_bytes: u64,
    /// Resident set size.
    pub resident_bytes: u64,
}

/// Reads the memory of one process from the files of the kernel: how much the process uses, and how
/// much it may use.
#[derive(Debug)]
pub struct HostCollector {
    source: CounterSource,
    roots: Roots,
    /// The directory of the kernel's files of the process.
    directory: PathBuf,
    detail: Detail,
    page_bytes: u64,
    statm: Option<KeptFile>,
    group: Option<MemoryGroup>,
    declared: Option<u64>,
    slow: Option<Slow>,
}

#[derive(Clone, Copy, Debug)]
struct Slow {
    read_at: Instant,
    room: Room,
    peak: Option<u64>,
}

impl HostCollector {
    /// Makes a collector for the given process of this machine.
    pub fn new(target: Target, detail: Detail) -> Self {
        let roots = Roots::default();
        let pid = match target {
            Target::ThisProcess => None,
            Target::Process(pid) => Some(pid),
        };
        Self {
            source: CounterSource::host(),
            directory: roots.process(pid),
            detail,
            page_bytes: rustix::param::page_size() as u64,
            statm: None,
            group: MemoryGroup::of_process(&roots, pid),
            declared: declared_limit(),
            slow: None,
            roots,
        }
    }

    /// Sets the memory limit that the user declared; the lower of the declared limit and the
    /// control group's limit applies.
    #[must_use]
    pub fn limited_to(mut self, bytes: Option<u64>) -> Self {
        self.declared = bytes.filter(|bytes| *bytes > 0).or(self.declared);
        self
    }

    /// Reads the sizes of a process through a kernel file that stays open. The kernel ties the open
    /// file to the process, so a new process with the same pid is never mistaken for it.
    fn sizes(&mut self) -> Result<Sizes, CollectError> {
        // The watched program may have closed the descriptor of the kernel's file; then the file is
        // opened again.
        let file = if let Some(file) = self.statm.take().filter(KeptFile::is_open) {
            file
        } else {
            let opened = File::open(self.directory.join("statm")).and_then(KeptFile::new);
            opened.map_err(|error| gone(&error))?
        };
        let mut buffer = [0_u8; 128];
        let read = file.get().and_then(|file| file.read_at(&mut buffer, 0));
        let length = read.map_err(|error| gone(&error))?;
        self.statm = Some(file);
        parse_statm(&buffer[..length], self.page_bytes)
            .ok_or_else(|| CollectError::Gone("the process has ended".into()))
    }

    /// Total and free memory of the process, and the highest resident size so far, as the kernel
    /// counts it; this peak is `None` unless it has risen since it was last read.
    fn slow(&mut self) -> (Room, Option<u64>) {
        if let Some(slow) = self.slow
            && slow.read_at.elapsed() < SLOW_PERIOD
        {
            return (slow.room, None);
        }
        let room = cgroup::room(&self.roots, self.group.as_ref());
        let peak = self.peak_resident();
        let before = self.slow.and_then(|slow| slow.peak);
        self.slow = Some(Slow {
            read_at: Instant::now(),
            room,
            peak,
        });
        let risen = before.is_some() && peak > before;
        (room, peak.filter(|_| risen))
    }

    fn peak_resident(&self) -> Option<u64> {
        let status = fs::read_to_string(self.directory.join("status")).ok()?;
        kilobytes(&status, "VmHWM:")
    }

    fn shared(&self, metadata: &mut Map) -> Option<()> {
        let text = fs::read_to_string(self.directory.join("smaps_rollup")).ok()?;
        let pss = kilobytes(&text, "Pss:")?;
        let uss = kilobytes(&text, "Private_Clean:")? + kilobytes(&text, "Private_Dirty:")?;
        metadata.insert("process_pss_bytes", signed(pss));
        metadata.insert("process_uss_bytes", signed(uss));
        Some(())
    }
}

impl Collector for HostCollector {
    fn source(&self) -> &CounterSource {
        &self.source
    }

    fn read(&mut self) -> Result<Reading, CollectError> {
        let mut metadata = Map::new();
        let timestamp_ns = now_ns();
        let resident = self.sizes()?.resident_bytes;
        let (room, peak) = self.slow();
        let mut errors = Vec::new();
        if self.detail == Detail::Shared && self.shared(&mut metadata).is_none() {
            errors.push("cannot read /proc/PID/smaps_rollup of the process".to_owned());
        }
        let room = within_declared(self.declared, room, resident);
        let total = room.total.and_then(|limit| total_for(limit, resident));
        let free = room
            .free
            .filter(|free| total.is_some_and(|total| *free <= total));
        let mut partial_fields = Vec::new();
        for (name, value) in [("device_total_bytes", total), ("device_free_bytes", free)] {
            if value.is_none() {
                partial_fields.push(name.to_owned());
            }
        }
        Ok(Reading {
            timestamp_ns,
            peak_bytes: peak.filter(|peak| *peak > resident).map(signed),
            partial_fields,
            errors,
            metadata,
            ..Reading::of_host(resident, Room { total, free })
        })
    }
}

/// The memory limit in bytes that the environment variable [`DECLARED_LIMIT`] declares; `None` when
/// it is not set or is not a number.
pub(super) fn declared_limit() -> Option<u64> {
    let declared = std::env::var(DECLARED_LIMIT).ok();
    declared.and_then(|text| text.trim().parse().ok())
}

/// Total and free memory of a process under a limit that the user declared. The system does not
/// enforce a declared limit, so a process may use more than the limit; then the total is what the
/// process uses, because a record is invalid when its used bytes exceed its total bytes.
pub(super) fn within_declared(declared: Option<u64>, room: Room, resident: u64) -> Room {
    match declared {
        Some(declared) if room.total.is_none_or(|total| declared < total) => {
            let left = declared.saturating_sub(resident);
            Room {
                total: Some(declared.max(resident)),
                free: Some(room.free.map_or(left, |free| free.min(left))),
            }
        }
        _ => room,
    }
}

/// The total memory to record for a process under a limit. The limit of a control group does not
/// count memory that the process shares with others, so the resident size may be slightly above the
/// limit; then the resident size is the total. A process far above its limit uses memory that the
/// limit does not cover, so its total memory is unknown.
fn total_for(limit: u64, resident: u64) -> Option<u64> {
    (resident <= limit.saturating_add(limit / 16)).then(|| limit.max(resident))
}

/// Reads virtual and resident size of this process once.
pub fn sizes_of_this_process() -> Option<Sizes> {
    let text = fs::read("/proc/self/statm").ok()?;
    parse_statm(&text, rustix::param::page_size() as u64)
}

fn gone(error: &io::Error) -> CollectError {
    match error.kind() {
        io::ErrorKind::NotFound => CollectError::Gone("the process has ended".into()),
        _ if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            CollectError::Gone("the process has ended".into())
        }
        _ => CollectError::Failed(format!("cannot read the memory of the process: {error}")),
    }
}

/// Parses the first two numbers of `statm`: total pages and resident pages. The `statm` of a
/// zombie, a process that has ended but was not yet waited for, contains zeros; then the function
/// returns `None`.
fn parse_statm(text: &[u8], page_bytes: u64) -> Option<Sizes> {
    let mut numbers = text.split(u8::is_ascii_whitespace).map(|word| {
        let digits = std::str::from_utf8(word).ok()?;
        digits.parse::<u64>().ok()?.checked_mul(page_bytes)
    });
    let virtual_bytes = numbers.next()??;
    let resident_bytes = numbers.next()??;
    (virtual_bytes > 0).then_some(Sizes {
        virtual_bytes,
        resident_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_process() {
        let mut collector = HostCollector::new(Target::ThisProcess, Detail::Shared);
        let reading = collector.read().unwrap();
        let counters = reading.counters;
        assert!(counters.allocator_allocated_bytes > Some(1 << 16));
        assert_eq!(
            counters.allocator_allocated_bytes,
            counters.device_used_bytes
        );
        assert!(counters.device_total_bytes > counters.device_used_bytes);
        assert!(counters.device_free_bytes.is_some());
        assert_eq!(reading.device_id, -1);
        assert!(reading.metadata.contains("process_pss_bytes"));
    }

    #[test]
    fn a_declared_limit_is_the_total_also_beyond_it() {
        let read = |limit: u64| {
            let own = HostCollector::new(Target::ThisProcess, Detail::Resident);
            own.limited_to(Some(limit)).read().unwrap().counters
        };
        let roomy = read(1 << 30);
        assert_eq!(roomy.device_total_bytes, Some(1 << 30));
        assert!(roomy.device_free_bytes < Some(1 << 30));
        let beyond = read(4096);
        assert_eq!(beyond.device_total_bytes, beyond.device_used_bytes);
        assert_eq!(beyond.device_free_bytes, Some(0));
    }

    #[test]
    fn shared_memory_may_reach_beyond_a_limit() {
        assert_eq!(total_for(1600, 1000), Some(1600));
        assert_eq!(total_for(1600, 1650), Some(1650));
        assert_eq!(total_for(1600, 3200), None);
    }

    #[test]
    fn a_process_that_ended_is_gone() {
        let mut child = std::process::Command::new("sleep")
            .arg("300")
            .spawn()
            .unwrap();
        let mut one = HostCollector::new(Target::Process(child.id()), Detail::Resident);
        assert!(one.read().is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(one.read(), Err(CollectError::Gone(_))));
    }

    #[test]
    fn a_peak_between_two_readings_is_seen() {
        let mut collector = HostCollector::new(Target::ThisProcess, Detail::Resident);
        collector.read().unwrap();
        let before = collector.slow.unwrap().peak.unwrap();
        let mut block = vec![0_u8; 96 << 20];
        block.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        drop(std::hint::black_box(block));
        std::thread::sleep(SLOW_PERIOD * 2);
        let reading = collector.read().unwrap();
        assert!(reading.peak_bytes.unwrap() > signed(before));
    }
}
