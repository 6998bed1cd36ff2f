//! `dyad_search._native`: an index in a Python process, over NumPy arrays.
//!
//! | file | contents |
//! |---|---|
//! | `index.rs` | the class `Index`: what it is of, and how it is built |
//! | `searches.rs` | its methods that search |
//! | `changes.rs` | its methods that change it |
//! | `generation.rs` | a generation that is open |
//! | `search.rs` | searches for one question or many |
//! | `hybrid.rs` | searches by text, and their fusion with the dense ones |
//! | `beam.rs` | how wide the beams of a search are |
//! | `arguments.rs` | arguments of its methods |
//! | `documents.rs` | keys, texts and metadata as documents |
//! | `vectors.rs` | arrays of vectors, read where they lie |
//! | `filters.rs` | what a search may find: keys, a mask, or conditions |
//! | `hits.rs` | what was found, as arrays |
//! | `interrupt.rs` | long work that Ctrl-C ends, and its progress |
//! | `problem.rs` | errors as Python's |

mod arguments;
mod beam;
mod changes;
mod documents;
mod filters;
mod generation;
mod hits;
mod hybrid;
mod index;
mod interrupt;
mod problem;
mod search;
mod searches;
mod vectors;

/// The module.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use super::index::NativeIndex;

    /// The release.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
