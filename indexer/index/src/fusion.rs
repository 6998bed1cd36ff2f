//! `fusion.json`: how the dense and the BM25 ranking of an index are fused, as learned from judged questions.
//!
//! The file belongs to the vectors of one model: for an index that holds another model's it counts as absent.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::learned_file::{LearnedFile, damaged};
use crate::storage::WriteLock;

/// Name of the file in the index.
pub const FUSION_FILE: &str = "fusion.json";
const FILE: LearnedFile = LearnedFile {
    name: FUSION_FILE,
    version: 2,
    holds: "a learned fusion",
};
/// Version of files that earlier releases read: those of all methods but [`FusionMethod::LogOdds`].
const EARLIER_VERSION: u32 = 1;

/// Most weight that the BM25 of a document may have in the scores of its passages.
pub const MAX_DOCUMENT_WEIGHT: f64 = 10.0;

/// How the scores of two rankings are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FusionMethod {
    /// Reciprocal ranks (Cormack, Clarke and Büttcher 2009), weighted.
    Rrf,
    /// Scores in units of their standard deviation, weighted: a convex combination (Bruch, Gai and Ingber 2023) of
    /// z-scores (Montague and Aslam 2001).
    WeightedSum,
    /// Scores in their theoretical bounds, weighted: a convex combination whose sums are comparable over questions
    /// (Bruch, Gai and Ingber 2023).
    MinMax,
    /// Both scores in natural units of information: cosines times the model's logit scale, and BM25, which is a sum of
    /// log odds.
    LogOdds,
}

impl FusionMethod {
    /// For people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Rrf => "reciprocal ranks",
            Self::WeightedSum => "weighted sum",
            Self::MinMax => "scores in their bounds",
            Self::LogOdds => "log odds",
        }
    }
}

/// What has been learned for an index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FusionRecord {
    /// 2 of [`FusionMethod::LogOdds`], which earlier releases do not know, else 1.
    pub format_version: u32,
    /// The space of the vectors that were ranked: see [`ModelRecord::space`](crate::ModelRecord::space).
    pub fingerprint: String,
    /// The method that won.
    pub method: FusionMethod,
    /// Weight of the dense ranking, 0 to 1; BM25 has the rest.
    pub dense_weight: f64,
    /// Weight of a document's BM25 in the scores of its passages, 0 to [`MAX_DOCUMENT_WEIGHT`]. None in an index
    /// without documents, and in files of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_weight: Option<f64>,
    /// The judged questions.
    pub learned_from: LearnedFrom,
}

/// On what a fusion was learned, and the mean nDCG@10 there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedFrom {
    /// Folder of the questions.
    pub data: String,
    /// The split of the judgements.
    pub split: String,
    /// The number of judged questions.
    pub questions: usize,
    /// The dense ranking alone.
    pub dense: f64,
    /// BM25 alone.
    pub bm25: f64,
    /// The fusion of an index that has learned nothing.
    pub default: f64,
    /// What was learned, by cross-validation: every question is judged with a weight that was learned without it.
    pub learned: f64,
}

impl FusionRecord {
    /// A record of this build's version.
    pub fn new(fingerprint: String, method: FusionMethod, dense_weight: f64, learned_from: LearnedFrom) -> Self {
        let format_version = if method == FusionMethod::LogOdds {
            FILE.version
        } else {
            EARLIER_VERSION
        };
        Self {
            format_version,
            fingerprint,
            method,
            dense_weight,
            document_weight: None,
            learned_from,
        }
    }

    /// What was learned for vectors of the space with this name; none without the file.
    pub fn load(index: &Path, fingerprint: &str) -> Result<Option<Self>> {
        let record = FILE.read(index, Self::parse)?;
        Ok(record.filter(|record| record.fingerprint == fingerprint))
    }

    /// What such a file holds; `path` names it in errors.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Self> {
        let record: Self = FILE.parse(path, bytes)?;
        if !(0.0..=1.0).contains(&record.dense_weight) {
            return Err(damaged(
                path,
                "`dense_weight` from 0 to 1",
                record.dense_weight.to_string(),
            ));
        }
        if let Some(weight) = record
            .document_weight
            .filter(|weight| !(0.0..=MAX_DOCUMENT_WEIGHT).contains(weight))
        {
            return Err(damaged(path, "`document_weight` from 0 to 10", weight.to_string()));
        }
        Ok(record)
    }

    /// Writes the file, in place of an earlier one. The lock proves that nobody else does.
    pub fn save(&self, index: &Path, lock: &WriteLock) -> Result<()> {
        FILE.write(index, self, lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> FusionRecord {
        let (data, split) = ("nq".to_owned(), "dev".to_owned());
        let learned_from = LearnedFrom {
            data,
            split,
            questions: 885,
            dense: 0.9,
            bm25: 0.77,
            default: 0.91,
            learned: 0.92,
        };
        FusionRecord::new("f00d".to_owned(), FusionMethod::WeightedSum, 0.75, learned_from)
    }

    #[test]
    fn what_was_saved_is_loaded_for_its_model_only() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(FusionRecord::load(dir.path(), "f00d").unwrap(), None);
        record()
            .save(dir.path(), &WriteLock::acquire(dir.path()).unwrap())
            .unwrap();
        assert_eq!(FusionRecord::load(dir.path(), "f00d").unwrap(), Some(record()));
        assert_eq!(FusionRecord::load(dir.path(), "beef").unwrap(), None);
    }

    #[test]
    fn the_weight_of_documents_is_kept_and_absent_in_earlier_files() {
        let dir = tempfile::tempdir().unwrap();
        let lock = WriteLock::acquire(dir.path()).unwrap();
        let with = FusionRecord {
            document_weight: Some(0.5),
            ..record()
        };
        with.save(dir.path(), &lock).unwrap();
        assert_eq!(FusionRecord::load(dir.path(), "f00d").unwrap(), Some(with));
        record().save(dir.path(), &lock).unwrap();
        assert!(
            !fs_err::read_to_string(dir.path().join(FUSION_FILE))
                .unwrap()
                .contains("document_weight")
        );
    }

    #[test]
    fn only_what_earlier_releases_do_not_know_has_another_version() {
        let of = |method| FusionRecord::new("f00d".to_owned(), method, 0.5, record().learned_from).format_version;
        assert_eq!(
            (
                of(FusionMethod::LogOdds),
                of(FusionMethod::MinMax),
                of(FusionMethod::Rrf)
            ),
            (2, 1, 1)
        );
    }

    #[test]
    fn a_file_that_cannot_be_meant_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FUSION_FILE);
        let whole = serde_json::to_string(&record()).unwrap();
        for (text, said) in [
            ("{".to_owned(), "expected JSON"),
            ("{}".to_owned(), "expected a learned fusion"),
            (
                whole.replace("0.75", "1.5"),
                "expected `dense_weight` from 0 to 1, got 1.5",
            ),
            (
                whole.replace("0.75", "0.75,\"document_weight\":-1"),
                "expected `document_weight` from 0 to 10, got -1",
            ),
            (whole.replace("weighted_sum", "sum"), "expected a learned fusion"),
            (
                whole.replace("\"format_version\":1", "\"format_version\":3"),
                "reads up to 2",
            ),
        ] {
            fs_err::write(&path, text).unwrap();
            let error = FusionRecord::load(dir.path(), "f00d").unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("fusion.json"), "{error}");
        }
    }
}
