//! How the C allocator gives memory back to the kernel.
//!
//! A merge frees tens of MiB at once. The allocator would hand them back on the spot, in one system call of some
//! 5 ms for 24 MiB (measured), during which the shard serves nobody; and the next merge would fault every page
//! in again. So freed memory is kept for reuse up to a bound. Called once by the control core, before any thread.

#![expect(unsafe_code, reason = "mallopt(3) has no safe door")]

/// Free memory at the top of one heap that is kept: ten merges of three 8 MiB answers.
const KEPT_BYTES: i32 = 256 * 1024 * 1024;
/// From this size on a block is mapped alone, and unmapped when freed. The largest that glibc takes.
const MAPPED_BYTES_MIN: i32 = 32 * 1024 * 1024;

const _: () = assert!(MAPPED_BYTES_MIN < KEPT_BYTES);

/// Keeps freed memory for reuse. False when the allocator does not take the setting, or is not glibc's.
pub fn keep_freed() -> bool {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: mallopt only stores numbers in the allocator's parameters, under its own lock.
        unsafe {
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES) == 1
                && libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN) == 1
        }
    }
    #[cfg(not(target_env = "gnu"))]
    false
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    #[test]
    fn the_allocator_takes_the_settings() {
        assert!(super::keep_freed());
    }
}
