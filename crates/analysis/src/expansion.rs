//! How many bytes a compressed file or a pack may expand to: few enough that a small file cannot
//! fill the memory or the disk.
//!
//! Each file may expand to [`RATIO`] times its size. What small files need beyond that is taken from
//! a reserve that all files of the process share, so that many small files cannot do together what
//! one cannot.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, OnceLock, PoisonError};

/// How many times its size a file may expand to. Telemetry compresses by a factor of 10 to 100.
pub(crate) const RATIO: u64 = 256;

/// The environment variable that sets the size of the reserve: a number of bytes, or of KiB, MiB,
/// GiB with the suffix `K`, `M`, `G`.
pub const RESERVE_VARIABLE: &str = "STORMLOG_UNPACK_RESERVE";

/// The size of the reserve in bytes unless the user sets another one.
const RESERVE: u64 = 32 << 20;

/// What a file has taken from the reserve. A file that is read again takes nothing twice.
static TAKEN: Mutex<Option<HashMap<FileId, u64>>> = Mutex::new(None);

/// The device and the inode of a file.
type FileId = (u64, u64);

/// The size of the reserve in bytes.
pub(crate) fn reserve() -> u64 {
    static SIZE: OnceLock<u64> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let set = std::env::var(RESERVE_VARIABLE).ok();
        set.and_then(|set| bytes_in(&set)).unwrap_or(RESERVE)
    })
}

/// The number of bytes in a text such as `4G`.
fn bytes_in(text: &str) -> Option<u64> {
    let text = text.trim();
    let shift = match text.bytes().last()?.to_ascii_uppercase() {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => 0,
    };
    let digits = if shift == 0 {
        text
    } else {
        &text[..text.len() - 1]
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Counts the bytes that a file expands to while it is read.
#[derive(Debug)]
pub(crate) struct Expansion {
    file: FileId,
    /// The number of bytes that the file may expand to without the reserve.
    own: u64,
    /// The most that the file may take from the reserve.
    most_taken: u64,
    bytes: u64,
    is_exceeded: bool,
}

impl Expansion {
    /// Starts to count the bytes of a file. With the usual reserve, a file may expand to `small`
    /// bytes or to its ratio, whichever is larger; the user can set a larger reserve.
    pub(crate) fn of(facts: &Metadata, small: u64) -> Self {
        let own = facts.len().saturating_mul(RATIO);
        let reserve = reserve();
        let most_taken = if reserve > RESERVE {
            reserve
        } else {
            small.saturating_sub(own).min(reserve)
        };
        Self {
            file: (facts.dev(), facts.ino()),
            own,
            most_taken,
            bytes: 0,
            is_exceeded: false,
        }
    }

    /// Counts further bytes; false when the file expands too far.
    pub(crate) fn add(&mut self, bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        let beyond = self.bytes.saturating_sub(self.own);
        let is_allowed = !self.is_exceeded
            && (beyond == 0 || (beyond <= self.most_taken && take(self.file, beyond)));
        if !is_allowed {
            self.is_exceeded = true;
            give_back(self.file);
        }
        is_allowed
    }

    /// Whether the file has expanded too far.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// The number of bytes that the file may expand to if no other file needs the reserve.
    pub(crate) fn limit(&self) -> u64 {
        self.own.saturating_add(self.most_taken)
    }
}

fn take(file: FileId, bytes: u64) -> bool {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = taken.get_or_insert_default();
    let before = taken.get(&file).copied().unwrap_or(0);
    if bytes <= before {
        return true;
    }
    let others = taken
        .values()
        .fold(0, |sum: u64, one| sum.saturating_add(*one))
        - before;
    let has_room = others.saturating_add(bytes) <= reserve();
    if has_room {
        taken.insert(file, bytes);
    }
    has_room
}

fn give_back(file: FileId) {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(taken) = taken.as_mut() {
        taken.remove(&file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_and_without_a_suffix() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("1000", Some(1000)),
            ("4G", Some(4 << 30)),
            (" 2 m ", Some(2 << 20)),
            ("3k", Some(3 << 10)),
            ("", None),
            ("G", None),
            ("-1", None),
            ("99999999999G", None),
        ] {
            assert_eq!(bytes_in(text), bytes, "{text}");
        }
    }

    #[test]
    fn files_share_the_reserve() {
        let files: Vec<_> = (0..3)
            .map(|_| {
                let file = tempfile::NamedTempFile::new().unwrap();
                file.as_file().set_len(10).unwrap();
                file
            })
            .collect();
        let start = |index: usize| {
            let facts = files[index].as_file().metadata().unwrap();
            Expansion::of(&facts, u64::MAX)
        };
        let mut first = start(0);
        assert!(first.add(10 * RATIO) && first.add(RESERVE - 1000));
        // Read again, the file takes nothing more.
        let mut again = start(0);
        assert!(again.add(10 * RATIO + 500) && again.add(500));
        let mut second = start(1);
        assert!(second.add(10 * RATIO) && !second.add(2000));
        assert!(second.is_exceeded() && !second.add(0));
        // What the refused file has taken is free again.
        assert!(start(2).add(10 * RATIO + 900));
        give_back(first.file);
        give_back(start(2).file);
    }
}
