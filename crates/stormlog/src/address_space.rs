//! Keeps the address space of a recording command small, because the command inherits the
//! address-space limit (`ulimit -v`) that may be set for the recorded program.

/// Makes all threads of this process share one pool of the C library's allocator. By default each
/// thread gets a pool with 64 MiB of address space, which the recorder's threads do not need,
/// because they allocate little.
///
/// This function must be called only in a process that runs nothing but Stormlog.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "mallopt only sets a parameter of the allocator")]
pub(crate) fn share_one_pool() {
    // SAFETY: mallopt takes two numbers; if it refuses them, the default number of pools stays.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Does nothing, because only glibc gives each thread a memory pool of its own.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn share_one_pool() {}
