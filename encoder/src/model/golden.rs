//! Golden vectors: texts whose vectors a model brings along. A model that does not reproduce them is not that model, or
//! does not run as it should, and is not served.

use super::load::OpenMode;
use super::open::{Model, ModelKind};
use crate::checkpoint::{Checkpoint, Golden, PAIR};
use crate::config::Tower;
use crate::device::{Compute, Dtype, OperatorThreads};
use crate::error::Error;
use crate::nn::VectorLength;
use crate::tokenize::TokenBatch;

/// Texts whose vectors verify a new model: short and long, another script, digits, and a text of one letter.
const TEXTS: [&str; 6] = [
    "who won super bowl 50",
    "What is the difference between a siamese and an asymmetric dual encoder?",
    "a",
    "Temüjin united the tribes of the Mongolian steppe; in 1206 he took the name Genghis Khan.",
    "東京の人口は何人ですか",
    "The answer tower embeds passages. It reads them once, when an index is built, and their vectors are laid into a graph \
     that the question tower's vectors are searched in; so both have to be of one model, and 1,024 dimensions do not help \
     where the models differ.",
];

/// How near a vector must come: rounding of the computing type, and no more.
pub(crate) fn least_cosine(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => 0.999_99,
        Dtype::F16 => 0.999,
        Dtype::Bf16 => 0.99,
        // all-MiniLM-L6-v2 stays above 0.993, a T5 of random weights above 0.97; of another model nothing comes near.
        Dtype::Int8 => 0.95,
    }
}

/// How far a logit may be off, as a share of one more than its size.
fn greatest_difference(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => 1e-3,
        Dtype::F16 => 1e-2,
        Dtype::Bf16 => 0.1,
        Dtype::Int8 => 0.5,
    }
}

/// What sets vector or logit apart from a golden one; nothing where they are as near as computing in `dtype` lets them
/// be.
pub(super) fn difference(golden: &Golden, found: &[f32], dtype: Dtype) -> Option<String> {
    if golden.tower == PAIR {
        let logit = |values: &[f32]| f64::from(values.first().copied().unwrap_or(f32::NAN));
        let (expected, found) = (logit(&golden.vector), logit(found));
        // Also where it is no number.
        let near = (found - expected).abs() <= greatest_difference(dtype) * (1.0 + expected.abs());
        return (!near).then(|| format!("logit {found:.6}, expected {expected:.6}"));
    }
    let (cosine, least) = (golden.cosine(found), least_cosine(dtype));
    let near = cosine >= least;
    (!near).then(|| format!("cosine {cosine:.6}, expected at least {least}"))
}

impl Model {
    /// What this model makes of the golden texts: vectors, or of a cross encoder logits of pairs.
    pub(super) fn golden_vectors(&self) -> Result<Vec<Golden>, Error> {
        let mut golden = Vec::new();
        if self.info.kind == ModelKind::CrossEncoder {
            for text in TEXTS {
                let (tower, pair) = (PAIR.to_owned(), format!("{}\t{text}", TEXTS[0]));
                golden.push(Golden {
                    tower,
                    vector: vec![self.golden_logit(&pair)?],
                    text: pair,
                });
            }
            return Ok(golden);
        }
        for tower in Tower::BOTH {
            for text in TEXTS {
                let vector = self.embed(tower, &[&self.prompted.tokenizer().encode(tower, text)?])?;
                golden.push(Golden {
                    tower: tower.name().to_owned(),
                    text: text.to_owned(),
                    vector,
                });
            }
        }
        Ok(golden)
    }

    /// Embeds the golden texts of the model and compares; the smallest cosine, or nothing where there are none.
    pub fn reproduce_golden(&self) -> Result<Option<f64>, Error> {
        let mut smallest = None;
        for golden in &self.golden {
            let tower: Tower = golden
                .tower
                .parse()
                .map_err(|reason: String| self.wrong_golden(golden, reason))?;
            let vector = self.embed(tower, &[&self.prompted.tokenizer().encode(tower, &golden.text)?])?;
            if let Some(reason) = difference(golden, &vector, self.info.dtype) {
                return Err(self.wrong_golden(golden, reason));
            }
            let found = golden.cosine(&vector);
            smallest = Some(smallest.map_or(found, |known: f64| known.min(found)));
        }
        Ok(smallest)
    }

    /// The logit of a question and a text with a tab between them.
    fn golden_logit(&self, pair: &str) -> Result<f32, Error> {
        let (question, text) = pair.split_once('\t').unwrap_or((pair, ""));
        let tokens = self.prompted.tokenizer().encode_pair(question, text)?;
        let logits = self
            .network
            .embed(Tower::Answer, &TokenBatch::new(&[&tokens], 0), VectorLength::Raw)?;
        logits.first().copied().ok_or(Error::NotFinite)
    }

    /// Scores the golden pairs of the model and compares; those of a dual encoder are none.
    pub(super) fn reproduce_golden_logits(&self) -> Result<(), Error> {
        for golden in self.golden.iter().filter(|golden| golden.tower == PAIR) {
            if let Some(reason) = difference(golden, &[self.golden_logit(&golden.text)?], self.info.dtype) {
                return Err(self.wrong_golden(golden, reason));
            }
        }
        Ok(())
    }

    fn wrong_golden(&self, golden: &Golden, reason: String) -> Error {
        Error::Golden {
            model: self.info.name.clone(),
            tower: golden.tower.clone(),
            text: golden.text.clone(),
            reason,
        }
    }
}

/// Refuses a checkpoint that is not fit to be the source of another one: it must open (so its fingerprint, ties and
/// golden vectors hold where it has some), no weight of it may be NaN or infinite, and both towers must embed all
/// golden texts. Gives their vectors.
pub(super) fn validate(checkpoint: &Checkpoint) -> Result<Vec<Golden>, Error> {
    let _kept = OperatorThreads::kept();
    checkpoint.check_finite()?;
    let model = Model::open_checked(checkpoint, &one_thread(), OpenMode::Inference)?;
    model.reproduce_golden()?;
    model.golden_vectors()
}

/// By one thread: the same numbers on every machine.
pub(super) fn one_thread() -> Compute {
    Compute {
        threads: Some(1),
        ..Compute::default()
    }
}
