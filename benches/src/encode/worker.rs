//! A worker that holds our encoder: the public [`Model`], text in and vectors out, or the public [`CrossEncoder`],
//! pairs in and logits out. All that the harness knows of it is here.

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail};
use dyad_encoder::tokenize::{Budget, Tokens};
use dyad_encoder::{Compute, CrossEncoder, Device, Dtype, Model, Tower};
use dyad_files::Never;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::protocol::{EncodeDetails, EncodeRequest, EncodeShape, EncodedTexts, InputText, PreparedTexts, TunedReply};
use crate::dataset::{Matrix, npy};
use crate::harness::{self, EngineDescription, OpenedReply, TaskShape as _, read_lines};

/// Like peers' `encode_document`.
const TOWER: Tower = Tower::Answer;

/// Serves requests until `quit` or the end of `input`.
pub(crate) fn serve(engine: &str, input: impl BufRead, output: impl Write) -> anyhow::Result<()> {
    let dtype = engine.split_once('-').map_or("f32", |(_, dtype)| dtype);
    let settings = format!("dyad_encoder::Model or CrossEncoder, {dtype}, its own batches");
    let details = EncodeDetails {
        dtype: dtype.to_owned(),
    };
    let described = EngineDescription::of_own(engine, EncodeShape::OWN, settings, details)?;
    let mut worker = EncodeWorker {
        dtype,
        model: None,
        texts: Vec::new(),
    };
    harness::serve(input, output, &described, |request| worker.answer(request))
}

struct EncodeWorker<'a> {
    dtype: &'a str,
    model: Option<(OpenModel, Budget)>,
    texts: Vec<InputText>,
}

/// What a directory holds.
enum OpenModel {
    Encoder(Box<Model>),
    CrossEncoder(Box<CrossEncoder>),
}

impl EncodeWorker<'_> {
    fn answer(&mut self, request: EncodeRequest) -> anyhow::Result<Value> {
        Ok(match request {
            EncodeRequest::Open {
                model, device, threads, ..
            } => {
                let started = Instant::now();
                let device: Device = device.parse().map_err(|refusal: String| anyhow!(refusal))?;
                let dtype: Dtype = self.dtype.parse().map_err(|refusal: String| anyhow!(refusal))?;
                let compute = Compute {
                    device,
                    dtype,
                    threads: Some(threads),
                };
                let opened = if CrossEncoder::is_at(&model)? {
                    OpenModel::CrossEncoder(Box::new(CrossEncoder::open(&model, &compute)?))
                } else {
                    OpenModel::Encoder(Box::new(Model::open(&model, &compute)?))
                };
                self.model = Some((opened, Budget::of(device, dtype)));
                OpenedReply::since(started)
            }
            EncodeRequest::Prepare { texts } => {
                self.texts = read_lines(&texts)?;
                json!(PreparedTexts {
                    texts: self.texts.len()
                })
            }
            // The encoder chooses its batches itself.
            EncodeRequest::Tune => json!(TunedReply {
                settings: String::new()
            }),
            EncodeRequest::Encode { out } => json!(self.encode(out.as_deref())?),
            EncodeRequest::Matmul { .. } => bail!("this engine multiplies no matrices of its own"),
        })
    }

    fn encode(&self, out: Option<&Path>) -> anyhow::Result<EncodedTexts> {
        let (model, budget) = self.model.as_ref().context("`encode` before `open`")?;
        let tokenizer = match model {
            OpenModel::Encoder(model) => model.tokenizer(),
            OpenModel::CrossEncoder(model) => model.tokenizer(),
        };
        let tokenizer = &*tokenizer;
        let started = Instant::now();
        // The tokenizer alone is shared: the encoder belongs to one thread.
        let tokens = self.texts.par_iter().map(|text| match text {
            InputText::One(text) => tokenizer.encode(TOWER, text),
            InputText::Pair(question, text) => tokenizer.encode_pair(question, text),
        });
        let tokens = tokens
            .collect::<Result<Vec<Tokens>, dyad_encoder::Error>>()
            .context("tokenizing")?;
        let (dim, vectors) = match model {
            OpenModel::Encoder(model) => (model.info().dim, model.embed_all(TOWER, &tokens, *budget)?),
            OpenModel::CrossEncoder(model) => (1, model.logits_until(&tokens, *budget, &Never)?.context("stopped")?),
        };
        let seconds = started.elapsed().as_secs_f64();
        // Texts are packed: nothing is padded.
        let count = Some(tokens.iter().map(|text| text.ids.len() as u64).sum());
        if let Some(out) = out {
            npy::write_vectors(out, &Matrix::new(dim, vectors))?;
        }
        Ok(EncodedTexts {
            seconds,
            tokens: count,
            computed_tokens: count,
        })
    }
}
