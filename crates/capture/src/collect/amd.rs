//! Reads the memory counters of AMD GPUs from the files of their kernel driver below `/sys`.

use std::fs;
use std::path::{Path, PathBuf};

use stormlog_format::{Counters, signed};

use super::{CollectError, Collector, CounterSource, Reading};
use crate::clock::now_ns;

/// Reads the memory counters of one AMD GPU.
#[derive(Debug)]
pub struct AmdCollector {
    source: CounterSource,
    index: i64,
    directory: PathBuf,
}

/// Finds the AMD GPUs below `sys` (`/sys` outside of tests), ordered by card number.
pub fn devices(sys: &Path) -> Vec<AmdCollector> {
    let mut cards: Vec<(u32, PathBuf)> = fs::read_dir(sys.join("class/drm"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let number = entry
                .file_name()
                .to_str()?
                .strip_prefix("card")?
                .parse()
                .ok()?;
            let directory = entry.path().join("device");
            directory
                .join("mem_info_vram_total")
                .is_file()
                .then_some((number, directory))
        })
        .collect();
    cards.sort();
    let collector = |(index, (_, directory)): (usize, (u32, PathBuf))| AmdCollector {
        source: CounterSource::device("rocm", "stormlog.rocm_tracker", "amdgpu sysfs"),
        index: signed(index),
        directory,
    };
    cards.into_iter().enumerate().map(collector).collect()
}

impl AmdCollector {
    fn number(&self, file: &str) -> Result<i64, CollectError> {
        let path = self.directory.join(file);
        let text = fs::read_to_string(&path).map_err(|error| {
            CollectError::Failed(format!("cannot read '{}': {error}", path.display()))
        })?;
        let bytes = text.trim().parse::<u64>().map(signed);
        bytes.map_err(|_| CollectError::Failed(format!("'{}' holds no number", path.display())))
    }
}

impl Collector for AmdCollector {
    fn source(&self) -> &CounterSource {
        &self.source
    }

    fn read(&mut self) -> Result<Reading, CollectError> {
        let timestamp_ns = now_ns();
        let used = self.number("mem_info_vram_used")?;
        let total = self.number("mem_info_vram_total")?;
        Ok(Reading {
            timestamp_ns,
            device_id: self.index,
            counters: Counters {
                device_used_bytes: Some(used.min(total)),
                device_free_bytes: Some((total - used).max(0)),
                device_total_bytes: Some(total),
                ..Counters::default()
            },
            ..Reading::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_cards_in_order_and_never_invents_allocator_counters() {
        let sys = tempfile::tempdir().unwrap();
        for (card, used) in [("card10", 7), ("card2", 5)] {
            let directory = sys.path().join("class/drm").join(card).join("device");
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("mem_info_vram_total"), "100\n").unwrap();
            fs::write(directory.join("mem_info_vram_used"), format!("{used}\n")).unwrap();
        }
        let mut found = devices(sys.path());
        let readings: Vec<_> = found.iter_mut().map(|card| card.read().unwrap()).collect();
        let used: Vec<_> = readings
            .iter()
            .map(|r| r.counters.device_used_bytes)
            .collect();
        assert_eq!(used, [Some(5), Some(7)]);
        assert_eq!(readings[0].counters.allocator_allocated_bytes, None);
        fs::remove_file(sys.path().join("class/drm/card2/device/mem_info_vram_used")).unwrap();
        assert!(matches!(found[0].read(), Err(CollectError::Failed(_))));
    }
}
