//! Dual encoders: a question tower and an answer tower, and what they have in common.
//!
//! | file | what |
//! |---|---|
//! | `sharing.rs` | the five variants, and all others, in one table |
//! | `create.rs` | a new bundle of two towers from a pretrained model |
//! | `origin.rs` | what a tower of it is made from |
//! | `drawn.rs`, `random.rs` | modules whose values are drawn anew |
//! | `encoder.rs` | the same with an encoder that is drawn anew, over the token vectors of a pretrained one or over drawn ones |
//! | `learned.rs` | the tensors of a bundle as training takes them: each once, by name, with or without a gradient |
//! | `states.rs` | the token vectors of a batch, beside its vectors |

mod create;
mod drawn;
mod encoder;
mod learned;
mod origin;
mod random;
mod sharing;
mod states;

pub use crate::bundle::Cell;
pub use create::{Aggregation, Creation, create, create_with, own_projection};
pub use encoder::{NewEncoder, create_drawn, create_over};
pub use learned::{Learned, Parameter};
pub(crate) use random::Random;
pub use sharing::{Part, Sharing, Tie};
pub use states::States;
