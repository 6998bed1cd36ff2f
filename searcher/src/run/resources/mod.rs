//! What requests share and what bounds them: threads, memory of replies, deadlines, turns.
//!
//! | file | contents |
//! |---|---|
//! | `cancellation.rs` | cancellation of a request's work: its deadline, and a client that has left |
//! | `threads.rs` | threads for work that each does alone |
//! | `load.rs` | what is queued on the threads of a pool, and how long it takes |
//! | `pool/` | CPU work off the I/O threads, bounded in number and time |
//! | `reply_memory.rs` | the memory budget for documents in replies |
//! | `turns.rs` | the order in which the replies of a stream take of it |

pub(in crate::run) mod cancellation;
pub(in crate::run) mod load;
pub(in crate::run) mod pool;
pub(in crate::run) mod reply_memory;
pub(in crate::run) mod threads;
pub(in crate::run) mod turns;
