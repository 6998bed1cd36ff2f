//! How the two towers lie in their common space: numbers, and a picture.
//!
//! Dong et al. 2022 (figure 2) show by t-SNE that towers with separate projections map questions and answers into two
//! regions, and that a shared projection mixes them. The picture follows theirs; the numbers with it do not depend on
//! the eye.
//!
//! | file | what |
//! |---|---|
//! | `choose.rs` | some questions, each with an answer, chosen by seed |
//! | `separation.rs` | how well a linear classifier tells the towers apart |
//! | `geometry.rs` | alignment, uniformity, centroids |
//! | `tsne.rs` | two dimensions |
//! | `plot.rs` | the picture as SVG |
//! | `report.rs`, `error.rs` | [`Probe`]: all of it for one model; why there is none |

mod choose;
mod error;
mod geometry;
mod plot;
mod report;
mod separation;
mod tsne;

pub use choose::choose;
pub use error::ProbeError;
pub use geometry::{GeometryReport, geometry};
pub use plot::svg;
pub use report::{Probe, ProbeOptions, probe};
pub use separation::{Separation, separation};
pub use tsne::tsne;
