//! Optimizers over named tensors, whose whole state can be saved, and what goes with them.
//!
//! | file | what | source |
//! |---|---|---|
//! | `adamw.rs` | Adam with decoupled weight decay | Loshchilov and Hutter 2019 |
//! | `adafactor.rs` | second moments by rows and columns, clipped updates, relative steps | Shazeer and Stern 2018 |
//! | `joined.rs` | small tensors that take a step together, on a GPU | |
//! | `slabs.rs` | the passes of Adafactor over a large matrix | |
//! | `optimizer.rs` | either, chosen by its settings | |
//! | `gradients.rs` | the gradients of a step, and what they are multiplied with | |
//! | `clip.rs` | clipping by the global norm, and gradients that are not finite | |
//! | `groups.rs` | rate and weight decay by tensor name | |
//! | `schedule.rs` | the learning rate's factor by step | |
//! | `entry.rs` | a tensor, its group and its state, by name | |
//! | `chunks.rs` | large tensors in parts that fit a processor's cache | |
//!
//! A step works without a tape and in place, on the very tensors that the towers compute with: a tensor that two towers
//! share is one entry. Frozen tensors have no entry. State is f32 whatever the tensors' number type.

mod adafactor;
mod adamw;
mod chunks;
mod clip;
mod entry;
mod gradients;
mod groups;
mod joined;
mod optimizer;
mod schedule;
mod slabs;

pub use adafactor::{Adafactor, AdafactorSettings};
pub use adamw::{AdamW, AdamWSettings};
pub use clip::{ClipOutcome, Clipping, NotFinite};
pub use gradients::Gradients;
pub use groups::{Group, Groups};
pub use optimizer::{Optimizer, OptimizerSettings};
pub use schedule::Schedule;

use crate::error::Error;

/// Refuses a number that is not positive.
fn positive(setting: &'static str, value: f64) -> Result<(), Error> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Error::Setting {
        setting,
        expected: "a positive number".to_owned(),
        got: value.to_string(),
    })
}
