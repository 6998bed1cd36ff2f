//! Execution of plans.
//!
//! | file | contents |
//! |---|---|
//! | `engine.rs` | what all indexes of a searcher share, and the handling of a request |
//! | `config.rs` | its configuration |
//! | `served_index.rs` | the indexes by name, and the generation that is served of each |
//! | `open_files.rs` | the limit of open files |
//! | `question_vector.rs` | the vector that a request brings, checked against the index's model |
//! | `embed.rs` | the questions' vectors, and the degraded answer without them |
//! | `parts.rs` | the order of a search's parts: the filter, then BM25 and the dense part in parallel |
//! | `batch.rs` | the CPU work of the parts for questions that are answered together |
//! | `batch_cost.rs` | the expected cost of these questions |
//! | `filter_cache.rs` | the nodes that filters allow, kept for the next request with the same filter |
//! | `sample.rs` | stored documents chosen at random |
//! | `pages.rs` | pages of a dense search as parts of one ranking |
//! | `gather.rs` | dense searches of single requests that wait for a thread at the same time, run by one job |
//! | `scope.rs` | the documents that exist for a caller |
//! | `document_scores.rs` | what the documents of passages add to their BM25 scores |
//! | `fuse.rs` | the whole ranking of a search: fusion of the parts' hits |
//! | `rank.rs` | the answer, made of the ranking's hits |
//! | `rerank.rs` | the best hits in the order of a cross encoder's scores |
//! | `groups.rs` | groups of hits with the same value of a field |
//! | `surrounding.rs` | what stands around a passage in its document |
//! | `deeper.rs` | answers that need deeper rankings, or reply memory |
//! | `cancellation.rs` | cancellation of a request's work: its deadline, and a client that has left |
//! | `answer.rs` | the answer |
//! | `generations.rs` | reload, rollback, verification |
//! | `checksums.rs` | background verification of checksums after opening |
//! | `documents.rs` | documents by key |
//! | `observe.rs` | what operators see: memory, load, readiness |
//! | `live_recall.rs` | some searches compared with exact ones |
//! | `readiness.rs` | whether the searcher can answer |
//! | `explain.rs` | why a document is, or is not, among the hits |
//! | `load.rs` | what is queued on the threads of a pool, and how long it takes |
//! | `pool.rs` | CPU work off the I/O threads, bounded in number and time |
//! | `reply_memory.rs` | the memory budget for documents in replies |
//! | `fetch_in_turn.rs` | the documents of a stream's replies |
//! | `threads.rs` | threads for work that each does alone |
//! | `turns.rs` | the order in which the replies of a stream take of it |
//! | `warm_up.rs` | questions that are answered before clients' are |

mod answer;
mod batch;
mod batch_cost;
mod cancellation;
mod checksums;
mod config;
mod deeper;
mod document_scores;
mod documents;
mod embed;
mod engine;
mod explain;
mod fetch_in_turn;
mod filter_cache;
mod fuse;
mod gather;
mod generations;
mod groups;
mod live_recall;
mod load;
mod observe;
pub mod open_files;
mod pages;
mod parts;
mod pool;
mod question_vector;
mod rank;
mod readiness;
mod reply_memory;
mod rerank;
mod sample;
mod scope;
mod served_index;
mod surrounding;
mod threads;
mod turns;
mod warm_up;

pub use answer::{Answer, AnswerHit, ComparedRankings};
pub use config::EngineConfig;
pub use engine::{Admission, Engine};
pub use pool::SlotLoad;
pub(crate) use rank::fusion_method;
pub use readiness::Readiness;
pub(crate) use reply_memory::ALL_REPLIES;
pub use reply_memory::ReplyBudget;
pub use rerank::no_gain;
pub use served_index::{IndexPath, ServedIndex};
pub use turns::{Turn, Turns, UntilNext};
