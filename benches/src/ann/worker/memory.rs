//! What the process holds in memory.

use anyhow::Context as _;

use crate::ann::protocol::Memory;

/// Reads `/proc/self/status`.
pub(super) fn resident() -> anyhow::Result<Memory> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kilobytes.map(|kilobytes| kilobytes * 1024).with_context(|| format!("/proc/self/status has no `{name}` in kB"))
    };
    Ok(Memory { rss_bytes: bytes("VmRSS")?, anonymous_bytes: bytes("RssAnon")?, file_bytes: bytes("RssFile")? })
}
