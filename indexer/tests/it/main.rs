//! Whole builds of small indexes: what is published, what is refused, and that a refusal changes nothing.
#![expect(clippy::unwrap_used, reason = "tests")]

mod build;
mod bulk;
mod bulk_hostile;
mod bulk_s3;
mod calibrate;
mod certificate;
mod collide;
mod command_line;
mod contexts;
mod crash;
mod damage;
mod deletes;
mod encoder;
mod export;
mod filters;
mod fixture;
mod golden;
mod kept;
mod kept_shards;
mod kill;
mod languages;
mod life;
mod long;
mod memory;
mod pairs;
mod passages;
mod races;
mod reembed;
mod refusals;
mod serve;
mod soak;
mod store;
mod store_s3;
mod values;
mod vectors;
