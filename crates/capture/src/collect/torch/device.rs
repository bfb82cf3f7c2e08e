//! Reads the memory of a CUDA device through the driver (NVML): the memory of the whole device and
//! of each process.

use std::time::{Duration, Instant};

use stormlog_format::{Map, SampleNumber, Value, metadata_keys, signed};

use crate::clock::now_ns;
use crate::collect::nvml::{self, Gpu, ProcessShare};

/// The longest time for which the memory of each process is taken from an earlier reading.
const LONGEST_REUSE: Duration = Duration::from_secs(1);

/// The last known memory of each process on a device. The driver needs much longer to list it than
/// to read the memory in use on the device. While the memory in use is the same to the byte, the
/// last list is used again.
#[derive(Debug, Default)]
pub(super) struct LastShares {
    read: Option<(Instant, i64)>,
    shares: Vec<ProcessShare>,
}

impl LastShares {
    /// The memory of each process, now that `used` bytes of the device are in use.
    fn now(
        &mut self,
        used: Option<i64>,
        now: Instant,
        read: impl FnOnce() -> Vec<ProcessShare>,
    ) -> Vec<ProcessShare> {
        let is_same = self.read.is_some_and(|(at, before)| {
            Some(before) == used && now.duration_since(at) < LONGEST_REUSE
        });
        if !is_same {
            self.shares = read();
            self.read = used.map(|used| (now, used));
        }
        self.shares.clone()
    }
}

/// What one reading of a CUDA device through the driver found, and the errors of the reading.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) read_ns: i64,
    /// Used, free and total bytes of the device; `None` where they could not be read.
    pub(super) memory: Option<(i64, i64, i64)>,
    /// Bytes that each process holds on the device; empty where the driver does not know the
    /// processes.
    shares: Vec<ProcessShare>,
    pub(super) errors: Vec<String>,
}

impl Device {
    pub(super) fn read(gpu: Option<&Gpu>, last: &mut LastShares) -> Self {
        let mut device = Self {
            read_ns: now_ns(),
            memory: None,
            shares: Vec::new(),
            errors: Vec::new(),
        };
        let Some(gpu) = gpu else {
            return device;
        };
        match nvml::device_memory(gpu.index) {
            Ok(memory) => {
                device.memory = Some((
                    signed(memory.used),
                    signed(memory.free),
                    signed(memory.total),
                ));
            }
            Err(error) => device.errors.push(error),
        }
        let used = device.memory.map(|(used, _, _)| used);
        device.shares = last.now(used, Instant::now(), || {
            nvml::shares(gpu.index).unwrap_or_default()
        });
        device
    }

    /// The memory that this process and other processes hold on the device, for the metadata of a
    /// sample.
    pub(super) fn facts(&self, holds_memory: bool) -> Map {
        share_facts(&self.shares, std::process::id(), holds_memory)
    }
}

/// The bytes that this process and other processes hold on the device. In most containers the
/// driver knows processes by the pids of another namespace and does not list this process although
/// it holds memory; then only the bytes of all processes together are known.
fn share_facts(shares: &[ProcessShare], own: u32, holds_memory: bool) -> Map {
    let mut facts = Map::new();
    if shares.iter().any(|share| share.pid == own) {
        let mut others = Map::new();
        for share in shares {
            let bytes = signed(share.bytes);
            if share.pid == own {
                facts.insert(SampleNumber::Own.key(), bytes);
            } else {
                others.insert(share.pid.to_string(), bytes);
            }
        }
        if !others.is_empty() {
            facts.insert(metadata_keys::OTHER_PROCESSES, Value::Map(others));
        }
    } else if holds_memory && !shares.is_empty() {
        let all = shares.iter().map(|share| share.bytes);
        let all = all.fold(0, u64::saturating_add);
        facts.insert(SampleNumber::Unassigned.key(), signed(all));
    }
    facts
}

/// GPUs that share memory coherently with the host, identified by a part of their product names.
const COHERENT: [&str; 3] = ["GH200", "GB200", "GB300"];

/// How the memory of a device relates to that of the host, where the two are not separate:
/// `integrated` devices have no memory of their own; with `coherent` devices, host and device can
/// use each other's memory.
pub(super) fn memory_kind(is_integrated: bool, name: Option<&str>) -> Option<&'static str> {
    let is_coherent = || name.is_some_and(|name| COHERENT.iter().any(|one| name.contains(one)));
    if is_integrated {
        Some("integrated")
    } else {
        is_coherent().then_some("coherent")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: [ProcessShare; 2] = [
        ProcessShare { pid: 7, bytes: 100 },
        ProcessShare { pid: 8, bytes: 50 },
    ];

    #[test]
    fn processes_are_listed_again_when_the_memory_in_use_changes() {
        let mut last = LastShares::default();
        let mut listed = 0;
        let begun = Instant::now();
        let mut at = |used: Option<i64>, ms: u64| {
            let now = begun + Duration::from_millis(ms);
            last.now(used, now, || {
                listed += 1;
                vec![SHARES[0]; listed]
            })
            .len()
        };
        assert_eq!((at(Some(5), 0), at(Some(5), 100)), (1, 1));
        assert_eq!((at(Some(6), 200), at(Some(6), 300)), (2, 2));
        assert_eq!(at(Some(6), 1300), 3, "after a second");
        assert_eq!((at(None, 1400), at(None, 1500)), (4, 5));
    }

    #[test]
    fn shares_are_assigned_by_pid() {
        let facts = share_facts(&SHARES, 7, true);
        assert_eq!(
            facts.get("process_device_used_bytes"),
            Some(&Value::Int(100))
        );
        let others = facts.object("other_processes");
        assert_eq!(others.unwrap().get("8"), Some(&Value::Int(50)));
        assert!(!facts.contains("unassigned_process_bytes"));
    }

    #[test]
    fn pids_of_another_namespace_leave_the_share_unknown() {
        let facts = share_facts(&SHARES, 99, true);
        assert!(!facts.contains("process_device_used_bytes"));
        assert!(!facts.contains("other_processes"));
        assert_eq!(
            facts.get("unassigned_process_bytes"),
            Some(&Value::Int(150))
        );
        // Before this process uses the device, the driver does not list the process, which is
        // correct.
        assert!(share_facts(&SHARES, 99, false).is_empty());
        assert!(share_facts(&[], 99, true).is_empty());
    }

    #[test]
    fn unified_memory_is_labelled() {
        assert_eq!(memory_kind(true, Some("Orin")), Some("integrated"));
        assert_eq!(
            memory_kind(false, Some("NVIDIA GH200 480GB")),
            Some("coherent")
        );
        assert_eq!(memory_kind(false, Some("NVIDIA H200")), None);
        assert_eq!(memory_kind(false, None), None);
    }
}
