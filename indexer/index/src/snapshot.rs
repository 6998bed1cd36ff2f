//! snapshot
/// x
#[derive(Debug)]
pub struct Snapshot;
