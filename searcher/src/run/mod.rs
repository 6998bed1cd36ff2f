//! Execution of plans.
//!
//! | file | contents |
//! |---|---|
//! | `engine.rs` | what all indexes of a searcher share, and the handling of a request |
//! | `resources` | what requests share and what bounds them |
//! | `served` | the indexes that are served |
//! | `stages` | the stages of a batch of questions |
//! | `config.rs` | its configuration |
//! | `leaf/` | what a leaf does for roots |
//! | `on_leaves/` | what a root does with its leaves |
//! | `embed.rs` | the questions' vectors, and the degraded answer without them |
//! | `search_parts.rs` | the parts of a batch as jobs |
//! | `parts.rs` | the order of a search's parts: the filter, then BM25 and the dense part in parallel |
//! | `reading.rs` | calls that read documents without a question |
//! | `sample.rs` | stored documents chosen at random |
//! | `scroll.rs` | stored documents in the order of their keys |
//! | `inventory.rs` | how many documents there are, and which fields they have |
//! | `gather.rs` | dense searches of single requests that wait for a thread at the same time, run by one job |
//! | `rerank.rs` | the best hits in the order of a cross encoder's scores |
//! | `deeper.rs` | answers that need deeper rankings, or reply memory |
//! | `generations.rs` | reload, rollback, verification |
//! | `documents.rs` | documents by key |
//! | `observe.rs` | what operators see: memory, load, readiness |
//! | `live_recall.rs` | some searches compared with exact ones |
//! | `fetch_in_turn.rs` | the documents of a stream's replies |
//! | `warm_up.rs` | questions that are answered before clients' are |

mod config;
mod deeper;
mod documents;
mod embed;
mod engine;
mod fetch_in_turn;
mod gather;
mod generations;
mod inventory;
mod leaf;
mod live_recall;
mod observe;
mod on_leaves;
mod parts;
mod reading;
mod rerank;
mod resources;
mod sample;
mod scroll;
mod search_parts;
mod served;
mod stages;
mod warm_up;

pub use config::EngineConfig;
pub use engine::{Engine, QueuePolicy};
pub(crate) use leaf::HeldVersion;
pub use rerank::no_gain;
pub use resources::pool::SlotLoad;
pub(crate) use resources::reply_memory::ALL_REPLIES;
pub use resources::reply_memory::ReplyBudget;
pub use resources::turns::{Turn, Turns, UntilNext};
pub use served::generation::ServedGeneration;
pub use served::open_files;
pub use served::readiness::Readiness;
pub use served::served_index::{IndexPath, ServedIndex};
pub use stages::answer::{Answer, AnswerHit, ComparedRankings};
pub(crate) use stages::rank::fusion_method;
