//! The number of training steps of a process tree. The hook inside each process writes its number of
//! steps into a file of the run's inbox.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

/// The largest number of digits in a file.
const MOST_DIGITS: usize = 19;

/// Reads the files in which processes write their numbers of steps.
#[derive(Debug)]
pub(super) struct StepFiles {
    folder: PathBuf,
    files: BTreeMap<u32, File>,
}

impl StepFiles {
    pub(super) fn in_folder(folder: PathBuf) -> Self {
        Self {
            folder,
            files: BTreeMap::new(),
        }
    }

    /// Opens the files of new processes, and closes those of processes that have ended.
    pub(super) fn update(&mut self, pids: impl Iterator<Item = u32> + Clone) {
        self.files
            .retain(|pid, _| pids.clone().any(|one| one == *pid));
        for pid in pids {
            if !self.files.contains_key(&pid)
                && let Some(file) = self.open(pid)
            {
                self.files.insert(pid, file);
            }
        }
    }

    fn open(&self, pid: u32) -> Option<File> {
        // The watched program can put anything into its inbox, so links are not followed, and a pipe
        // is not waited for.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(self.folder.join(format!("steps-{pid}")))
            .ok()?;
        file.metadata().ok()?.is_file().then_some(file)
    }

    /// The number of steps of the process that has made the most; `None` if no process counts steps.
    /// The ranks of a training program make the same steps together.
    pub(super) fn most(&self) -> Option<i64> {
        self.files.values().filter_map(read).max()
    }
}

fn read(file: &File) -> Option<i64> {
    let mut text = [0; MOST_DIGITS];
    let length = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..length])
        .ok()?
        .trim()
        .parse()
        .ok()
        .filter(|&steps: &i64| steps >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_steps_of_living_processes_count() {
        let folder = tempfile::tempdir().unwrap();
        let write = |pid: u32, text: &str| {
            std::fs::write(folder.path().join(format!("steps-{pid}")), text).unwrap();
        };
        let mut files = StepFiles::in_folder(folder.path().to_path_buf());
        files.update([7, 8].into_iter());
        assert_eq!(files.most(), None);
        write(7, "12");
        write(8, "31");
        write(9, "99");
        files.update([7, 8].into_iter());
        assert_eq!(files.most(), Some(31));
        write(7, "44");
        assert_eq!(files.most(), Some(44));
        files.update([8].into_iter());
        assert_eq!(files.most(), Some(31));
        for wrong in ["", "-4", "many", "99999999999999999999999999"] {
            write(8, wrong);
            assert_eq!(files.most(), None, "{wrong}");
        }
    }
}
