//! Text to tokens, and tokens to batches. Runs off the thread that owns the model.
//!
//! | file | what |
//! |---|---|
//! | `tokenizer.rs` | `tokenizer.json` or `vocab.txt`, prompts, truncation |
//! | `given.rs` | texts that the caller has tokenized; lengths before the cut |
//! | `cut.rs` | where a long text may be cut before it is tokenized |
//! | `prompt.rs` | what stands before a text, and how many tokens it takes |
//! | `batch.rs` | length-sorted batches under a token budget |

mod batch;
mod cut;
mod given;
mod prompt;
mod tokenizer;

pub(crate) use batch::plan;
pub use batch::{Batch, Budget};
pub(crate) use given::GivenError;
pub(crate) use prompt::Prompt;
pub(crate) use tokenizer::{Splitter, SplitterSettings};
pub use tokenizer::{Tokenizer, Tokens};
