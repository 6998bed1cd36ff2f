//! What this program was made of: its version and its commit.

use std::sync::OnceLock;

use clap::Command;

static REVISION: OnceLock<&'static str> = OnceLock::new();
/// Clap keeps no text of its own.
static VERSION_LINE: OnceLock<String> = OnceLock::new();

/// The commit that this program was built of; `unknown` where the build did not know it, and in a library that another
/// program uses.
pub fn revision() -> &'static str {
    REVISION.get().copied().unwrap_or("unknown")
}

/// The command of a program, with the revision in what `--version` prints.
pub(crate) fn released(command: Command, revision: &'static str) -> Command {
    // The first: there is one program in a process.
    let revision = REVISION.get_or_init(|| revision);
    let version = command.get_version().unwrap_or_default();
    let line = VERSION_LINE.get_or_init(|| format!("{version} ({revision})"));
    command.version(line.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_the_revision() {
        let command = released(Command::new("dyad-test").version("1.2.3"), "0123456789ab");
        assert_eq!(command.render_version(), "dyad-test 1.2.3 (0123456789ab)\n");
        assert_eq!(revision(), "0123456789ab");
    }
}
