//! Gradient cache (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"): the
//! gradients of a whole batch in the memory of a part of it.
//!
//! All texts are embedded part by part without a tape; the loss of the vectors gives a gradient at each of them; then
//! every part is embedded once more, with a tape, and its vectors' gradients are sent back. As there is no dropout,
//! both passes give the same vectors, and the sum over the parts is the gradient of the batch.

use tch::{TchError, Tensor};

use super::objective::{EmbeddedBatch, Objective, ObjectiveLoss};
use super::vectors::{BatchAnswers, StepTowers, concat_rows};
use crate::data::TrainBatch;
use crate::error::{Error, torch};
use crate::loss::Temperature;
use crate::optim::Gradients;
use crate::tokenize::Tokens;

/// Texts of a batch that are embedded together.
#[derive(Debug)]
enum BatchPart {
    /// Questions with their answers.
    Pairs(Vec<usize>),
    /// Hard negatives, by their place among the answers.
    Negatives(Vec<usize>),
}

impl BatchPart {
    fn places(&self) -> &[usize] {
        let (Self::Pairs(places) | Self::Negatives(places)) = self;
        places
    }
}

/// Vectors of a part, or gradients at them: questions, answers, and both of the cross-encoder branch.
type PartRows = [Option<Tensor>; 4];

/// Gradients of `tensors` for a batch, with `chunk` pairs or negatives in memory at a time, and the batch's loss.
pub(super) fn gradients(
    towers: StepTowers<'_>,
    objective: &Objective,
    tensors: &[Tensor],
    batch: &TrainBatch,
    epoch: f64,
    chunk: usize,
) -> Result<(Gradients, ObjectiveLoss), Error> {
    let parts = parts(batch, chunk);
    let embedded: Vec<PartRows> = tch::no_grad(|| {
        parts
            .iter()
            .map(|part| embed(towers, batch, part))
            .collect::<Result<_, _>>()
    })?;
    let failed = "caching gradients";
    let vectors = join_parts(&parts, embedded).map_err(torch(failed))?;
    let loss = objective.loss(&vectors, batch, epoch)?;
    let temperature = match objective.temperature() {
        Temperature::Learned { log } => Some(log),
        Temperature::Fixed(_) => None,
    };
    let mut at = at_vectors(&loss.whole, &vectors, temperature).map_err(torch(failed))?;
    let mut sum: Option<Gradients> = None;
    for part in &parts {
        let rows = embed(towers, batch, part)?;
        let mut sent = sent_back(part, &rows, &at.rows).map_err(torch(failed))?;
        // What the loss itself gives the temperature goes with the first part.
        if let Some((log, gradient)) = temperature.zip(at.temperature.take()) {
            sent = sent
                .f_add(&log.f_mul(&gradient).map_err(torch(failed))?)
                .map_err(torch(failed))?;
        }
        let gradients = Gradients::backward(&sent, tensors).map_err(torch(failed))?;
        match &mut sum {
            None => sum = Some(gradients),
            Some(sum) => sum.add(gradients).map_err(torch(failed))?,
        }
    }
    let nothing = || Error::Torch {
        action: failed,
        source: TchError::Shape("a batch without a text".into()),
    };
    Ok((sum.ok_or_else(nothing)?, loss))
}

/// Like lengths together, so that runs of one length are long.
fn parts(batch: &TrainBatch, chunk: usize) -> Vec<BatchPart> {
    let pairs = batch.questions.len();
    let length = |place: &usize| batch.answers.get(*place).map_or(0, |tokens| tokens.ids.len());
    let cut = |mut places: Vec<usize>| -> Vec<Vec<usize>> {
        places.sort_by_key(|place| (std::cmp::Reverse(length(place)), *place));
        places.chunks(chunk.max(1)).map(<[usize]>::to_vec).collect()
    };
    let of_pairs = cut((0..pairs).collect()).into_iter().map(BatchPart::Pairs);
    of_pairs
        .chain(
            cut((pairs..batch.answers.len()).collect())
                .into_iter()
                .map(BatchPart::Negatives),
        )
        .collect()
}

fn embed(towers: StepTowers<'_>, batch: &TrainBatch, part: &BatchPart) -> Result<PartRows, Error> {
    let places = part.places().iter().copied();
    let answers = BatchAnswers::select(batch, places.clone());
    match part {
        BatchPart::Negatives(_) => Ok([None, Some(towers.embed_answers(&answers)?), None, None]),
        BatchPart::Pairs(_) => {
            let questions: Vec<&Tokens> = places.filter_map(|place| batch.questions.get(place)).collect();
            let vectors = towers.embed_pairs(&questions, &answers)?;
            let [cross_questions, cross_answers] = vectors.cross.map_or([None, None], |cross| cross.map(Some));
            Ok([
                Some(vectors.questions),
                Some(vectors.answers),
                cross_questions,
                cross_answers,
            ])
        }
    }
}

/// All vectors in the order of the batch, as leaves that take gradients.
fn join_parts(parts: &[BatchPart], embedded: Vec<PartRows>) -> Result<EmbeddedBatch, TchError> {
    let mut columns: [(Vec<i64>, Vec<Tensor>); 4] = Default::default();
    for (part, rows) in parts.iter().zip(embedded) {
        for ((places, tensors), rows) in columns.iter_mut().zip(rows) {
            if let Some(rows) = rows {
                places.extend(part.places().iter().map(|&place| place as i64));
                tensors.push(rows);
            }
        }
    }
    let [questions, answers, cross_questions, cross_answers] =
        columns.map(|(places, tensors)| sorted_leaf(&places, &tensors));
    let lacking = || TchError::Shape("a batch without questions".into());
    let cross = cross_questions?
        .zip(cross_answers?)
        .map(|(questions, answers)| [questions, answers]);
    Ok(EmbeddedBatch {
        questions: questions?.ok_or_else(lacking)?,
        answers: answers?.ok_or_else(lacking)?,
        cross,
    })
}

/// Rows sorted by their places, as a leaf that takes gradients; nothing where there are none.
fn sorted_leaf(places: &[i64], tensors: &[Tensor]) -> Result<Option<Tensor>, TchError> {
    let Some(first) = tensors.first() else { return Ok(None) };
    let places = Tensor::f_from_slice(places)?
        .f_argsort(0, false)?
        .f_to_device(first.device())?;
    let rows = tch::no_grad(|| concat_rows(tensors)?.f_index_select(0, &places))?;
    rows.f_detach()?.f_set_requires_grad(true).map(Some)
}

struct AtVectors {
    rows: PartRows,
    temperature: Option<Tensor>,
}

/// The loss's gradients at the vectors and at the temperature.
fn at_vectors(loss: &Tensor, vectors: &EmbeddedBatch, temperature: Option<&Tensor>) -> Result<AtVectors, TchError> {
    let cross = vectors.cross.iter().flatten();
    let leaves: Vec<&Tensor> = [&vectors.questions, &vectors.answers]
        .into_iter()
        .chain(cross)
        .collect();
    let crossed = leaves.len() > 2;
    let inputs: Vec<Tensor> = leaves
        .into_iter()
        .chain(temperature)
        .map(Tensor::shallow_clone)
        .collect();
    let gradients = Tensor::f_run_backward(&[loss], &inputs, true, false)?;
    let mut gradients = gradients
        .into_iter()
        .map(|gradient| gradient.defined().then_some(gradient));
    let mut next = || gradients.next().flatten();
    let rows = if crossed {
        [next(), next(), next(), next()]
    } else {
        [next(), next(), None, None]
    };
    Ok(AtVectors {
        rows,
        temperature: if temperature.is_some() { next() } else { None },
    })
}

/// A number whose gradient at the vectors of a part is the loss's.
fn sent_back(part: &BatchPart, rows: &PartRows, at: &PartRows) -> Result<Tensor, TchError> {
    let places: Vec<i64> = part.places().iter().map(|&place| place as i64).collect();
    let mut terms = Vec::new();
    for (rows, at) in rows.iter().zip(at) {
        if let (Some(rows), Some(at)) = (rows, at) {
            let places = Tensor::f_from_slice(&places)?.f_to_device(at.device())?;
            terms.push(rows.f_mul(&at.f_index_select(0, &places)?)?.f_sum(None::<tch::Kind>)?);
        }
    }
    Tensor::f_stack(&terms, 0)?.f_sum(None::<tch::Kind>)
}
