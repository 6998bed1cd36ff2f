//! The files of an index that are no part of a generation: what was learned for it.

use std::path::Path;

use crate::error::Result;
use crate::fusion::{FUSION_FILE, FusionRecord};
use crate::reranking::{RERANK_FILE, RerankRecord};

/// Their names.
pub const LEARNED_FILES: [&str; 2] = [FUSION_FILE, RERANK_FILE];

/// Refuses what the file with this name may not hold; `path` names it in errors.
pub fn check_learned(name: &str, path: &Path, bytes: &[u8]) -> Result<()> {
    match name {
        FUSION_FILE => FusionRecord::parse(path, bytes).map(drop),
        RERANK_FILE => RerankRecord::parse(path, bytes).map(drop),
        _ => Ok(()),
    }
}
