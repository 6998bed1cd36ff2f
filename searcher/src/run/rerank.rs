//! The best hits of a ranking, in an order that a cross encoder's scores have a part in. Where it is late or fails, the
//! order stays, and the answer says so.

use std::sync::Arc;
use std::time::Instant;

use dyad_corpus::Document;
use dyad_index::lexical::StoredDocument;
use dyad_index::{RerankMeasured, RerankRecord, Snapshot};
use dyad_proto::v1;
use futures_util::{StreamExt as _, stream};

use super::engine::Engine;
use super::on_leaves::WantedOfDocuments;
use super::parts::Jobs;
use super::resources::reply_memory::ReplyBudget;
use super::stages::answer::{AnswerHit, Answers};
use super::stages::batch::{QuestionBatch, micros};
use crate::error::{Error, Result};
use crate::fusion::Fusion;
use crate::fusion::reranked::{self, DEFAULT_RERANK_WEIGHT, LOGITS_ALONE, adds_logits};
use crate::plan::SearchPlan;
use crate::reranker::Reranker;

/// Bytes of a document that the cross encoder is given at most. It reads some hundred tokens.
const MAX_TEXT_BYTES: usize = 32 << 10;
/// Its share of the time that is left: an answer without it has to be in time too.
const TIME_SHARE: f64 = 0.8;
/// Questions of a batch that are scored at once.
const AT_ONCE: usize = 4;

/// A question whose best hits are scored again.
struct RerankedQuestion<'a> {
    query: &'a str,
    /// The shards and nodes of the best hits, best first.
    best: Vec<(usize, u32)>,
    /// The scores are of use until this time.
    until: Instant,
}

impl Engine {
    /// With a cross encoder, for requests that ask for it.
    #[must_use]
    pub fn with_reranker(mut self, reranker: Option<Reranker>) -> Self {
        self.reranker = reranker;
        self
    }

    /// The cross encoder.
    pub fn reranker(&self) -> Option<&Reranker> {
        self.reranker.as_ref()
    }

    /// What the cross encoder has brought an index, where that was measured.
    pub fn reranking(&self, snapshot: &Snapshot) -> Option<RerankRecord> {
        snapshot.reranking(self.reranker.as_ref()?.fingerprint()).cloned()
    }

    /// Scores the best hits of the questions that ask for it, and orders them by these scores and their own; then every
    /// answer has its page of hits.
    pub(super) async fn rerank(
        &self,
        batch: &Arc<QuestionBatch>,
        (mut answers, budget): Answers,
        jobs: &Jobs<'_>,
    ) -> Result<Answers> {
        let reranker = self.reranker.as_ref().ok_or(Error::NoReranker)?;
        let wanted = batch
            .items
            .iter()
            .zip(&answers)
            .enumerate()
            .filter(|(_, (item, _))| item.plan.rerank_depth > 0);
        // Of all questions together, so that the answers of a batch are in time too.
        let until = Instant::now() + batch.cancel.remaining().mul_f64(TIME_SHARE);
        let scored = wanted.map(|(number, (item, answer))| {
            let best: Vec<(usize, u32)> = answer
                .hits
                .iter()
                .take(item.plan.rerank_depth)
                .map(|hit| (hit.shard, hit.node))
                .collect();
            let question = RerankedQuestion {
                query: &item.query,
                best,
                until,
            };
            async move {
                let started = Instant::now();
                let scores = self.scores(reranker, batch, question, jobs).await;
                (number, scores, micros(started))
            }
        });
        let measured = self.reranking(&batch.snapshot);
        let scored: Vec<_> = stream::iter(scored.collect::<Vec<_>>())
            .buffered(AT_ONCE)
            .collect()
            .await;
        for (number, scores, took) in scored {
            let (Some(item), Some(answer)) = (batch.items.get(number), answers.get_mut(number)) else {
                continue;
            };
            match scores {
                Ok(scores) => {
                    let of_index = || index_weight(answer.fusion.as_ref(), measured.as_ref());
                    let weight = item.plan.rerank_weight.unwrap_or_else(of_index);
                    answer.response.reranked = scores.len() as u32;
                    answer.response.rerank_weight = weight;
                    answer.response.reranker_fingerprint = reranker.fingerprint().to_string();
                    let is_measured = |measured: &&RerankRecord| (measured.weight - weight).abs() < f64::EPSILON;
                    let loss = measured
                        .as_ref()
                        .filter(is_measured)
                        .filter(|measured| measured.gain() < 0.0);
                    answer.response.notes.extend(loss.map(no_gain_note));
                    reorder(&mut answer.hits, &scores, weight);
                }
                Err(error) if leaves_order(&error) => {
                    // The error may name machines; it is in the log.
                    let reason = if batch.scope.is_some() {
                        String::new()
                    } else {
                        format!(": {error}")
                    };
                    answer.degrade(&format!("not reranked{reason}"));
                }
                Err(error) => return Err(error),
            }
            page(&mut answer.hits, &item.plan);
            let timings = answer.timings();
            (timings.rerank_us, timings.total_us) = (took, micros(batch.started));
        }
        Ok((answers, budget))
    }

    /// The scores of the documents that are reranked for a question.
    async fn scores(
        &self,
        reranker: &Reranker,
        batch: &Arc<QuestionBatch>,
        question: RerankedQuestion<'_>,
        jobs: &Jobs<'_>,
    ) -> Result<Vec<f32>> {
        let RerankedQuestion { query, best, until } = question;
        if best.is_empty() {
            return Ok(Vec::new());
        }
        let left = || until.saturating_duration_since(Instant::now());
        let late = || Error::Reranker {
            reason: "its time is over".to_owned(),
            transient: true,
        };
        if left().is_zero() {
            return Err(late());
        }
        if batch.generation.on_leaves().is_some() {
            let read = Box::pin(self.passages_on_leaves(batch, best));
            let read = tokio::time::timeout_at(until.into(), read).await.map_err(|_| late())?;
            let (texts, _budget) = read?;
            return reranker.score(query.to_owned(), texts, left()).await;
        }
        // The texts take of the memory of replies until they are scored.
        let (of, budget) = (Arc::clone(batch), self.memory.budget());
        let read = jobs.start(move || {
            let texts = best.into_iter().map(|(shard, node)| {
                of.cancel.check()?;
                let text = of.passage(shard, node)?;
                budget.take_bytes(text.len())?;
                Ok(text)
            });
            Ok((texts.collect::<Result<Vec<String>>>()?, budget))
        });
        let read = tokio::time::timeout_at(until.into(), read).await.map_err(|_| late())?;
        let (texts, _budget) = read?;
        reranker.score(query.to_owned(), texts, left()).await
    }
}

/// How much the cross encoder's scores count in the order of hits that were fused so, where a request does not say.
fn index_weight(fusion: Option<&Fusion>, measured: Option<&RerankRecord>) -> f64 {
    if !adds_logits(fusion) {
        return LOGITS_ALONE;
    }
    let learned = fusion
        .zip(measured)
        .and_then(|(fusion, measured)| measured.weight_of(fusion.method));
    learned.unwrap_or(DEFAULT_RERANK_WEIGHT)
}

/// What an operator should know of a cross encoder that brings nothing.
pub fn no_gain(measured: &RerankRecord) -> String {
    let RerankRecord {
        reranker,
        depth,
        weight,
        measured_on,
        ..
    } = measured;
    let RerankMeasured {
        data,
        split,
        questions,
        before,
        after,
        p,
    } = measured_on;
    format!(
        "the cross encoder `{reranker}` does not help: nDCG@10 {after:.4} with {depth} hits scored by it (weight {weight}), {before:.4} without (p = {p:.3}), on \
         {questions} questions of {data} ({split})"
    )
}

/// The same for whoever asks, who need not know where questions came from.
fn no_gain_note(measured: &RerankRecord) -> String {
    let RerankMeasured {
        questions,
        before,
        after,
        ..
    } = &measured.measured_on;
    format!(
        "reranking has lowered nDCG@10 from {before:.3} to {after:.3} on {questions} judged questions of this index"
    )
}

impl QuestionBatch {
    /// Whether a question asks for its best hits to be scored again.
    pub(super) fn reranks(&self) -> bool {
        self.items.iter().any(|item| item.plan.rerank_depth > 0)
    }

    /// What the answer tower has read of a document, of a long one the beginning.
    fn passage(&self, shard: usize, node: u32) -> Result<String> {
        let StoredDocument { key, title, text, .. } = self.snapshot.document(shard, node)?;
        Ok(passage(key, title, text))
    }
}

/// Whether hits keep their order where this has happened, which the answer says.
fn leaves_order(error: &Error) -> bool {
    matches!(
        error,
        Error::Reranker { .. }
            | Error::FullReplies { .. }
            | Error::LargeReply { .. }
            | Error::NoLeaves { .. }
            | Error::Leaf { .. }
            | Error::LeafBusy { .. }
    )
}

/// What the answer tower reads of a document of this title and text.
fn passage(key: String, title: String, text: String) -> String {
    let document = Document {
        key,
        title,
        text,
        ..Document::default()
    };
    let mut passage = document.passage().into_owned();
    passage.truncate(passage.floor_char_boundary(MAX_TEXT_BYTES));
    // A cross encoder takes no empty text; such a document is as good as one of a word that says nothing.
    if passage.is_empty() { "-".to_owned() } else { passage }
}

impl Engine {
    /// What the answer tower has read of documents that leaves hold; it takes of the memory of replies.
    async fn passages_on_leaves(
        &self,
        batch: &QuestionBatch,
        best: Vec<(usize, u32)>,
    ) -> Result<(Vec<String>, ReplyBudget)> {
        let wanted = WantedOfDocuments {
            places: best.clone(),
            shown: v1::LeafShown {
                fields: ["title", "text"].map(str::to_owned).to_vec(),
                max_text_bytes: MAX_TEXT_BYTES as u32,
                ..v1::LeafShown::default()
            },
        };
        let budget = self.memory.budget();
        let mut shown = self.read_on_leaves(batch, wanted, &budget).await?;
        let texts = best.iter().map(|place| {
            let document = shown
                .remove(place)
                .and_then(|hit| hit.document)
                .ok_or(Error::Internal)?;
            let v1::Document { key, title, text, .. } = document;
            let text = passage(key, title, text);
            budget.take_bytes(text.len())?;
            Ok(text)
        });
        let texts = texts.collect::<Result<Vec<String>>>()?;
        Ok((texts, budget))
    }
}

/// Puts as many hits as there are logits into the order of [`reranked::order`]; each gets its place there, and its
/// logit.
fn reorder(hits: &mut Vec<AnswerHit>, logits: &[f32], weight: f64) {
    let after = hits.split_off(logits.len().min(hits.len()));
    let scores: Vec<f32> = hits.iter().map(|answer| answer.hit.score).collect();
    let mut scored: Vec<Option<AnswerHit>> = std::mem::take(hits).into_iter().map(Some).collect();
    for position in reranked::order(&scores, logits, weight) {
        let (hit, logit) = (scored.get_mut(position).and_then(Option::take), logits.get(position));
        if let (Some(mut answer), Some(logit)) = (hit, logit) {
            answer.hit.rerank = Some(v1::Placement {
                rank: hits.len() as u32 + 1,
                score: *logit,
            });
            hits.push(answer);
        }
    }
    hits.extend(after);
}

/// Keeps the hits of the reply.
fn page(hits: &mut Vec<AnswerHit>, plan: &SearchPlan) {
    hits.drain(..plan.offset.min(hits.len()));
    hits.truncate(plan.k);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::stages::answer::tests::hits;
    use super::*;

    fn keys(hits: &[AnswerHit]) -> String {
        hits.iter().map(|answer| answer.hit.key.as_str()).collect()
    }

    #[test]
    fn the_scored_come_first_in_their_order_and_the_others_keep_theirs() {
        let mut all = hits("abcdef");
        reorder(&mut all, &[0.1, 0.9, 0.1, 0.5], LOGITS_ALONE);
        assert_eq!(keys(&all), "bdacef");
        let placed = |answer: &AnswerHit| answer.hit.rerank.map(|place| (place.rank, place.score));
        assert_eq!(
            (placed(&all[0]), placed(&all[3]), placed(&all[4])),
            (Some((1, 0.9)), Some((4, 0.1)), None)
        );
        assert!(
            all.iter().all(|answer| answer.hit.score.to_bits() == 0.5_f32.to_bits()),
            "the ranking's score stays"
        );
        reorder(&mut all, &[], LOGITS_ALONE);
        assert_eq!(keys(&all), "bdacef");
        // Next to their own scores.
        let mut all = hits("abcd");
        for (answer, score) in all.iter_mut().zip([4.0, 2.0, 1.0, 9.0]) {
            answer.hit.score = score;
        }
        reorder(&mut all, &[0.1, 0.9, 4.0], 0.5);
        assert_eq!(keys(&all), "cabd");
        assert_eq!(placed(&all[1]), Some((2, 0.1)));
    }

    #[test]
    fn a_page_is_cut_from_what_was_ranked_again() {
        let plan = |k, offset| {
            let request = v1::SearchRequest {
                k,
                offset,
                rerank_depth: 6,
                ..Default::default()
            };
            SearchPlan::new(&request, Duration::from_secs(1), &[], Fusion::default())
        };
        let cut = |k, offset| {
            let mut all = hits("abcdef");
            page(&mut all, &plan(k, offset));
            keys(&all)
        };
        assert_eq!(
            (cut(2, 0), cut(2, 3), cut(10, 5), cut(3, 9)),
            ("ab".into(), "de".into(), "f".into(), String::new())
        );
    }
}
