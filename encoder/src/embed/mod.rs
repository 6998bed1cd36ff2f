//! The embedding job: a corpus in, an embeddings directory out, resumable, in constant memory.
//!
//! ```text
//! reader thread: corpus -> documents -> tokens (all cores) -> window ==bounded channel==> model -> rows -> parts on disk
//! ```
//!
//! | file | what |
//! |---|---|
//! | `embed.rs` | the job: resume, embed, finish |
//! | `windows.rs` | the reader thread: documents and their tokens, a window at a time |
//! | `resume.rs` | the corpus read once: flaws, room, and which parts of an earlier run still hold |
//! | `progress.rs` | a bar for people, lines for logs |

mod embed;
mod progress;
mod resume;
mod windows;

pub use embed::{EmbedJob, JobError, Outcome, Report};
