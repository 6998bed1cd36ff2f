//! The embedding job: a corpus in, an embeddings directory out, resumable, in constant memory.
//!
//! ```text
//! reader thread: corpus -> documents -> tokens (all cores) -> window ==bounded channel==> model -> rows -> parts on disk
//! ```
//!
//! | file | what |
//! |---|---|
//! | `job.rs` | what to embed, and how a job ends |
//! | `run.rs` | the job: resume, embed, finish |
//! | `windows.rs` | the reader thread: documents and their tokens, a window at a time |
//! | `resume.rs` | the corpus read once: flaws, room, and which parts of an earlier run still hold |
//! | `logit_scale.rs` | how much a difference of the model's cosines says, for searches that fuse |
//! | `progress.rs` | a bar for people, lines for logs |

mod job;
mod logit_scale;
mod progress;
mod resume;
mod run;
mod windows;

pub use job::{EmbedJob, EmbedOutcome, EmbedReport, JobError};
