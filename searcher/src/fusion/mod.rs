//! How rankings become one, and how that is learned. The two rankings of an index are fused by [`dyad_index::hybrid`].
//!
//! | file | contents |
//! |---|---|
//! | `reranked.rs` | the order of hits that a cross encoder has scored |
//! | `learn/` | learns method and weight from judged questions |

pub mod learn;
pub mod reranked;

pub use dyad_index::hybrid::{Bm25Ranking, Fusion};
