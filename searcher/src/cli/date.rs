//! Times for people.

/// Seconds since the epoch as a date in UTC.
pub(super) fn date(unix_s: u64) -> String {
    let time = i64::try_from(unix_s)
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(
        || "at an unknown time".to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}
