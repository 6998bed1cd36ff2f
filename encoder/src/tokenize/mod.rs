//! Text to tokens, and tokens to batches. Runs off the thread that owns the model.
//!
//! | file | what |
//! |---|---|
//! | `files/` | a tokenizer from the files of a directory |
//! | `tokenizer.rs` | texts to tokens: prompts, special tokens, truncation |
//! | `pairs.rs` | two texts as one input |
//! | `given.rs` | texts that the caller has tokenized; lengths before the cut |
//! | `cut.rs` | where a long text may be cut before it is tokenized |
//! | `windows.rs` | documents as windows, and the tokens of their passages |
//! | `contexts.rs` | the documents in which passages stand, each read once for all of its passages |
//! | `prompt.rs` | what stands before a text, and how many tokens it takes |
//! | `batch.rs` | length-sorted batches under a token budget |

mod batch;
mod contexts;
mod cut;
mod files;
mod given;
mod pairs;
mod prompt;
mod tokenizer;
mod windows;

pub(crate) use batch::plan;
pub use batch::{Budget, TokenBatch};
pub(crate) use contexts::{ContextTokens, PassageBytes, PassagesOfDocument, add_contexts};
pub(crate) use given::GivenError;
pub(crate) use prompt::{Prompt, PromptError};
pub(crate) use tokenizer::{Splitter, SplitterSettings};
pub use tokenizer::{Tokenizer, Tokens};
pub use windows::DocumentWindow;
