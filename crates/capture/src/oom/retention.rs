//! Deletes old bundles; the newest bundles stay, up to a number of bundles and a total size.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How many out-of-memory bundles and how many megabytes of them are kept; zero or less means no
/// limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The largest number of bundles that are kept.
    pub max_dumps: i64,
    /// The largest size of all kept bundles together, in megabytes.
    pub max_total_mb: i64,
}

impl Retention {
    /// The limits that apply unless the user gives others.
    pub const DEFAULT: Self = Self {
        max_dumps: 5,
        max_total_mb: 256,
    };
}

/// Deletes the oldest bundles of a directory until the remaining bundles are within the limits.
pub fn prune(root: &Path, retention: Retention) {
    let mut bundles = oldest_first(root);
    if retention.max_dumps > 0 {
        let keep = usize::try_from(retention.max_dumps).unwrap_or(usize::MAX);
        let excess = bundles.len().saturating_sub(keep);
        bundles.drain(..excess).for_each(|bundle| remove(&bundle));
    }
    if retention.max_total_mb > 0 {
        let limit = u64::try_from(retention.max_total_mb)
            .unwrap_or(u64::MAX)
            .saturating_mul(1 << 20);
        let mut sizes: Vec<u64> = bundles.iter().map(|bundle| size(bundle)).collect();
        let mut total: u64 = sizes.iter().sum();
        for (bundle, size) in bundles.iter().zip(sizes.drain(..)) {
            if total <= limit {
                break;
            }
            remove(bundle);
            total -= size;
        }
    }
}

fn oldest_first(root: &Path) -> Vec<PathBuf> {
    // Bundles with the same modification time are ordered by the number at the end of their names,
    // so that the tenth bundle follows the ninth.
    let mut bundles: Vec<(SystemTime, usize, PathBuf)> = fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(b"oom_dump_")
        })
        // The metadata describe the directory entry itself: a link to a directory elsewhere must be
        // neither followed nor deleted.
        .filter_map(|entry| {
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_dir)?;
            let length = entry.file_name().len();
            Some((metadata.modified().ok()?, length, entry.path()))
        })
        .collect();
    bundles.sort();
    bundles.into_iter().map(|(.., path)| path).collect()
}

fn size(bundle: &Path) -> u64 {
    let mut sum = 0;
    for entry in fs::read_dir(bundle).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        sum += if metadata.is_dir() {
            size(&entry.path())
        } else {
            metadata.len()
        };
    }
    sum
}

fn remove(bundle: &Path) {
    // If a bundle cannot be deleted now, deletion is tried again when the next bundle is written.
    let _ = fs::remove_dir_all(bundle);
}
