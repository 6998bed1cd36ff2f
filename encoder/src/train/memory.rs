//! Memory that one step frees is kept for the next.
//!
//! The binaries' allocator, mimalloc, gives back to the kernel what has been free for a second. A step takes longer,
//! and most of its memory is activations: having the kernel clear their pages again was a sixth to a quarter of a step
//! (all-MiniLM-L6-v2, 64 pairs of SQuAD, f32, two threads, medians of ten steps of `dyad-encoder train`;
//! `MIMALLOC_PURGE_DELAY=1000`: 3.4, 3.7 and 4.1 s; `-1`, never: 2.8, 3.1 and 3.0; `60000`, in addition to the last of
//! each: 3.2; 37,000 page faults a step against 2,000).

use std::ffi::{c_int, c_long};

/// Sets how long freed memory is kept, in milliseconds.
const ENVIRONMENT: &str = "MIMALLOC_PURGE_DELAY";
/// The same as an option of mimalloc: `mi_option_purge_delay` of `mi_option_e` in its `mimalloc.h`, versions 2 and 3.
const PURGE_DELAY: c_int = 15;
/// Longer than a step.
const A_MINUTE: c_long = 60_000;

/// Keeps freed memory for a minute, unless the environment says how long. mimalloc reads the option whenever it purges
/// (`mi_arena_purge_delay` in its `arena.c`).
pub fn keep_freed_memory() {
    if std::env::var_os(ENVIRONMENT).is_none() {
        set_purge_delay(A_MINUTE);
    }
}

#[expect(unsafe_code, reason = "an option of the allocator, which only its C interface sets")]
fn set_purge_delay(milliseconds: c_long) {
    // SAFETY: the number is one of mimalloc's options; setting one stores a value, from any thread and at any time.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, milliseconds) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[expect(unsafe_code, reason = "an option of the allocator, which only its C interface tells")]
    fn purge_delay() -> c_long {
        // SAFETY: the number is one of mimalloc's options; reading one has no other effect.
        unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) }
    }

    /// Also the other process of the test below.
    #[test]
    fn memory_is_kept_for_a_minute_unless_the_environment_says_how_long() {
        let given = std::env::var_os(ENVIRONMENT).map(|given| given.to_string_lossy().parse().unwrap());
        keep_freed_memory();
        assert_eq!(purge_delay(), given.unwrap_or(A_MINUTE));
    }

    /// mimalloc itself reads the variable into this option: so the option is the one that the variable is about.
    #[test]
    fn the_option_is_that_of_the_environment_variable() {
        let this = std::env::current_exe().unwrap();
        let other = "train::memory::tests::memory_is_kept_for_a_minute_unless_the_environment_says_how_long";
        let output = Command::new(this)
            .args(["--exact", other])
            .env(ENVIRONMENT, "1234")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    }
}
