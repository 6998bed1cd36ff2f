//! What this process holds in memory.

use anyhow::Context as _;

/// A field of `/proc/self/status` in bytes: `VmRSS` (resident), `VmHWM` (its peak), `RssAnon`, `RssFile`.
pub fn own_bytes(name: &str) -> anyhow::Result<u64> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.map(|kilobytes| kilobytes * 1024).with_context(|| format!("/proc/self/status has no `{name}` in kB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_no_less_than_what_is_there() {
        assert!(own_bytes("VmHWM").unwrap() >= 4096);
        assert!(own_bytes("VmNone").unwrap_err().to_string().contains("`VmNone`"));
    }
}
