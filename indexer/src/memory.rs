//! Peak memory of the process, as the kernel counts it, and what the allocator does with memory that is freed.

use std::hint::black_box;

/// Most bytes that this process ever had in memory, mapped files among them (`VmHWM`); none where the kernel does not
/// say.
pub fn peak_bytes() -> Option<u64> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    parse(&status, "VmHWM:")
}

fn parse(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Just below the largest block for which glibc asks the kernel anew each time, whatever was freed before
/// (`DEFAULT_MMAP_THRESHOLD_MAX`).
const LARGEST_MAPPED_BLOCK: usize = (32 << 20) - (64 << 10);

/// Makes glibc keep up to 64 MiB of freed memory for each thread that allocates, in place of 128 KiB: once a block that
/// it had mapped is freed, it takes smaller ones for usual (`man 3 mallopt`, `M_MMAP_THRESHOLD`). A server that makes
/// one small index after another would else get the same pages from the kernel, and clear them, each time: a fifth of
/// the system's time of a change. Other allocators take no notice.
pub(crate) fn keep_freed_memory() {
    drop(black_box(Vec::<u8>::with_capacity(LARGEST_MAPPED_BLOCK)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_found_and_nothing_else() {
        assert_eq!(
            parse("Name:\tx\nVmHWM:\t    1234 kB\nVmRSS:\t 1 kB\n", "VmHWM:"),
            Some(1234 * 1024)
        );
        assert_eq!(parse("VmHWM: many kB", "VmHWM:"), None);
        assert_eq!(parse("", "VmHWM:"), None);
        assert!(peak_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }
}
