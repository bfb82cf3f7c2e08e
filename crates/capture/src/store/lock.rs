//! Ensures that each directory has one writer: processes exclude each other by a lock on the
//! directory, and within one process only the latest sink may write. No lock file is left behind,
//! except on file systems without locks, where an owner file replaces the lock ([`super::owner`]).
//!
//! A forked child shares the locked descriptors of its parent, and a lock lasts until the last copy
//! of its descriptor is closed. Every descriptor of a locked directory is opened and closed under
//! one mutex, which [`before_fork`] takes. Whatever other threads were doing during the fork, the
//! child has the complete list of locked descriptors and closes them all, so that the lock ends
//! with the parent.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use super::fork::Holder;
use super::owner::OwnerFile;
use crate::kept_file::KeptFile;
use crate::mutex::lock;

/// The directories of sinks that this process has locked. A directory is identified by its device
/// and inode.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

struct Held {
    device: u64,
    inode: u64,
    pid: u32,
    /// The open directory, which is locked while its descriptor is open.
    directory: KeptFile,
    lock: Weak<DirectoryLock>,
}

/// The lock of a directory. It ends when the last [`Claim`] on the directory is dropped, or when
/// the process ends.
#[derive(Debug)]
struct DirectoryLock {
    /// The number of the claim whose sink may write to the directory; older claims are no longer
    /// valid.
    owner: AtomicU64,
    /// The sink that records into the directory; a later sink of this process asks it to end its
    /// session.
    holder: Mutex<Option<Weak<dyn Holder>>>,
    /// A mutex that is held while segments of the directory are replaced, and while a later sink
    /// reads them.
    segments: Mutex<()>,
    /// The locked descriptor of the directory, when it could not be added to the list of held
    /// directories.
    _unlisted: Option<KeptFile>,
    /// On a file system without locks, the file that names this process as the owner of the
    /// directory; `None` elsewhere.
    owner_file: Option<OwnerFile>,
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // The last claim on the directory is gone, so removing the entry from the list closes the
        // descriptor and ends the lock.
        if let Some(mut held) = held_by_this_process() {
            held.retain(|held| held.lock.strong_count() > 0);
        }
    }
}

thread_local! {
    /// The guard of the mutex [`HELD`], which this thread keeps while it forks.
    static DURING_FORK: RefCell<Option<MutexGuard<'static, Vec<Held>>>> =
        const { RefCell::new(None) };
}

/// Prepares for a fork: until it is over, no thread can open or close a directory lock. Must be
/// called by the thread that is about to fork.
pub fn before_fork() {
    if let Some(held) = held_by_this_process() {
        DURING_FORK.with_borrow_mut(|during| *during = Some(held));
    }
}

/// Ends the preparation for a fork; must be called in the parent by the thread that forked.
pub fn after_fork_in_parent() {
    DURING_FORK.with_borrow_mut(|during| *during = None);
}

/// Closes the child's copies of the parent's locked descriptors; the parent keeps its locks.
pub(super) fn after_fork_in_child() {
    let list = DURING_FORK.with_borrow_mut(Option::take);
    let list = list.or_else(|| HELD.try_lock().ok());
    let pid = std::process::id();
    if let Some(mut held) = list {
        held.retain(|held| held.pid == pid);
    }
}

/// A claim is the right of a sink to write to a directory, until a later sink of the same process
/// takes the directory over.
#[derive(Debug)]
pub(crate) struct Claim {
    lock: Arc<DirectoryLock>,
    number: u64,
    is_released: bool,
}

impl Claim {
    /// Whether the claim on the directory is still valid: no later sink of this process has claimed
    /// it.
    pub(crate) fn holds(&self) -> bool {
        !self.is_released && self.lock.owner.load(Ordering::Acquire) == self.number
    }

    /// Gives up the claim on the directory, so that a later sink of this process may take the
    /// directory.
    pub(crate) fn release(&mut self) {
        self.is_released = true;
    }

    /// Sets the object that ends the session when a later sink of this process claims the
    /// directory.
    pub(crate) fn set_holder(&self, holder: Weak<dyn Holder>) {
        *lock(&self.lock.holder) = Some(holder);
    }

    /// Locks the directory again if the program closed the directory's descriptor, because closing
    /// it ended the lock. Usually the lock of the directory is still held, and nothing is done.
    /// Locking the directory again fails when another process has locked it meanwhile.
    pub(crate) fn keep_lock(&self, path: &Path) -> io::Result<Lock> {
        let Some(mut list) = held_by_this_process() else {
            return Ok(Lock::Kept);
        };
        let is_ours = |held: &&mut Held| held.lock.as_ptr() == Arc::as_ptr(&self.lock);
        let Some(held) = list.iter_mut().find(is_ours) else {
            return Ok(Lock::Kept);
        };
        if held.directory.is_open() {
            return Ok(Lock::Kept);
        }
        let again = KeptFile::new(open_directory(path)?)?;
        if again.device_and_inode() != (held.device, held.inode) {
            return Err(io::ErrorKind::NotFound.into());
        }
        match again.get()?.try_lock() {
            Err(std::fs::TryLockError::WouldBlock) => {
                list.retain(|held| held.lock.as_ptr() != Arc::as_ptr(&self.lock));
                return Err(io::ErrorKind::WouldBlock.into());
            }
            // On a file system without locks, locking fails; there the owner file protects the
            // directory.
            Ok(()) | Err(std::fs::TryLockError::Error(_)) => held.directory = again,
        }
        Ok(Lock::TakenAgain)
    }

    /// Where an owner file replaces the lock, waits for a thread of this process that replaces
    /// segments. The owner file is deleted only when that thread has finished; if the process ended
    /// earlier, the owner file would stay in the directory. A lock of the file system needs no wait
    /// for that thread, because the lock ends with the process.
    pub(crate) fn wait_for_replaced_segments(&self) {
        let end = Instant::now() + REPLACING_PATIENCE;
        let is_kept = || self.lock.owner_file.is_some() && Arc::strong_count(&self.lock) > 1;
        // If a later sink of this process has taken the directory over, the wait ends at once: the
        // later sink keeps the owner file for as long as it records.
        while self.holds() && is_kept() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The mutex that must be held to replace segments of the claimed directory. The mutex can
    /// still be used after the claim is dropped.
    pub(crate) fn segments(&self) -> SegmentsLock {
        SegmentsLock(Arc::clone(&self.lock))
    }
}

/// The result of [`Claim::keep_lock`]: the directory was still locked, or was locked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    Kept,
    /// The program had closed the descriptor of the directory, and the directory has been locked
    /// again.
    TakenAgain,
}

/// The mutex that must be held to replace the segments of a directory. Two sinks of this process
/// must not replace segments at the same time.
#[derive(Debug)]
pub(crate) struct SegmentsLock(Arc<DirectoryLock>);

impl SegmentsLock {
    /// Locks the mutex. The call waits while another sink of this process replaces segments of the
    /// directory.
    pub(crate) fn take(&self) -> MutexGuard<'_, ()> {
        lock(&self.0.segments)
    }
}

/// A directory that a sink may write to, and the sink's claim on it.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) directory: PathBuf,
    pub(crate) claim: Claim,
}

/// How many times this process tries to take a lock that another process holds. A lock that its
/// owner has released may stay held for a moment: a child that the owner has just forked shares the
/// lock until the child executes its own program.
const TRIES: u32 = 4;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// The longest wait for a thread that replaces segments; the replacement takes only a few writes,
/// but file systems without locks are usually network file systems, which are slow.
const REPLACING_PATIENCE: Duration = Duration::from_secs(5);

/// Creates the directory of a sink and claims it for the sink. When another process records into
/// the directory, a sibling with this process's id in its name is claimed instead.
pub(crate) fn claim(root: &Path) -> io::Result<Claimed> {
    end_earlier_sink(root);
    for attempt in 0..TRIES {
        if let Some(claim) = claim_exactly(root, OwnSink::TakeOver)? {
            return Ok(Claimed {
                directory: root.to_path_buf(),
                claim,
            });
        }
        if attempt + 1 < TRIES {
            std::thread::sleep(BETWEEN_TRIES);
        }
    }
    let mut attempt = 1;
    loop {
        let directory = sibling(root, attempt);
        if let Some(claim) = claim_exactly(&directory, OwnSink::TakeOver)? {
            return Ok(Claimed { directory, claim });
        }
        attempt += 1;
    }
}

/// Makes an earlier sink of this process on the directory write its buffered events and end its
/// session, before another sink takes over.
fn end_earlier_sink(directory: &Path) {
    let Ok(metadata) = std::fs::metadata(directory) else {
        return;
    };
    let holder = || {
        let held = lock_held_in(&held_by_this_process()?, (metadata.dev(), metadata.ino()))?;
        lock(&held.holder).as_ref()?.upgrade()
    };
    if let Some(holder) = holder() {
        holder.hand_over();
    }
}

/// Claims a directory into which no sink records; `None` when a sink of this or another process
/// records into it.
pub(crate) fn claim_free(directory: &Path) -> io::Result<Option<Claim>> {
    claim_exactly(directory, OwnSink::Respect)
}

/// What happens on a claim when another sink of this process uses the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnSink {
    TakeOver,
    Respect,
}

/// `runs/a` becomes `runs/a-pid42`. From the second attempt on, the name of the sibling directory
/// also gets a number, for containers that share the directory: their processes may have equal
/// pids.
fn sibling(root: &Path, attempt: u32) -> PathBuf {
    let mut name = root.file_name().unwrap_or_default().to_os_string();
    name.push(format!("-pid{}", std::process::id()));
    if attempt > 1 {
        name.push(format!("-{attempt}"));
    }
    root.with_file_name(name)
}

/// The list of directories that this process has locked; `None` when its mutex stays locked. In a
/// forked child, a thread that only the parent has may hold the mutex for ever; the child then does
/// without the list.
fn held_by_this_process() -> Option<MutexGuard<'static, Vec<Held>>> {
    for _ in 0..PATIENCE {
        match HELD.try_lock() {
            Ok(held) => return Some(held),
            Err(TryLockError::Poisoned(held)) => return Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    None
}

/// The lock that this process holds on the directory with this device and inode.
fn lock_held_in(list: &[Held], device_and_inode: (u64, u64)) -> Option<Arc<DirectoryLock>> {
    let pid = std::process::id();
    list.iter()
        .find(|held| held.pid == pid && (held.device, held.inode) == device_and_inode)?
        .lock
        .upgrade()
}

/// How many milliseconds to wait for another thread that uses the list of held directories.
const PATIENCE: u32 = 500;

fn open_directory(directory: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty())?;
    Ok(File::from(opened))
}

fn claim_exactly(directory: &Path, own_sink: OwnSink) -> io::Result<Option<Claim>> {
    std::fs::create_dir_all(directory)?;
    let mut held = held_by_this_process();
    let opened = KeptFile::new(open_directory(directory)?)?;
    let (device, inode) = opened.device_and_inode();
    let pid = std::process::id();
    if let Some(held) = &mut held {
        held.retain(|held| held.pid == pid && held.lock.strong_count() > 0);
    }
    let ours = held
        .as_ref()
        .and_then(|held| lock_held_in(held, (device, inode)));
    if let Some(lock) = ours {
        if own_sink == OwnSink::Respect {
            return Ok(None);
        }
        let number = lock.owner.fetch_add(1, Ordering::AcqRel) + 1;
        return Ok(Some(Claim {
            lock,
            number,
            is_released: false,
        }));
    }
    let owner_file = match opened.get()?.try_lock() {
        Ok(()) => None,
        Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
        // Any error of locking other than "already locked" means that the file system has no locks.
        // If an owner file cannot be created either, the sink records without protection against a
        // second writer, because that is better than not recording.
        Err(std::fs::TryLockError::Error(_)) => match OwnerFile::create(directory) {
            Ok(None) => return Ok(None),
            created => created.ok().flatten(),
        },
    };
    let (listed, unlisted) = match held {
        Some(held) => (Some((held, opened)), None),
        None => (None, Some(opened)),
    };
    let lock = Arc::new(DirectoryLock {
        owner: AtomicU64::new(1),
        holder: Mutex::new(None),
        segments: Mutex::new(()),
        _unlisted: unlisted,
        owner_file,
    });
    if let Some((mut held, directory)) = listed {
        held.push(Held {
            device,
            inode,
            pid,
            directory,
            lock: Arc::downgrade(&lock),
        });
    }
    Ok(Some(Claim {
        lock,
        number: 1,
        is_released: false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_file_goes_although_segments_are_being_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let owner_file = OwnerFile::create(folder.path()).unwrap();
        let claim = Claim {
            lock: Arc::new(DirectoryLock {
                owner: AtomicU64::new(1),
                holder: Mutex::new(None),
                segments: Mutex::new(()),
                _unlisted: None,
                owner_file,
            }),
            number: 1,
            is_released: false,
        };
        let replacing = claim.segments();
        let thread = std::thread::spawn(move || {
            let _replaced = replacing.take();
            std::thread::sleep(Duration::from_millis(50));
        });
        claim.wait_for_replaced_segments();
        drop(claim);
        // The owner file is gone, so the process could end now; it does not matter whether the
        // test's thread has ended by itself.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        thread.join().unwrap();
    }
}
