//! The papers' findings on real data: models trained under like settings, evaluated by exact search, compared by paired
//! tests.
//!
//! | file | contents |
//! |---|---|
//! | `table/` | which models, data and settings: TOML, `benches/reproduce/` |
//! | `settings.rs` | the trainer's settings of one model and one seed |
//! | `part.rs` | a share of some examples, to train on or to choose settings by |
//! | `derived.rs` | examples that a variant makes for later ones: mined negatives, a teacher's scores |
//! | `trial.rs` | one model at one seed: train, evaluate, probe; goes on where it was ended |
//! | `run.rs` | all trials of a table, in order |
//! | `compare.rs` | means over questions and seeds, and paired tests against a baseline |
//! | `record.rs` | rows that later runs can be compared with |
//! | `markdown.rs` | the table for people |

mod compare;
mod derived;
mod markdown;
mod part;
mod record;
mod run;
mod settings;
mod table;
mod trial;

pub(crate) use compare::compare;
pub(crate) use markdown::write_markdown;
pub(crate) use record::rows;
pub(crate) use run::{ReproduceJob, run};
pub(crate) use settings::SettingOverride;
pub(crate) use table::{ReproduceTable, TablePlaces};
