//! Provides memory for the recorder when the program has used up all memory of the machine.
//!
//! Rust aborts a process that cannot allocate. The recorder must not end the program that it
//! watches, because the program may handle its own failed allocation and go on. When the system has
//! no memory left, the recorder's allocations come from a small memory reserve. While much of the
//! memory reserve is in use, events are dropped and counted instead of recorded. Only Stormlog's
//! Python extension module installs the allocator of this module, [`WithReserve`].

#![expect(
    unsafe_code,
    reason = "an allocator returns raw memory; each block of the memory reserve has one owner"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The size of the memory reserve, whose pages take memory only when they are used.
const RESERVE_BYTES: usize = 4 << 20;

/// The smallest block of the memory reserve, in bytes; the sizes of all blocks are powers of two.
const SMALLEST: usize = 32;
const CLASSES: usize = 15;

/// How many times a thread tries to lock the memory reserve. Other threads hold the lock of the
/// memory reserve for nanoseconds, but a forked child may find it locked for ever by a thread that
/// only the parent has.
const PATIENCE: u32 = 10_000;

/// An allocator for Rust's `#[global_allocator]`: it allocates with the system's allocator, and
/// from a small memory reserve when the system has no memory left.
#[derive(Clone, Copy, Debug)]
pub struct WithReserve;

/// Bytes of the memory reserve that are in use.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Whether memory is so short that events should be dropped: more than half of the memory reserve
/// is in use, and the system still cannot allocate.
pub fn is_short() -> bool {
    IN_USE.load(Ordering::Relaxed) > RESERVE_BYTES / 2 && !system_has_memory()
}

fn system_has_memory() -> bool {
    let Ok(layout) = Layout::from_size_align(RESERVE_BYTES, 4096) else {
        return false;
    };
    // SAFETY: the layout is not empty, and the block is freed with the same layout.
    unsafe {
        let block = System.alloc(layout);
        if !block.is_null() {
            System.dealloc(block, layout);
        }
        !block.is_null()
    }
}

#[repr(align(4096))]
struct Bytes(UnsafeCell<[u8; RESERVE_BYTES]>);

/// The free blocks of the memory reserve as linked lists: each free block begins with the address
/// of the next one.
struct Blocks {
    taken: usize,
    free: [*mut u8; CLASSES],
}

struct Reserve {
    is_locked: AtomicBool,
    blocks: UnsafeCell<Blocks>,
    bytes: Bytes,
}

// SAFETY: only the thread that has set `is_locked` uses the lists of free blocks, and only the
// owner of a block uses the bytes of the block.
unsafe impl Sync for Reserve {}

static RESERVE: Reserve = Reserve {
    is_locked: AtomicBool::new(false),
    blocks: UnsafeCell::new(Blocks {
        taken: 0,
        free: [ptr::null_mut(); CLASSES],
    }),
    bytes: Bytes(UnsafeCell::new([0; RESERVE_BYTES])),
};

/// The size of the block that a layout needs, and the index of its size class.
fn block_of(layout: Layout) -> Option<(usize, usize)> {
    let size = layout.size().max(layout.align()).max(SMALLEST);
    let size = size.checked_next_power_of_two()?;
    let class = (size / SMALLEST).trailing_zeros() as usize;
    (class < CLASSES && layout.align() <= 4096).then_some((size, class))
}

impl Reserve {
    fn with_blocks<R>(&self, work: impl FnOnce(&mut Blocks) -> R) -> Option<R> {
        for _ in 0..PATIENCE {
            if !self.is_locked.swap(true, Ordering::Acquire) {
                // SAFETY: this thread has set `is_locked`, so no other thread uses the blocks of
                // the memory reserve.
                let result = work(unsafe { &mut *self.blocks.get() });
                self.is_locked.store(false, Ordering::Release);
                return Some(result);
            }
            std::thread::yield_now();
        }
        None
    }

    fn contains(&self, block: *mut u8) -> bool {
        let start = self.bytes.0.get() as usize;
        (start..start + RESERVE_BYTES).contains(&(block as usize))
    }

    fn take(&self, layout: Layout) -> *mut u8 {
        let Some((size, class)) = block_of(layout) else {
            return ptr::null_mut();
        };
        let taken = self.with_blocks(|blocks| {
            let first = blocks.free[class];
            if !first.is_null() {
                // SAFETY: a free block of the memory reserve begins with the address of the next
                // one.
                blocks.free[class] = unsafe { first.cast::<*mut u8>().read_unaligned() };
                return first;
            }
            let start = blocks.taken.next_multiple_of(size.min(4096));
            if start + size > RESERVE_BYTES {
                return ptr::null_mut();
            }
            blocks.taken = start + size;
            // SAFETY: the block lies within the bytes of the memory reserve.
            unsafe { self.bytes.0.get().cast::<u8>().add(start) }
        });
        let block = taken.unwrap_or(ptr::null_mut());
        if !block.is_null() {
            IN_USE.fetch_add(size, Ordering::Relaxed);
        }
        block
    }

    fn give_back(&self, block: *mut u8, layout: Layout) {
        let Some((size, class)) = block_of(layout) else {
            return;
        };
        let given = self.with_blocks(|blocks| {
            // SAFETY: blocks of the memory reserve are at least as large as a pointer, and this
            // block has no other owner.
            unsafe { block.cast::<*mut u8>().write_unaligned(blocks.free[class]) };
            blocks.free[class] = block;
        });
        if given.is_some() {
            IN_USE.fetch_sub(size, Ordering::Relaxed);
        }
    }
}

// SAFETY: every block comes from the system's allocator or from the memory reserve. Each block has
// one owner, is large enough and aligned, and its address shows whether it is from the memory
// reserve.
unsafe impl GlobalAlloc for WithReserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        let block = unsafe { System.alloc(layout) };
        if block.is_null() {
            RESERVE.take(layout)
        } else {
            block
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            return block;
        }
        let block = RESERVE.take(layout);
        if !block.is_null() {
            // SAFETY: the block of memory is at least as large as the layout.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if RESERVE.contains(block) {
            RESERVE.give_back(block, layout);
        } else {
            // SAFETY: a block that is not from the memory reserve is from the system's allocator.
            unsafe { System.dealloc(block, layout) };
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let is_reserve = RESERVE.contains(block);
        if !is_reserve {
            // SAFETY: the block of memory is from the system's allocator.
            let grown = unsafe { System.realloc(block, layout, new_size) };
            if !grown.is_null() {
                return grown;
            }
        }
        // SAFETY: the caller guarantees that the new size and the old alignment make a valid
        // layout.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        let new = if is_reserve {
            // SAFETY: the new layout is valid and not empty.
            unsafe { self.alloc(new_layout) }
        } else {
            RESERVE.take(new_layout)
        };
        if !new.is_null() {
            // SAFETY: both blocks are at least as large as the bytes that are copied, and they are
            // different blocks.
            unsafe {
                ptr::copy_nonoverlapping(block, new, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_the_reserve_have_one_owner_and_are_used_again() {
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        let (small, large) = (RESERVE.take(layout(33)), RESERVE.take(layout(5000)));
        assert!(RESERVE.contains(small) && RESERVE.contains(large));
        assert_eq!(large as usize % 4096, 0);
        // SAFETY: each block is at least as large as the bytes that are written to it here.
        unsafe {
            small.write_bytes(1, 33);
            large.write_bytes(2, 5000);
            assert_eq!((small.add(32).read(), large.read()), (1, 2));
        }
        RESERVE.give_back(small, layout(33));
        assert_eq!(RESERVE.take(layout(64)), small);
        assert!(RESERVE.take(layout(1 << 20)).is_null(), "too large for it");
        // SAFETY: the block is from the memory reserve, in which the new size does not fit.
        let grown = unsafe { WithReserve.realloc(large, layout(5000), 1 << 20) };
        assert!(!RESERVE.contains(grown));
        // SAFETY: the block has at least as many bytes as are read here, which the reallocation has
        // copied.
        unsafe {
            assert_eq!(grown.add(4999).read(), 2);
            WithReserve.dealloc(grown, layout(1 << 20));
            WithReserve.dealloc(small, layout(64));
        }
        assert_eq!(IN_USE.load(Ordering::Relaxed), 0);
        assert!(!is_short());
    }
}
