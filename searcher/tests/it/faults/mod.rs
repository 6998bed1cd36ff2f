//! Faults of a running searcher, each seen through gRPC and HTTP by several clients: the code and the message are
//! right, so are the replies before and after, and nothing is lost or kept.
//!
//! | file | contents |
//! |---|---|
//! | `process.rs` | the binary in a process of its own, its clients, and what it holds |
//! | `tower.rs` | a question tower that is killed, slow, hanging, or overrun |
//! | `index.rs` | shards replaced by garbage, a directory that is gone, a wrong model |
//! | `publishing.rs` | generations that are published, reloaded and rolled back under load |
//! | `clients.rs` | clients that send or read slowly, send rubbish, or do nothing |

mod clients;
mod index;
mod process;
mod publishing;
mod tower;
