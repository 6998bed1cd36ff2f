//! `rerank.json`: what a cross encoder has brought an index, as measured on judged questions.
//!
//! The file belongs to the vectors of one model, and to one cross encoder: with others it says nothing.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::fusion::FusionMethod;
use crate::learned_file::{LearnedFile, damaged};
use crate::storage::WriteLock;

/// Name of the file in the index.
pub const RERANK_FILE: &str = "rerank.json";
const FILE: LearnedFile = LearnedFile {
    name: RERANK_FILE,
    version: 1,
    holds: "the measured gain of a cross encoder",
};

/// The measured gain of a cross encoder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RerankRecord {
    /// 1.
    pub format_version: u32,
    /// The space of the vectors that were ranked: see [`ModelRecord::space`](crate::ModelRecord::space).
    pub fingerprint: String,
    /// Fingerprint of the cross encoder.
    pub reranker_fingerprint: String,
    /// The name of the cross encoder, for people.
    pub reranker: String,
    /// Hits that it scored of each question.
    pub depth: usize,
    /// The fusion of the hits that were scored again. Files of earlier releases do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fusion: Option<FusionMethod>,
    /// Weight of its scores in the order of these hits, 0 to 1: fused scores have the rest. Files of earlier releases
    /// do not have it: the order was that of its scores alone.
    #[serde(default = "alone")]
    pub weight: f64,
    /// The judged questions.
    pub measured_on: RerankMeasured,
}

fn alone() -> f64 {
    1.0
}

/// On what a cross encoder was measured, and the mean nDCG@10 there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RerankMeasured {
    /// Folder of the questions.
    pub data: String,
    /// The split of the judgements.
    pub split: String,
    /// The number of judged questions.
    pub questions: usize,
    /// The hybrid ranking.
    pub before: f64,
    /// Mean nDCG@10 with the best hits scored again by the cross encoder.
    pub after: f64,
    /// The p-value of the difference, by a paired randomisation test.
    pub p: f64,
}

impl RerankRecord {
    /// Version of the records that this build writes.
    pub const VERSION: u32 = FILE.version;

    /// What was measured with vectors of the space with this name; none without the file.
    pub fn load(index: &Path, fingerprint: &str) -> Result<Option<Self>> {
        let record = FILE.read(index, Self::parse)?;
        Ok(record.filter(|record| record.fingerprint == fingerprint))
    }

    /// What such a file holds; `path` names it in errors.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Self> {
        let record: Self = FILE.parse(path, bytes)?;
        let RerankMeasured { before, after, .. } = record.measured_on;
        let is_mean = |value: f64| (0.0..=1.0).contains(&value);
        if !is_mean(record.weight) {
            return Err(damaged(path, "`weight` from 0 to 1", record.weight.to_string()));
        }
        if !is_mean(before) || !is_mean(after) {
            return Err(damaged(
                path,
                "`before` and `after` from 0 to 1",
                format!("{before} and {after}"),
            ));
        }
        Ok(record)
    }

    /// Writes the file, in place of an earlier one. The lock proves that nobody else does.
    pub fn save(&self, index: &Path, lock: &WriteLock) -> Result<()> {
        FILE.write(index, self, lock)
    }

    /// The weight that was found for hits that are fused so; none where others were measured.
    pub fn weight_of(&self, fusion: FusionMethod) -> Option<f64> {
        (self.fusion == Some(fusion)).then_some(self.weight)
    }

    /// How much higher nDCG@10 is with the cross encoder.
    pub fn gain(&self) -> f64 {
        self.measured_on.after - self.measured_on.before
    }

    /// Whether it was this cross encoder.
    pub fn is_of(&self, reranker_fingerprint: &str) -> bool {
        self.reranker_fingerprint == reranker_fingerprint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded_for_its_model_and_damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (data, split) = ("nq".to_owned(), "dev".to_owned());
        let record = RerankRecord {
            format_version: RerankRecord::VERSION,
            fingerprint: "f00d".to_owned(),
            reranker_fingerprint: "c0de".to_owned(),
            reranker: "cross".to_owned(),
            depth: 20,
            fusion: Some(FusionMethod::LogOdds),
            weight: 0.4,
            measured_on: RerankMeasured {
                data,
                split,
                questions: 100,
                before: 0.6,
                after: 0.25,
                p: 0.001,
            },
        };
        assert_eq!(RerankRecord::load(dir.path(), "f00d").unwrap(), None);
        record
            .save(dir.path(), &WriteLock::acquire(dir.path()).unwrap())
            .unwrap();
        let loaded = RerankRecord::load(dir.path(), "f00d").unwrap().unwrap();
        assert!(loaded == record && loaded.is_of("c0de") && !loaded.is_of("beef") && loaded.gain() < -0.3);
        assert_eq!(RerankRecord::load(dir.path(), "beef").unwrap(), None);
        assert_eq!(
            (
                loaded.weight_of(FusionMethod::LogOdds),
                loaded.weight_of(FusionMethod::MinMax)
            ),
            (Some(0.4), None)
        );
        // Of an earlier release: the order of its scores alone, whatever was fused.
        let earlier = serde_json::to_string(&record)
            .unwrap()
            .replace("\"fusion\":\"log_odds\",\"weight\":0.4,", "");
        assert!(
            !earlier.contains("log_odds") && !earlier.contains("weight"),
            "{earlier}"
        );
        fs_err::write(dir.path().join(RERANK_FILE), earlier).unwrap();
        let earlier = RerankRecord::load(dir.path(), "f00d").unwrap().unwrap();
        assert_eq!((earlier.fusion, earlier.weight_of(FusionMethod::LogOdds)), (None, None));
        assert!((earlier.weight - 1.0).abs() < 1e-12);
        let whole = serde_json::to_string(&record).unwrap();
        for (text, said) in [
            ("{}".to_owned(), "expected the measured gain"),
            (whole.replace("0.25", "1.5"), "from 0 to 1, got 0.6 and 1.5"),
            (whole.replace("0.4", "1.4"), "`weight` from 0 to 1, got 1.4"),
            (
                whole.replace("\"format_version\":1", "\"format_version\":2"),
                "reads up to 1",
            ),
        ] {
            fs_err::write(dir.path().join(RERANK_FILE), text).unwrap();
            let error = RerankRecord::load(dir.path(), "f00d").unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(RERANK_FILE), "{error}");
        }
    }
}
