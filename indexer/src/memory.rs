//! Peak memory of the process, as the kernel counts it.

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
