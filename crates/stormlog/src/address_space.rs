//! Keeps the address space of a recording command small, because the program may have a limit on
//! it, which the command inherits.

/// Makes all threads of this process share one pool of the C library's allocator. By default each
/// thread has its own pool with 64 MiB of address space, and the recorder's threads allocate
/// little.
///
/// Must be called only in a process that belongs to this program alone.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "this call of the C library only sets a number")]
pub(crate) fn share_one_pool() {
    // SAFETY: mallopt takes two numbers; if it refuses them, the default stays.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Other C libraries have only one pool.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn share_one_pool() {}
