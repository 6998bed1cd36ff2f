//! `dyad.json`: what our models know beyond the layout of sentence-transformers: ties, and golden vectors.
//!
//! ```json
//! {
//!   "format": 1,
//!   "sharing": {"token": "shared", "transformer": "separate", "projection": "separate"},
//!   "shared_tensors": [{"tensor": "shared.weight", "modules": ["query_0_Transformer", "document_0_Transformer"]}],
//!   "sharing_sha256": "of both, as JSON with sorted keys",
//!   "dim": 768,
//!   "fingerprint": "sha-256 in hexadecimal",
//!   "golden": [{"tower": "question", "text": "who won", "vector": [0.1, ...]}]
//! }
//! ```
//!
//! Modules of both routes of a `Router` are shared by being named twice; only tensors *inside* two modules need
//! `shared_tensors`. sentence-transformers reads both copies; we read both, refuse them where they differ, and keep
//! one.
//!
//! The fingerprint names a model by its vectors, and ties are none of their business: so what the file says of them has
//! a digest of its own, and a table that was edited by hand is refused. A file of before there was one is believed, and
//! said to be.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::config::{Sharing, Tower, sha256, sorted};
use crate::error::Error;

/// Name of the file.
pub(crate) const MANIFEST: &str = "dyad.json";
/// The form that this release writes and reads.
const FORMAT: u32 = 1;

/// The file's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointManifest {
    format: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sharing: Option<Sharing>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shared_tensors: Vec<SharedTensorRecord>,
    /// See [`CheckpointManifest::sharing_digest`]; noted when the file is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sharing_sha256: Option<String>,
    pub(crate) dim: usize,
    pub(crate) fingerprint: String,
    pub(crate) golden: Vec<Golden>,
}

/// A tensor that several modules hold, by its name in the architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SharedTensorRecord {
    pub(crate) tensor: String,
    pub(crate) modules: Vec<String>,
}

/// In the place of a tower: a question and a text with a tab between them, whose logit is the only value.
pub(crate) const PAIR: &str = "pair";

/// A text and the vector that it must get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Golden {
    /// `question` or `answer`, or [`PAIR`] of a cross encoder.
    pub(crate) tower: String,
    pub(crate) text: String,
    pub(crate) vector: Vec<f32>,
}

impl CheckpointManifest {
    pub(crate) fn new(sharing: Option<Sharing>, shared_tensors: Vec<SharedTensorRecord>) -> Self {
        Self {
            format: FORMAT,
            sharing,
            shared_tensors,
            sharing_sha256: None,
            dim: 0,
            fingerprint: String::new(),
            golden: Vec::new(),
        }
    }

    /// Over what no vector depends on and training does.
    fn sharing_digest(&self) -> String {
        let facts = json!({ "sharing": self.sharing, "shared_tensors": self.shared_tensors });
        sha256(sorted(&facts).to_string().as_bytes())
    }

    /// Reads the file of a model directory; nothing where there is none.
    pub(crate) fn read(root: &Path) -> Result<Option<Self>, Error> {
        let path = root.join(MANIFEST);
        if !path.is_file() {
            return Ok(None);
        }
        let manifest: Self = serde_json::from_slice(&fs_err::read(&path)?).map_err(|source| Error::Json {
            path: path.clone(),
            source,
        })?;
        if manifest.format != FORMAT {
            return Err(Error::Field {
                path,
                field: "format",
                expected: format!("{FORMAT}; a later one needs a later release"),
                got: manifest.format.to_string(),
            });
        }
        let expected = manifest.sharing_digest();
        match &manifest.sharing_sha256 {
            Some(got) if *got != expected => {
                return Err(Error::Sharing {
                    path,
                    expected,
                    got: got.clone(),
                });
            }
            None if manifest.sharing.is_some() || !manifest.shared_tensors.is_empty() => {
                tracing::warn!(
                    path = %path.display(),
                    "no `sharing_sha256`: whether `sharing` and `shared_tensors` are as they were written is not known"
                );
            }
            _ => {}
        }
        Ok(Some(manifest))
    }

    /// Refuses a model of another fingerprint, and a model that says nothing of one of its towers.
    pub(crate) fn check_fingerprint(&self, root: &Path, fingerprint: &str) -> Result<(), Error> {
        let path = root.join(MANIFEST);
        if self.fingerprint != fingerprint {
            let (expected, got) = (self.fingerprint.clone(), fingerprint.to_owned());
            return Err(Error::Fingerprint { path, expected, got });
        }
        let scores = self.golden.iter().any(|golden| golden.tower == PAIR);
        for tower in Tower::BOTH.into_iter().filter(|_| !scores) {
            if self.golden.iter().all(|golden| golden.tower != tower.name()) {
                let expected = format!("a golden vector of the {tower} tower");
                return Err(Error::Field {
                    path,
                    field: "golden",
                    expected,
                    got: "none".into(),
                });
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, root: &Path) -> Result<(), Error> {
        let path = root.join(MANIFEST);
        let sealed = Self {
            sharing_sha256: Some(self.sharing_digest()),
            ..self.clone()
        };
        let text = serde_json::to_string_pretty(&sealed).map_err(|source| Error::Json {
            path: path.clone(),
            source,
        })?;
        Ok(fs_err::write(path, text + "\n")?)
    }
}

impl Golden {
    /// Between this vector and another; NaN where the lengths differ.
    pub(crate) fn cosine(&self, vector: &[f32]) -> f64 {
        if self.vector.len() != vector.len() {
            return f64::NAN;
        }
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
        let lengths = dot(&self.vector, &self.vector) * dot(vector, vector);
        // A static model makes zeros of a text that it has no token for.
        if self.vector == vector {
            return 1.0;
        }
        dot(&self.vector, vector) / lengths.sqrt()
    }
}
