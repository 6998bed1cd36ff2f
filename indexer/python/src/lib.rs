//! `dyad_search._native`: an index in a Python process, over NumPy arrays.
//!
//! | file | contents |
//! |---|---|
//! | `index.rs` | the class `Index` |
//! | `search.rs` | searches for one question or many |
//! | `arguments.rs` | arguments of its methods |
//! | `documents.rs` | keys, texts and metadata as documents |
//! | `vectors.rs` | arrays of vectors, read where they lie |
//! | `filters.rs` | what a search may find: keys, a mask, or conditions |
//! | `hits.rs` | what was found, as arrays |
//! | `interrupt.rs` | long work that Ctrl-C ends, and its progress |
//! | `problem.rs` | errors as Python's |

mod arguments;
mod documents;
mod filters;
mod hits;
mod index;
mod interrupt;
mod problem;
mod search;
mod vectors;

/// The module.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use super::index::NativeIndex;
}
