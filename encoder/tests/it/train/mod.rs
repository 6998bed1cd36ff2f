//! Training from outside.
//!
//! | file | what |
//! |---|---|
//! | `fixture.rs` | 64 pairs, tiny models, settings, the binary |
//! | `overfit.rs` | every sharing, every family and ENDX learn 64 pairs by heart |
//! | `step.rs` | the gradient cache and accumulation against one large batch |
//! | `context.rs` | answers that are read in their documents: against the formula, whole runs, what is refused |
//! | `cross_encoder.rs` | a cross encoder: learned, killed, read by Python, refused |
//! | `lora.rs` | low-rank adapters, merged at the end |
//! | `endx.rs` | ENDX on a small real task, next to the dual encoder alone |
//! | `matryoshka.rs` | vectors of several sizes |
//! | `resume.rs` | killed, interrupted, without room: runs that go on |
//! | `not_finite.rs` | gradients that are not finite |
//! | `run.rs` | whole runs: evaluation, best model, early stop |
//! | `stages.rs` | runs of several stages, with mining, ENDX and distillation; models that begin at random |
//! | `readers.rs` | what a run leaves, as other programs read it |
//! | `readme.rs` | README's example |
//! | `refuse.rs` | what cannot be trained |

mod context;
mod cross_encoder;
mod endx;
mod fixture;
mod lora;
mod matryoshka;
mod not_finite;
mod overfit;
mod readers;
mod readme;
mod refuse;
mod resume;
mod run;
mod stages;
mod step;
