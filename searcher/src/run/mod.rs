//! Plans carried out.
//!
//! | file | what lives there |
//! |---|---|
//! | `engine.rs` | the served generation, the question tower, and the way through both |
//! | `stages.rs` | the CPU work of one request: search, fuse, fetch |
//! | `batch.rs` | the same for many requests, walked together where they ask for the same |
//! | `stop.rs` | when work ends before its end |
//! | `answer.rs` | what comes out |
//! | `explain.rs` | why a document is, or is not, among the hits |
//! | `pool.rs` | CPU work off the I/O threads, bounded |

mod answer;
mod batch;
mod engine;
mod explain;
mod pool;
mod stages;
mod stop;

pub(crate) use answer::overlap;
pub use answer::{Answer, AnswerHit, Compared, StageTimings};
pub use engine::{Engine, EngineConfig};
pub use explain::Explanation;
