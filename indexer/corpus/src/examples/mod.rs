//! Training examples: questions with passages that answer them and passages that do not, from every format in use.
//!
//! | file | contents |
//! |---|---|
//! | `example.rs` | [`TrainingExample`] and [`Passage`] |
//! | `format.rs` | [`ExampleFormat`], detected from a file's name and first bytes |
//! | `reader.rs` | [`ExampleReader`]: one streaming iterator over all of them; what is refused, what is skipped and counted |
//! | `skipped.rs` | [`Skipped`]: counts of skipped records, by reason |
//! | `records.rs` | JSON values of a file: one per line, or the elements of one array |
//! | `array.rs` | the elements of a JSON array, one in memory at a time |
//! | `passages.rs` | the passages of a record, in all supported shapes |
//! | `pairs.rs` | sentence-transformers' and FlagEmbedding's records, and plain pairs |
//! | `tevatron.rs` | Tevatron's records, read and written |
//! | `dpr.rs` | DPR's records |
//! | `columns.rs` | tab-separated columns |
//! | `beir.rs` | questions, judgements and judged documents of a BEIR folder |
//! | `judged.rs` | the documents that examples name by key |
//! | `squad.rs` | SQuAD's articles |
//! | `reqa.rs` | the ReQA construction: SQuAD to questions and answer sentences |
//! | `sentences.rs` | splits a paragraph into sentences |

mod array;
mod beir;
mod columns;
mod dpr;
mod example;
mod format;
mod judged;
mod pairs;
mod passages;
mod reader;
mod records;
mod reqa;
mod sentences;
mod skipped;
mod squad;
#[cfg(test)]
mod tests;
mod tevatron;

pub use example::{Passage, TrainingExample};
pub use format::ExampleFormat;
pub use reader::{ExampleOptions, ExampleReader, Flawed};
pub use reqa::{ReqaSummary, write_reqa};
pub use sentences::sentences;
pub use skipped::Skipped;
pub use tevatron::to_tevatron;
