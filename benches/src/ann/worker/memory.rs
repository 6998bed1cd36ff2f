//! What the process holds in memory.

use crate::ann::protocol::Memory;
use crate::harness::own_bytes;

/// Reads `/proc/self/status`.
pub(super) fn resident() -> anyhow::Result<Memory> {
    Ok(Memory {
        rss_bytes: own_bytes("VmRSS")?,
        anonymous_bytes: own_bytes("RssAnon")?,
        file_bytes: own_bytes("RssFile")?,
    })
}
