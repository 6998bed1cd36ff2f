//! All of a probe for one model.

use std::path::PathBuf;

use dyad_corpus::examples::{ExampleOptions, ExampleReader};
use rayon::prelude::*;
use serde::Serialize;

use super::choose::choose;
use super::error::ProbeError;
use super::geometry::{GeometryReport, geometry};
use super::separation::{Separation, separation};
use super::tsne::tsne;
use crate::config::Tower;
use crate::error::Error;
use crate::model::Model;
use crate::tokenize::{Budget, Tokens};

/// Fewest pairs that say anything.
const LEAST: usize = 10;

/// Options of a probe.
#[derive(Debug, Clone)]
pub struct ProbeOptions {
    /// Examples: a BEIR folder, or a file of any form that is trained on.
    pub data: PathBuf,
    /// How they are read.
    pub read: ExampleOptions,
    /// Questions, and answers.
    pub pairs: usize,
    /// Seed of the choice, the folds and the picture.
    pub seed: u64,
    /// Size of a batch.
    pub budget: Budget,
}

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Probe {
    /// Name of the model.
    pub model: String,
    /// The fingerprint of the model.
    pub fingerprint: String,
    /// Questions, and answers.
    pub pairs: usize,
    /// Seed of the choice, the folds and the picture.
    pub seed: u64,
    /// Separability of the towers by a linear probe.
    pub separation: Separation,
    /// Alignment, uniformity, centroids.
    pub geometry: GeometryReport,
}

/// Embeds chosen questions and answers; gives the numbers, and the places of the questions and then of the answers in
/// the plane.
pub fn probe(encoder: &Model, options: &ProbeOptions) -> Result<(Probe, Vec<[f32; 2]>), ProbeError> {
    let reader = ExampleReader::open(&options.data, &options.read)?;
    let chosen = choose(reader, options.pairs, options.seed)?;
    if chosen.len() < LEAST {
        return Err(ProbeError::TooFew {
            least: LEAST,
            got: chosen.len(),
        });
    }
    let (questions, answers): (Vec<String>, Vec<String>) = chosen.into_iter().unzip();
    let embed = |tower: Tower, texts: &[String]| -> Result<Vec<f32>, Error> {
        let tokenizer = encoder.tokenizer();
        let tokens: Result<Vec<Tokens>, Error> = texts.par_iter().map(|text| tokenizer.encode(tower, text)).collect();
        encoder.embed_all(tower, &tokens?, options.budget)
    };
    let (dim, info) = (encoder.info().dim, encoder.info());
    let (asked, given) = (embed(Tower::Question, &questions)?, embed(Tower::Answer, &answers)?);
    let found = Probe {
        model: info.name.clone(),
        fingerprint: info.fingerprint.clone(),
        pairs: questions.len(),
        seed: options.seed,
        separation: separation(&asked, &given, dim, options.seed),
        geometry: geometry(&asked, &given, dim),
    };
    let places = tsne(&[asked, given].concat(), dim, options.seed)?;
    Ok((found, places))
}
