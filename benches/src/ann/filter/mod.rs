//! Search under filters, measured against peers: every selectivity, correlation with the questions and shape of
//! condition.
//!
//! | file | contents |
//! |---|---|
//! | `attributes/` | what filters read of the rows, and which rows pass |
//! | `judge.rs` | a cell's filters, its exact answers, and how good an engine's are |
//! | `run.rs` | the order of a run |
//! | `measured.rs` | what a run measured, ratios, and the goals |
//! | `report.rs` | `cells.csv`, `summary.json`, the tables |

mod attributes;
mod judge;
mod measured;
mod report;
mod run;

pub use measured::{CellPoint, CellRun, FilterGoal, FilterRun};
pub use run::run_filter;
