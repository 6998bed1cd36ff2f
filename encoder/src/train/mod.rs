//! Training: one TOML, one command, a directory that a run can be taken up in again.
//!
//! ```text
//! Config -> for each stage: (mine ->) pairs -> Sampler ==Prefetch==> Step -> checkpoints, evaluation, log -> models
//! ```
//!
//! | file | what |
//! |---|---|
//! | `config/` | settings, their defaults, and what is wrong with them |
//! | `run/` | a whole run, and how it resumes |
//! | `run_record.rs` | `run.json`: what a run began with |
//! | `stages.rs` | what a stage needs before its first step |
//! | `step.rs` | [`TrainingStep`]: forward, loss, gradients, optimizer |
//! | `vectors.rs` | a batch through both towers and the cross-encoder branch |
//! | `objective/` | the loss of a batch from its vectors |
//! | `candidates.rs` | a batch through a cross encoder, and its loss |
//! | `cache.rs` | gradients of a large batch in the memory of a part |
//! | `state.rs`, `tensors.rs` | checkpoints, whole or not at all |
//! | `publish.rs` | the directory of a run, and the model that it begins from |
//! | `evaluate.rs` | exact search over a BEIR folder, and a cross encoder's order of its hits |
//! | `negatives_left.rs` | what is left of a batch's negatives |
//! | `memory.rs` | what the allocator keeps between steps |
//! | `log/` | bar, lines of JSON, TensorBoard |
//! | `error.rs` | why a run cannot begin, go on or save |
//!
//! A run that goes on from a checkpoint takes the steps that it would have taken: batches are a function of the seed
//! and a cursor, nothing else is random, and the optimizer's state is kept whole. On a CPU with the same number of
//! threads they are the same to the bit: 0 threads are one per core, whatever the process did before. A GPU adds in an
//! order of its own.
//!
//! ENDX trains by inner products of vectors of any length, while a model serves vectors of unit length. So evaluation
//! is by cosine, as served, unless `evaluation.similarity` asks for inner products.

mod cache;
mod candidates;
pub mod config;
mod error;
mod evaluate;
mod log;
mod memory;
mod negatives_left;
mod objective;
mod publish;
mod run;
mod run_record;
mod stages;
mod state;
mod step;
mod tensors;
mod vectors;

pub use config::Config;
pub use error::TrainError;
pub use evaluate::{DEPTH, Embed, EvaluatedContext, EvaluatedVectors, Evaluator, METRICS, Score};
pub use memory::keep_freed_memory;
pub use run::{TrainingOutcome, train};
pub use step::{Length, StepReport, TrainingStep};
