//! A file that the recorder keeps open in the watched program. The watched program may close the
//! file: daemons and launchers close every descriptor they did not open (`os.closerange(3, 256)`).
//! If the program closes a file of the recorder, the next file that the program opens gets the same
//! descriptor number. The recorder compares the descriptor with the file before every use; if the
//! descriptor belongs to another file, the recorder neither uses nor closes it.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

/// An open file of the recorder whose descriptor the watched program may have closed and may use
/// for another file. Every use checks that the descriptor still belongs to the file.
#[derive(Debug)]
pub(crate) struct KeptFile {
    /// The open file; `None` only while the `KeptFile` is dropped.
    file: Option<File>,
    device: u64,
    inode: u64,
    /// The creation time of the file; it is compared as well, because inode numbers are reused,
    /// even for the next file that the program creates.
    made: Option<SystemTime>,
    has_name: bool,
}

impl KeptFile {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            made: metadata.created().ok(),
            has_name: metadata.nlink() > 0,
            file: Some(file),
        })
    }

    /// The file and its metadata, or an error of kind `NotFound` when the program closed it.
    pub(crate) fn checked(&self) -> io::Result<(&File, Metadata)> {
        let file = self.file.as_ref().ok_or_else(closed)?;
        let metadata = file.metadata().map_err(|_| closed())?;
        let is_same = (metadata.dev(), metadata.ino()) == (self.device, self.inode)
            && metadata.created().ok() == self.made
            // If the recorder's file had no name in any directory (link count 0) when it was
            // opened, it never gets one. If the descriptor then leads to a file with a name, the
            // descriptor belongs to another file.
            && (self.has_name || metadata.nlink() == 0);
        if is_same {
            Ok((file, metadata))
        } else {
            Err(closed())
        }
    }

    /// The open file, or an error of kind `NotFound` when the program closed it.
    pub(crate) fn get(&self) -> io::Result<&File> {
        self.checked().map(|(file, _)| file)
    }

    /// Whether the descriptor still belongs to the file that was opened.
    pub(crate) fn is_open(&self) -> bool {
        self.checked().is_ok()
    }

    /// The device and inode of the file that was opened.
    pub(crate) fn device_and_inode(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if !self.is_open()
            && let Some(file) = self.file.take()
        {
            // The program has closed the descriptor or uses its number for another file, so the
            // recorder must not close it.
            let _ = file.into_raw_fd();
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        "the program closed this file descriptor of the recorder",
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_file_that_got_the_inode_of_a_nameless_one_is_another() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..20 {
            let mut kept = KeptFile::new(tempfile::tempfile_in(folder.path()).unwrap()).unwrap();
            let inode = kept.inode;
            drop(kept.file.take());
            let theirs = File::create(folder.path().join("theirs")).unwrap();
            let is_reused = theirs.metadata().unwrap().ino() == inode;
            kept.file = Some(theirs);
            assert!(!kept.is_open(), "the inode is used again: {is_reused}");
            drop(kept.file.take());
            std::fs::remove_file(folder.path().join("theirs")).unwrap();
        }
    }

    #[test]
    fn a_descriptor_that_became_another_file_is_neither_used_nor_closed() {
        let folder = tempfile::tempdir().unwrap();
        let create = |name: &str| File::create(folder.path().join(name)).unwrap();
        let theirs = create("theirs");
        let kept = KeptFile::new(create("ours")).unwrap();
        assert!(kept.is_open());
        // The test closes the descriptor and opens its own file under the same number, as a daemon
        // or launcher does.
        let mut slot = kept
            .file
            .as_ref()
            .unwrap()
            .as_fd()
            .try_clone_to_owned()
            .unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&slot);
        let mut as_kept = KeptFile::new(File::from(slot)).unwrap();
        slot = std::os::fd::OwnedFd::from(as_kept.file.take().unwrap());
        rustix::io::dup2(&theirs, &mut slot).unwrap();
        as_kept.file = Some(File::from(slot));
        assert_eq!(as_kept.get().unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(as_kept);
        let path = format!("/proc/self/fd/{number}");
        let target = std::fs::read_link(path).unwrap();
        assert_eq!(target, folder.path().join("theirs"), "it is still open");
        kept.get().unwrap().write_all(b"x").unwrap();
    }
}
