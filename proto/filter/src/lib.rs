//! Filters of requests, for the programs that take them: the searcher and the indexer.
//!
//! | module | contents |
//! |---|---|
//! | `conversion` | a request's filter as the index evaluates it |
//! | `short_forms` | short forms of filters and enums in the JSON of requests |
//! | [`syntax`] | a condition of a filter as text |

#![forbid(unsafe_code)]

mod conversion;
mod short_forms;
pub mod syntax;

pub use conversion::{document_filter, field_value};
pub use short_forms::message_json;
