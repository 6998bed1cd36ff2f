//! Replies as JSON for programs: as `dyad-searcher serve --http` answers them, with line breaks.

use std::io::Write as _;

use dyad_proto::json::MessageJson;
use prost::{Message, Name};

/// Prints a reply as JSON.
pub(super) fn print<M: Message + Name>(reply: M) -> anyhow::Result<()> {
    let json = MessageJson::new()?.write_indented(reply)?;
    writeln!(std::io::stdout().lock(), "{json}")?;
    Ok(())
}
