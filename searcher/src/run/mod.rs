//! Plans carried out.
//!
//! | file | what lives there |
//! |---|---|
//! | `engine.rs` | the served generation, the question tower, and the way through both |
//! | `embed.rs` | the questions' vectors, and what is done without |
//! | `parts.rs` | the order of a search's parts: the filter, then BM25 and the dense part side by side |
//! | `batch.rs` | the CPU work of the parts for questions that are answered together |
//! | `rank.rs` | from what the parts found to the answer |
//! | `stop.rs` | when work ends before its end |
//! | `answer.rs` | what comes out |
//! | `generations.rs` | reload, rollback, verification |
//! | `checksums.rs` | what was opened, compared with its checksums in the background |
//! | `explain.rs` | why a document is, or is not, among the hits |
//! | `pool.rs` | CPU work off the I/O threads, bounded in number and time |
//! | `reply_memory.rs` | what replies may hold of documents |

mod answer;
mod batch;
mod checksums;
mod embed;
mod engine;
mod explain;
mod generations;
mod parts;
mod pool;
mod rank;
mod reply_memory;
mod stop;

pub(crate) use answer::overlap;
pub use answer::{Answer, AnswerHit, Compared, StageTimings};
pub use engine::{Admission, Answers, Engine, EngineConfig};
pub use explain::Explanation;
pub use reply_memory::Share;
