//! The leaves of a root: where they are, what they say that they hold, and which of them is asked for which shards.
//!
//! A root trusts what leaves report and nothing else: moves, restarts and leaves that see different things need no
//! agreement. Leaves are found by their addresses, which are looked up again and again.
//!
//! | file | contents |
//! |---|---|
//! | `follow.rs` | the addresses, and a connection to each |
//! | `connection.rs` | one leaf: its last report, and its load |
//! | `load.rs` | calls in flight, and how long the last ones took |
//! | `held.rs` | what a leaf holds, as it reports it |
//! | `patience.rs` | how long a generation waits for leaves that are to hold its shards |
//! | `placement.rs` | which leaves hold which shards |
//! | `held_shards.rs` | which shards a process opens |
//! | `route.rs` | which leaf is asked for which shards |
//! | `filters.rs` | which leaf has probably kept what a filter allows |
//! | `call.rs` | a call of all leaves that are needed: another holder where one fails or is late |
//! | `lost.rs` | shards for which a call has no answer, and why |
//! | `replies.rs` | what the reply of a leaf has to be, after what it was asked |
//! | `partial.rs` | answers of which some shards may be missing |
//! | `draws.rs` | numbers that are drawn |
//! | `hedges.rs` | how many calls may be made twice |
//! | `simulation.rs` | thousands of seeds of leaves that fail, hang and come back, in virtual time |
//! | `status.rs` | what operators see of leaves |
//! | `wire.rs` | messages between roots and leaves |

mod call;
mod connection;
mod draws;
mod filters;
mod follow;
mod hedges;
mod held;
mod held_shards;
mod load;
mod lost;
mod partial;
mod patience;
mod placement;
mod replies;
mod route;
#[cfg(test)]
mod simulation;
mod status;
pub(crate) mod wire;

pub(crate) use call::LeafRequest;
pub(crate) use draws::Draws;
pub use follow::Leaves;
pub(crate) use held::{GenerationShards, TooFewHolders};
pub use held_shards::HeldShards;
pub(crate) use lost::{BusyLeaf, LeafFailure, MissingShards};
pub(crate) use partial::{PartialAnswers, until_partial};
