//! The address space of a command that runs a program: the program may have a limit on it, which
//! the command inherits.

/// Has all threads of this process share one pool of the C library's allocator. By default each has
/// its own, with 64 MiB of address space, and the recorder's threads allocate little.
///
/// Only for a process that is ours alone.
#[cfg(target_env = "gnu")]
#[expect(
    unsafe_code,
    reason = "a call of the C library that only sets a number"
)]
pub(crate) fn share_one_pool() {
    // SAFETY: mallopt takes two numbers; a refusal leaves the default.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Other C libraries have one pool.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn share_one_pool() {}
