//! Plans carried out.
//!
//! | file | what lives there |
//! |---|---|
//! | `engine.rs` | the served generation, the question tower, and the way through both |
//! | `stages.rs` | the CPU work of one request: search, fuse, fetch |
//! | `batch.rs` | the same for many requests, walked together where they ask for the same |
//! | `stop.rs` | when work ends before its end |
//! | `answer.rs` | what comes out |
//! | `generations.rs` | reload, rollback, verification |
//! | `explain.rs` | why a document is, or is not, among the hits |
//! | `pool.rs` | CPU work off the I/O threads, bounded in number and time |
//! | `reply_memory.rs` | what replies may hold of documents |

mod answer;
mod batch;
mod engine;
mod explain;
mod generations;
mod pool;
mod reply_memory;
mod stages;
mod stop;

pub(crate) use answer::overlap;
pub use answer::{Answer, AnswerHit, Compared, StageTimings};
pub use engine::{Admission, Engine, EngineConfig};
pub use explain::Explanation;
pub use reply_memory::Share;
