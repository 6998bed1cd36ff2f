//! The files that the process may have open: an index takes several, and the usual 1024 are few for hundreds of
//! indexes.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files to the one that the system allows this process. Where it cannot be raised, it stays.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        )
    {
        tracing::warn!("the limit of open files stays at {}: {error}", number(current));
    }
}

/// What the process may have open, and how that is raised.
pub(in crate::run) fn limits() -> String {
    let files = number(getrlimit(Resource::Nofile).current);
    let maps = fs_err::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let maps = if maps.is_empty() { "unknown" } else { maps.trim() };
    format!(
        "This process may open {files} files (`ulimit -Hn`, `LimitNOFILE=` of systemd, `--ulimit nofile=` of docker) and map {maps} (`sysctl vm.max_map_count`)"
    )
}

fn number(limit: Option<u64>) -> String {
    limit.map_or_else(|| "any number of".to_owned(), |limit| limit.to_string())
}
