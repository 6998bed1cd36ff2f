//! From what the parts of a search found to the answer: fuse, and read the stored fields.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::Instant;

use dyad_index::search::Completeness;
use dyad_index::snapshot::{Hit, Snapshot};
use rayon::prelude::*;

use super::answer::{Answer, AnswerHit, Compared, StageTimings};
use super::batch::{Batch, Found, Item, Vector, micros};
use super::reply_memory::Share;
use crate::error::Result;
use crate::fusion::Placement;
use crate::plan::Mode;

impl Batch {
    /// The answers to all questions, in their order. `share` counts the documents of all of them.
    pub(super) fn answers(&self, share: &Share) -> Result<Vec<Answer>> {
        let vectors = self.vectors.get().map_or(&[][..], Vec::as_slice);
        let none = Vector::default();
        let one = |(number, (item, found))| answer(self, item, vectors.get(number).unwrap_or(&none), found, share);
        self.items.par_iter().zip(&self.found).enumerate().map(one).collect()
    }
}

/// One question's answer, as far as time and the reply's memory reach for its documents. Keys are looked up for its hits
/// alone.
fn answer(batch: &Batch, item: &Item, vector: &Vector, found: &Found, share: &Share) -> Result<Answer> {
    let (Batch { snapshot, stop, started, .. }, plan) = (batch, &item.plan);
    let none = Default::default();
    let (dense, text) = (found.dense.get().unwrap_or(&none), found.text.get().unwrap_or(&none));
    let (notes, filter_us) = found.filter.get().cloned().unwrap_or_default();

    let fusing = Instant::now();
    let ranking = Ranking { snapshot, dense: places(&dense.0.hits), text: places(&text.0.hits), keyless: Cell::new(0) };
    let single = |hits: &[Hit]| ranking.hits(hits.iter().take(plan.k));
    let fused = || ranking.hits(&plan.fusion.fuse(&dense.0.hits, &text.0.hits, plan.k, |hit| ranking.key(hit)));
    let (mut hits, mut compared) = (Vec::new(), None);
    match plan.mode {
        Mode::Dense => hits = single(&dense.0.hits),
        Mode::Bm25 => hits = single(&text.0.hits),
        Mode::Hybrid => hits = fused(),
        Mode::Compare => {
            let (dense, bm25) = (single(&dense.0.hits), single(&text.0.hits));
            compared = Some(Compared { dense, bm25, hybrid: fused() });
        }
    }
    let fuse_us = micros(fusing);

    let fetching = Instant::now();
    if plan.documents {
        let lists = compared.as_mut().map(|all| [&mut all.dense, &mut all.bm25, &mut all.hybrid]);
        for hit in hits.iter_mut().chain(lists.into_iter().flatten().flatten()) {
            stop.check()?;
            let document = snapshot.document(hit.shard, hit.node)?;
            share.take(&document)?;
            hit.document = Some(document);
        }
    }
    let fetch_us = micros(fetching);

    let complete = dense.0.completeness.max(text.0.completeness) < Completeness::Damaged && ranking.keyless.get() == 0;
    let damage = if complete { None } else { snapshot.damage() };
    let manifest = snapshot.manifest();
    Ok(Answer {
        mode: plan.mode,
        fusion: matches!(plan.mode, Mode::Hybrid | Mode::Compare).then_some(plan.fusion),
        hits,
        compared,
        k: plan.k,
        degraded: degraded(vector, damage),
        generation: manifest.generation,
        fingerprint: manifest.model.fingerprint.clone(),
        ef: if vector.values.is_some() { plan.ef() } else { 0 },
        recall_note: plan.recall_note.clone().filter(|_| vector.values.is_some()),
        distance_computations: dense.0.cost.total(),
        notes,
        timings: StageTimings {
            total_us: micros(*started),
            dense_us: dense.1,
            bm25_us: text.1,
            filter_us,
            fuse_us,
            fetch_us,
            ..vector.timings
        },
    })
}

/// What is missing and why.
fn degraded(vector: &Vector, damage: Option<dyad_index::Error>) -> Option<String> {
    let damage = damage.map(|error| format!("hits may be missing: {error}"));
    let reasons: Vec<String> = vector.degraded.clone().into_iter().chain(damage).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Every document's place in a ranking.
fn places(hits: &[Hit]) -> HashMap<(usize, u32), Placement> {
    let place = |(rank, hit): (u32, &Hit)| ((hit.shard, hit.node), Placement { rank, score: hit.score });
    (1u32..).zip(hits).map(place).collect()
}

/// The places of documents in the rankings that ran, and their keys.
struct Ranking<'a> {
    snapshot: &'a Snapshot,
    dense: HashMap<(usize, u32), Placement>,
    text: HashMap<(usize, u32), Placement>,
    /// Hits that were left out because a damaged shard does not say which documents they are.
    keyless: Cell<u32>,
}

impl<'a> Ranking<'a> {
    fn key(&self, hit: &Hit) -> &'a str {
        self.snapshot.key(hit.shard, hit.node).unwrap_or_default()
    }

    fn hits<'h>(&self, hits: impl IntoIterator<Item = &'h Hit>) -> Vec<AnswerHit> {
        let with_places = |hit: &Hit| {
            let &Hit { score, shard, node } = hit;
            let (dense, bm25) = (self.dense.get(&(shard, node)).copied(), self.text.get(&(shard, node)).copied());
            let Some(key) = self.snapshot.key(shard, node).map(str::to_owned) else {
                self.keyless.update(|keyless| keyless + 1);
                return None;
            };
            Some(AnswerHit { key, score, dense, bm25, shard, node, document: None })
        };
        hits.into_iter().filter_map(with_places).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_once_and_with_all_its_reasons() {
        let without = Vector { degraded: Some("no question vector".into()), ..Vector::default() };
        let damage = || Some(dyad_index::Error::NoIndex { path: "/there".into() });
        let said = format!("hits may be missing: {}", damage().unwrap());
        assert_eq!(degraded(&Vector::default(), None), None);
        assert_eq!(degraded(&without, None).as_deref(), Some("no question vector"));
        assert_eq!(degraded(&Vector::default(), damage()), Some(said.clone()));
        assert_eq!(degraded(&without, damage()).unwrap(), format!("no question vector; {said}"));
    }
}
