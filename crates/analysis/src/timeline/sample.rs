//! Parses the numbers in the metadata of a sample.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use stormlog_format::Value;
use stormlog_format::json::{Reader, parse};

/// Metadata without any of these texts has none of the numbers read here, so it is not parsed. This
/// is the case for most samples.
static NEEDLES: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["_bytes\"", "\"step", "\"host_memory\""].map(Finder::new));

/// Maximum number of processes read per sample.
const MOST_PROCESSES: usize = 4096;

/// Numbers from the metadata of one sample; a missing number is unknown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SampleMetadata {
    pub(super) own: Option<i64>,
    pub(super) unassigned: Option<i64>,
    pub(super) allocator_read_ns: Option<i64>,
    pub(super) peak: Option<i64>,
    pub(super) pinned: Option<i64>,
    pub(super) step: Option<i64>,
    pub(super) optimizer: Option<i64>,
    pub(super) step_count: Option<i64>,
    pub(super) anonymous: Option<i64>,
    pub(super) shared: Option<i64>,
    /// Pid, anonymous bytes and shared bytes of each process.
    pub(super) processes: Vec<[i64; 3]>,
}

impl SampleMetadata {
    /// Parses the metadata of a sample. When the metadata is malformed, only the part before the
    /// error counts.
    pub(super) fn of(metadata: &[u8]) -> Self {
        let mut numbers = Self::default();
        if NEEDLES.iter().any(|needle| needle.find(metadata).is_some()) {
            each_value(metadata, |key, value| numbers.take(key, value));
        }
        numbers
    }

    fn take(&mut self, key: &[u8], value: &[u8]) {
        match key {
            b"process_device_used_bytes" => self.own = bytes(value),
            b"unassigned_process_bytes" => self.unassigned = bytes(value),
            b"allocator_read_ns" => self.allocator_read_ns = bytes(value),
            b"allocator_peak_bytes" => self.peak = bytes(value),
            b"pinned_bytes" => self.pinned = bytes(value),
            b"step" => self.step = bytes(value),
            b"optimizer" => self.optimizer = bytes(value),
            b"step_count" => self.step_count = bytes(value),
            b"processes" => self.processes = processes(value),
            b"host_memory" => each_value(value, |key, value| match key {
                b"anonymous" => self.anonymous = bytes(value),
                b"shared" => self.shared = bytes(value),
                _ => {}
            }),
            _ => {}
        }
    }
}

/// Calls `take` with each key of an object and the text of its value.
fn each_value(object: &[u8], mut take: impl FnMut(&[u8], &[u8])) {
    let mut reader = Reader::new(object);
    if !reader.eat(b'{') {
        return;
    }
    loop {
        let Ok(key) = reader.key() else { return };
        reader.skip_space();
        let Ok(value) = reader.skip_value() else {
            return;
        };
        take(key.bytes, value);
        if !reader.more(b'}').unwrap_or(false) {
            return;
        }
    }
}

/// Parses a whole number that is not negative.
fn bytes(text: &[u8]) -> Option<i64> {
    let value: i64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    (value >= 0).then_some(value)
}

fn processes(text: &[u8]) -> Vec<[i64; 3]> {
    let Ok(Value::List(rows)) = parse(text) else {
        return Vec::new();
    };
    let row = |row: &Value| {
        let Value::List(cells) = row else { return None };
        let cell = |place: usize| cells.get(place).and_then(Value::as_int);
        Some([cell(0)?, cell(1)?.max(0), cell(2)?.max(0)])
    };
    rows.iter().take(MOST_PROCESSES).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_the_process_is_read_at_the_top_level_only() {
        let own = |text: &[u8]| SampleMetadata::of(text).own;
        assert_eq!(own(br#"{"a": {"process_device_used_bytes": 5}}"#), None);
        let both = br#"{"a": "process_device_used_bytes", "process_device_used_bytes": 7}"#;
        assert_eq!(own(both), Some(7));
        assert_eq!(
            own(br#"{"process_device_used_bytes": -9223372036854775808}"#),
            None
        );
    }

    #[test]
    fn steps_and_processes_are_read() {
        let numbers = SampleMetadata::of(
            br#"{"step": 12, "optimizer": 1, "step_count": 40, "host_memory": {"anonymous": 3, "shared": 4},
                "processes": [[7, 1, 2, 3], ["x"], [8, -1, 5, 0]]}"#,
        );
        assert_eq!(
            (numbers.step, numbers.optimizer, numbers.step_count),
            (Some(12), Some(1), Some(40))
        );
        assert_eq!((numbers.anonymous, numbers.shared), (Some(3), Some(4)));
        assert_eq!(numbers.processes, [[7, 1, 2], [8, 0, 5]]);
    }

    #[test]
    fn broken_metadata_are_read_up_to_the_mistake() {
        let numbers =
            SampleMetadata::of(br#"{"step": 3, "pinned_bytes": 9, "host_memory": {"anonymous""#);
        assert_eq!(
            (numbers.step, numbers.pinned, numbers.anonymous),
            (Some(3), Some(9), None)
        );
    }
}
