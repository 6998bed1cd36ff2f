//! Memory that one step frees is kept for the next.
//!
//! The binaries' allocator, mimalloc, gives back to the kernel what has been free for a second. A step takes longer, and most of its
//! memory is activations: having the kernel clear their pages again was a sixth to a quarter of a step (all-MiniLM-L6-v2, 64 pairs of
//! SQuAD, f32, two threads, medians of ten steps of `dyad-encoder train`; `MIMALLOC_PURGE_DELAY=1000`: 3.4, 3.7 and 4.1 s; `-1`, never:
//! 2.8, 3.1 and 3.0; `60000`, beside the last of each: 3.2; 37,000 page faults a step against 2,000).

use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// How long freed memory is kept, in milliseconds. Read when a process starts, and not again.
const DELAY: &str = "MIMALLOC_PURGE_DELAY";
/// Longer than a step.
const A_MINUTE: &str = "60000";

/// Begins this process anew (`exec`: the same number, arguments and files) with freed memory kept for a minute. To be called before
/// anything else is done.
///
/// Returns where the environment says already how long, or where the program cannot be begun again, which costs speed alone.
pub fn keep_freed_memory() {
    if std::env::var_os(DELAY).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    let again = std::env::current_exe().map(|program| {
        let mut again = Command::new(program);
        again.env(DELAY, A_MINUTE);
        if let Some(name) = arguments.next() {
            again.arg0(name);
        }
        again.args(arguments).exec()
    });
    let (Ok(error) | Err(error)) = again;
    tracing::debug!(%error, "freed memory is not kept between steps");
}
