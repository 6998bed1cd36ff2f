//! Prefetches cache lines. On processors without such an instruction this does nothing.

/// Bytes of a cache line, on every processor that has kernels of its own here.
const LINE: usize = 64;
/// Most bytes that one call prefetches: more would evict lines in use.
const MOST: usize = 8 << 10;

/// Prefetches every line of `bytes`, at most 8 KiB of them.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(MOST)];
    for chunk in bytes.chunks(LINE) {
        prefetch_start(chunk);
    }
    // A slice that does not start on a line may reach into one more.
    if let Some(end) = bytes.len().checked_sub(1)
        && bytes.as_ptr().addr() % LINE + end % LINE >= LINE
    {
        prefetch_start(&bytes[end..]);
    }
}

/// Prefetches the cache line in which `values` start.
#[inline]
pub fn prefetch_start<T>(values: &[T]) {
    #[cfg(target_arch = "x86_64")]
    super::x86::prefetch_line(values);
    #[cfg(target_arch = "aarch64")]
    super::aarch64::prefetch_line(values);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = values;
}
