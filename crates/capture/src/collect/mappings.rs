//! The private writable mappings of a process, summed by name.
//!
//! Reading the kernel's file `maps`, which lists mappings without looking at their pages, costs
//! microseconds. For the kernel's file `smaps`, the kernel walks the page tables and holds a lock
//! that the process needs, so `smaps` is not read. Mappings show a leak, because a leak makes the
//! allocator map new memory. A buffer that is mapped as a whole and filled later does not show,
//! because filling it maps no new memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The largest number of lines of `maps` that are read; further mappings are ignored.
const MOST_LINES: usize = 65_536;

/// The name under which anonymous mappings are summed.
const ANONYMOUS: &str = "anonymous mappings";

/// The bytes of a process's private writable memory mappings, summed by name, such as `[heap]` or
/// the name of a library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    by_name: BTreeMap<String, u64>,
    has_interpreter: bool,
}

impl Mappings {
    /// Reads the mappings of a process; `None` when the process has ended or reading its file is
    /// not permitted.
    pub fn read(proc: &Path, pid: u32) -> Option<Self> {
        let file = File::open(proc.join(pid.to_string()).join("maps")).ok()?;
        let lines = BufReader::new(file).split(b'\n').take(MOST_LINES);
        let mut mappings = Self::default();
        for line in lines {
            mappings.add(&String::from_utf8_lossy(&line.ok()?));
        }
        Some(mappings)
    }

    /// Parses a line such as `55e0c0000000-55e0c0400000 rw-p 00000000 00:00 0 [heap]` and adds its
    /// bytes to the sum of its name.
    fn add(&mut self, line: &str) {
        // A process with a Python interpreter has mapped the Python program, its library or an
        // extension module, each with `python` in the path.
        self.has_interpreter |= line.contains("python");
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(access)) = (words.next(), words.next()) else {
            return;
        };
        if !(access.starts_with("rw") && access.ends_with('p')) {
            return;
        }
        let address = |text: &str| u64::from_str_radix(text, 16).ok();
        let bounds = range.split_once('-');
        let bounds = bounds.and_then(|(low, high)| Some((address(low)?, address(high)?)));
        let Some(bytes) = bounds.and_then(|(low, high)| high.checked_sub(low)) else {
            return;
        };
        let name = words.nth(3).map_or(ANONYMOUS, |first| {
            let start = line.find(first).unwrap_or(0);
            name_of(line[start..].trim_end())
        });
        *self.by_name.entry(name.to_owned()).or_default() += bytes;
    }

    /// Whether a Python interpreter runs in the process, judged by the paths of the mapped files.
    pub fn has_interpreter(&self) -> bool {
        self.has_interpreter
    }

    /// The names of mappings that grew since an earlier reading, each with the bytes it grew by,
    /// largest first.
    pub fn grown_since(&self, earlier: &Self) -> Vec<(String, u64)> {
        let grown = self.by_name.iter().filter_map(|(name, bytes)| {
            let before = earlier.by_name.get(name).copied().unwrap_or(0);
            let grown = bytes.checked_sub(before).filter(|grown| *grown > 0)?;
            Some((name.clone(), grown))
        });
        let mut grown: Vec<(String, u64)> = grown.collect();
        grown.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        grown
    }
}

/// The file name of a mapping without its directories; names such as `[heap]` stay as they are.
fn name_of(path: &str) -> &str {
    if path.starts_with('[') {
        return path;
    }
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Mappings {
        let mut mappings = Mappings::default();
        text.lines().for_each(|line| mappings.add(line));
        mappings
    }

    #[test]
    fn what_is_private_and_writable_counts_by_name() {
        let before = of(
            "1000-2000 rw-p 00000000 00:00 0                          [heap]\n\
             7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n\
             7f0000002000-7f0000003000 r--p 00000000 08:01 99                 /usr/lib/libm.so\n\
             7f0000003000-7f0000005000 rw-p 00000000 08:01 99                 /opt/my lib/libx.so\n\
             nonsense\n\
             9-1 rw-p 0 0 0\n",
        );
        let after = of(
            "1000-4000 rw-p 00000000 00:00 0                          [heap]\n\
             7f0000000000-7f0000008000 rw-p 00000000 00:00 0 \n\
             7f0000010000-7f0000012000 rw-s 00000000 00:05 7                  /dev/zero\n\
             7f0000003000-7f0000006000 rw-p 00000000 08:01 99                 /opt/my lib/libx.so\n",
        );
        assert_eq!(
            after.grown_since(&before),
            [
                (ANONYMOUS.to_owned(), 0x7000),
                ("[heap]".to_owned(), 0x2000),
                ("libx.so".to_owned(), 0x1000),
            ]
        );
        assert!(before.grown_since(&before).is_empty());
        assert!(!before.has_interpreter());
        assert!(of("1-2 r-xp 0 08:01 9  /usr/lib/libpython3.11.so.1.0").has_interpreter());
    }

    #[test]
    fn a_new_mapping_is_seen_and_pages_that_fill_are_not() {
        let read = || Mappings::read(Path::new("/proc"), std::process::id()).unwrap();
        let grown = |before: &Mappings| {
            let grown = read().grown_since(before);
            let of = grown.iter().find(|(name, _)| name == ANONYMOUS);
            of.map_or(0, |(_, bytes)| *bytes)
        };
        let before = read();
        let mut block = vec![0_u8; 256 << 20];
        assert!(grown(&before) >= 256 << 20);
        let mapped = read();
        block.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(&block);
        // Other tests in the same process map memory at the same time, so the test checks an upper
        // bound instead of an exact size.
        assert!(grown(&mapped) < 128 << 20);
        assert!(Mappings::read(Path::new("/proc"), u32::MAX).is_none());
    }
}
