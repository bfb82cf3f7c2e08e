//! The driver's allocations that are in use, each with the library and the line of Python that
//! asked for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use serde::Serialize;

use crate::lock;

/// The largest number of driver allocations that are followed at a time; the entries for them take
/// about 8 MiB. Further allocations are only counted.
const MOST_BLOCKS: usize = 1 << 16;

/// A line of Python that led to an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Site {
    /// The name of the file that contains the line, as the interpreter gives it.
    pub file: String,
    /// The line number in the file, from 1.
    pub line: u32,
    /// The function that contains the line.
    pub function: String,
}

/// The kind of memory that was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Device memory that is not from a pool, and that the driver does not move to the host.
    Device,
    /// Memory from a memory pool of the driver, which keeps freed memory for later allocations.
    Pool,
    /// Managed memory, which the driver moves between device and host.
    Managed,
    /// A CUDA array. The driver chooses the layout of a CUDA array and reports no size.
    Array,
}

/// The address or handle that identifies an allocation until it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Address(u64),
    Handle(u64),
    Array(u64),
}

/// One allocation through the CUDA driver that has not been freed.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The size of the allocation; `None` where the driver does not report it.
    pub(super) bytes: Option<u64>,
    /// The number of the device in this process; `None` where it is not known.
    pub(super) device: Option<u32>,
    pub(super) kind: Kind,
    /// The library that asked for the allocation; `None` where no caller was found.
    pub(super) library: Option<Arc<str>>,
    pub(super) site: Option<Arc<Site>>,
}

/// The memory of one kind that one library and one line of Python hold on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// The index of the device in the process; `None` where it is not known.
    pub device: Option<u32>,
    /// The kind of the memory.
    pub kind: Kind,
    /// The library that asked for the memory; `None` where no caller was found.
    pub library: Option<String>,
    /// How many bytes are held; `None` where the driver does not report sizes.
    pub bytes: Option<u64>,
    /// The number of allocations that these bytes consist of.
    pub blocks: u64,
    /// The line of Python that led to the allocation, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<Site>,
}

/// The allocations of this process through the CUDA driver that have not been freed, and the number
/// of allocations that are missing here because [`MOST_BLOCKS`] others were in use.
#[derive(Default)]
pub(super) struct Holdings {
    blocks: HashMap<Key, Block>,
    missed: u64,
}

impl Holdings {
    pub(super) fn add(&mut self, key: Key, block: Block) {
        if self.blocks.len() >= MOST_BLOCKS && !self.blocks.contains_key(&key) {
            self.missed += 1;
            return;
        }
        self.blocks.insert(key, block);
    }

    pub(super) fn remove(&mut self, key: Key) {
        self.blocks.remove(&key);
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    /// The memory in use through the driver, summed by device, kind, library and line, most bytes
    /// first.
    pub(super) fn summed(&self) -> Vec<Held> {
        let mut sums: BTreeMap<_, (Option<u64>, u64)> = BTreeMap::new();
        for block in self.blocks.values() {
            let owner = (block.device, block.kind, &block.library, &block.site);
            let sum = sums.entry(owner).or_insert((Some(0), 0));
            let bytes = sum.0.zip(block.bytes);
            sum.0 = bytes.map(|(sum, bytes)| sum.saturating_add(bytes));
            sum.1 += 1;
        }
        let sums = sums
            .into_iter()
            .map(|((device, kind, library, site), sum)| Held {
                device,
                kind,
                library: library.as_deref().map(str::to_owned),
                site: site.as_deref().cloned(),
                bytes: sum.0,
                blocks: sum.1,
            });
        let mut held: Vec<Held> = sums.collect();
        held.sort_by_key(|one| std::cmp::Reverse(one.bytes));
        held
    }
}

static ALL: LazyLock<Mutex<Holdings>> = LazyLock::new(Mutex::default);

/// Locks and returns the driver's allocations of this process.
pub(super) fn all() -> MutexGuard<'static, Holdings> {
    lock(&ALL)
}

#[cfg(test)]
mod tests {
    use stormlog_format::Value;
    use stormlog_format::json::{Layout, Writer, value_of};

    use super::*;

    fn to_line(value: &Value) -> String {
        Writer::new(Layout::Line).to_string(value)
    }

    fn block(bytes: u64, library: &str) -> Block {
        Block {
            bytes: Some(bytes),
            device: Some(0),
            kind: Kind::Device,
            library: Some(library.into()),
            site: None,
        }
    }

    #[test]
    fn what_is_freed_is_no_longer_held() {
        let mut holdings = Holdings::default();
        holdings.add(Key::Address(1), block(10, "libcublas.so.13"));
        holdings.add(Key::Address(2), block(20, "libcublas.so.13"));
        holdings.add(Key::Handle(1), block(5, "libnccl.so.2"));
        holdings.remove(Key::Address(1));
        holdings.remove(Key::Address(7));
        let held = holdings.summed();
        let held: Vec<_> = held
            .iter()
            .map(|one| (one.library.as_deref(), one.bytes, one.blocks))
            .collect();
        assert_eq!(
            held,
            [
                (Some("libcublas.so.13"), Some(20), 1),
                (Some("libnccl.so.2"), Some(5), 1)
            ]
        );
    }

    #[test]
    fn what_is_held_is_written_with_its_line_where_it_is_known() {
        let mut holdings = Holdings::default();
        let site = Site {
            file: "train.py".to_owned(),
            line: 8,
            function: "main".to_owned(),
        };
        holdings.add(Key::Address(1), block(10, "a.so"));
        let array = Block {
            bytes: None,
            device: None,
            kind: Kind::Array,
            library: None,
            site: Some(Arc::new(site)),
        };
        holdings.add(Key::Array(1), array);
        let written = holdings.summed();
        let written = written.iter().map(|one| to_line(&value_of(one)));
        assert_eq!(
            written.collect::<Vec<_>>(),
            [
                "{\"device\": 0, \"kind\": \"device\", \"library\": \"a.so\", \"bytes\": 10, \
                 \"blocks\": 1}",
                "{\"device\": null, \"kind\": \"array\", \"library\": null, \"bytes\": null, \
                 \"blocks\": 1, \"site\": {\"file\": \"train.py\", \"line\": 8, \
                 \"function\": \"main\"}}",
            ]
        );
    }

    #[test]
    fn an_address_that_is_used_again_is_counted_once() {
        let mut holdings = Holdings::default();
        holdings.add(Key::Address(1), block(10, "a.so"));
        holdings.add(Key::Address(1), block(30, "b.so"));
        assert_eq!(holdings.summed().len(), 1);
        assert_eq!(holdings.summed()[0].bytes, Some(30));
    }

    #[test]
    fn further_allocations_are_counted() {
        let mut holdings = Holdings::default();
        for address in 0..=MOST_BLOCKS as u64 {
            holdings.add(Key::Address(address), block(1, "a.so"));
        }
        assert_eq!(holdings.missed(), 1);
        assert_eq!(holdings.summed()[0].blocks, MOST_BLOCKS as u64);
    }
}
