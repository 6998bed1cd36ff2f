//! Two generations of an index side by side, asked the same questions, each embedded by its own model: how many hits
//! they share, and which finds more of what was judged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dyad_corpus::embeddings::EmbeddingsReader;
use dyad_corpus::metrics::{Average, Incomparable, PairedComparison, RankingMetric, Sampling, compare, evaluate};
use dyad_corpus::qrels::{self, Qrels};
use dyad_corpus::run::TrecRun;
use dyad_index::snapshot::{DenseParams, SearchMode};
use dyad_index::{Snapshot, manifest};

use crate::control::JobControl;
use crate::error::Error;

/// What judged questions are measured by.
pub const METRICS: [RankingMetric; 4] = [
    RankingMetric::ReciprocalRank,
    RankingMetric::Ndcg(10),
    RankingMetric::Recall(10),
    RankingMetric::Recall(100),
];
/// Hits of a question where it is judged, as in the figures that are published for BEIR.
const JUDGED_DEPTH: usize = 100;
/// The fix for questions that do not fit.
const FIX: &str =
    "Embed the same questions for each generation with its own model: `dyad-encoder embed --tower question`";
/// Questions of one search.
const BATCH: usize = 256;

/// A generation, and questions for it.
#[derive(Debug, Clone)]
pub struct GenerationQuestions {
    /// Its number.
    pub generation: u64,
    /// Directory that `dyad-encoder embed --tower question` has made with its model.
    pub questions: PathBuf,
}

/// What sets two generations apart.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationComparison {
    /// Questions that both were asked.
    pub questions: usize,
    /// Hits compared.
    pub k: usize,
    /// Mean share of the first `k` hits of one that are among those of the other.
    pub overlap: f64,
    /// Share of the questions whose first hit is the same.
    pub same_first: f64,
    /// The questions that share the fewest hits, with how many they share: by that, then by key.
    pub furthest: Vec<(String, usize)>,
    /// Of the judged questions, each metric of both; empty without judgements.
    pub metrics: Vec<(RankingMetric, PairedComparison)>,
}

/// Asks both generations all questions by exact search.
pub fn compare_generations(
    index: &Path,
    [before, after]: [&GenerationQuestions; 2],
    k: usize,
    judgements: Option<&Path>,
    control: JobControl<'_>,
) -> Result<GenerationComparison, Error> {
    let judgements = judgements.map(qrels::read).transpose()?;
    let depth = if judgements.is_some() { k.max(JUDGED_DEPTH) } else { k };
    let [first, second] = [ask(index, before, depth, control)?, ask(index, after, depth, control)?];
    if let Some(key) = first
        .keys()
        .find(|key| !second.contains_key(*key))
        .or(second.keys().find(|key| !first.contains_key(*key)))
    {
        let expected = format!("the questions of `{}`", before.questions.display());
        let got = format!("others: `{key}` is in one of them alone");
        return Err(Error::Questions {
            path: after.questions.clone(),
            part: "keys".to_owned(),
            expected,
            got,
            fix: FIX,
        });
    }
    let mut shared: Vec<(String, usize)> = Vec::with_capacity(first.len());
    let mut same_first = 0;
    for (key, hits) in &first {
        let others = second.get(key).map(Vec::as_slice).unwrap_or_default();
        let of = |hits: &'_ [(String, f32)]| hits.iter().take(k).map(|(key, _)| key.clone()).collect::<Vec<String>>();
        let (mine, theirs) = (of(hits), of(others));
        same_first += usize::from(mine.first() == theirs.first());
        shared.push((key.clone(), mine.iter().filter(|key| theirs.contains(key)).count()));
    }
    let questions = shared.len();
    // Where an index has fewer documents, fewer can be shared.
    let most = first.values().map(|hits| hits.len().min(k)).max().unwrap_or(0).max(1);
    let overlap = shared
        .iter()
        .map(|(_, shared)| *shared as f64 / most as f64)
        .sum::<f64>()
        / questions.max(1) as f64;
    let metrics = match &judgements {
        None => Vec::new(),
        Some(judgements) => {
            let is_asked = |(question, _): &(&String, _)| first.contains_key(*question);
            let asked: Qrels = judgements
                .iter()
                .filter(is_asked)
                .map(|(question, judged)| (question.clone(), judged.clone()))
                .collect();
            if !asked.is_empty() {
                check_judged(index, after, &asked, control)?;
            }
            let of = |run: &TrecRun| evaluate(run, judgements, &METRICS, Average::Answered);
            let (first, second) = (of(&first), of(&second));
            let of = |metric| Ok((metric, compare(&first, &second, metric, Sampling::default())?));
            let compared = METRICS.into_iter().map(of).collect::<Result<Vec<_>, Incomparable>>();
            compared.map_err(|error| Error::Questions {
                path: before.questions.clone(),
                part: "judgements".to_owned(),
                expected: "some of these questions".to_owned(),
                got: error.to_string(),
                fix: "Give `--qrels` of the same set",
            })?
        }
    };
    shared.sort_by(|left, right| (left.1, &left.0).cmp(&(right.1, &right.0)));
    shared.truncate(5);
    Ok(GenerationComparison {
        questions,
        k,
        overlap,
        same_first: same_first as f64 / questions.max(1) as f64,
        furthest: shared,
        metrics,
    })
}

/// Refuses judgements of other documents than those of the generation, by which both would have 0.
fn check_judged(
    index: &Path,
    asked: &GenerationQuestions,
    judgements: &Qrels,
    control: JobControl<'_>,
) -> Result<(), Error> {
    let snapshot = Snapshot::open_manifest(index, manifest::load(index, asked.generation)?, None)?;
    let relevant = qrels::relevant(judgements);
    let mut missing = Vec::new();
    for key in &relevant {
        if snapshot.find(key)?.is_none() {
            missing.push(*key);
        }
    }
    match qrels::check_missing(&relevant, &missing, |key| matches!(snapshot.find(key), Ok(Some(_)))) {
        Ok(note) => note.iter().for_each(|note| control.progress.note(note)),
        Err(got) => {
            return Err(Error::Questions {
                path: asked.questions.clone(),
                part: "judgements".to_owned(),
                expected: format!("documents of generation {}", asked.generation),
                got,
                fix: "Give `--qrels` of the same set",
            });
        }
    }
    Ok(())
}

/// The best documents of each question.
fn ask(index: &Path, asked: &GenerationQuestions, depth: usize, control: JobControl<'_>) -> Result<TrecRun, Error> {
    let snapshot = Snapshot::open_manifest(index, manifest::load(index, asked.generation)?, None)?;
    let model = &snapshot.manifest().model;
    let reader = EmbeddingsReader::open(&asked.questions)?;
    let refuse = |part: &str, expected: String, got: String| Error::Questions {
        path: asked.questions.clone(),
        part: part.to_owned(),
        expected,
        got,
        fix: FIX,
    };
    if reader.model().fingerprint != model.fingerprint {
        let generation = asked.generation;
        let expected = format!(
            "`{}` {}, the model of generation {generation}",
            model.name, model.fingerprint
        );
        let got = format!("`{}` {}", reader.model().name, reader.model().fingerprint);
        return Err(refuse("model", expected, got));
    }
    if reader.tower() != "question" {
        return Err(refuse("tower", "question".to_owned(), reader.tower().to_owned()));
    }
    let mut rows = reader.collect::<Result<Vec<(String, Vec<f32>)>, _>>()?;
    for (key, row) in &mut rows {
        let got = row.len();
        model.cut(row).map_err(|_| {
            refuse(
                "values of a vector",
                model.lengths(),
                format!("{got} of question `{key}`"),
            )
        })?;
    }
    let params = DenseParams {
        k: depth,
        mode: SearchMode::Exact,
    };
    let mut run: TrecRun = BTreeMap::new();
    for batch in rows.chunks(BATCH) {
        control.check()?;
        let queries: Vec<&[f32]> = batch.iter().map(|(_, row)| row.as_slice()).collect();
        let found = snapshot.search_dense(&queries, &params, None, control.cancel)?;
        for ((key, _), hits) in batch.iter().zip(found) {
            let hit = |hit: &dyad_index::snapshot::DocumentHit| {
                Some((snapshot.key(hit.shard, hit.node)?.to_owned(), hit.score))
            };
            run.insert(key.clone(), hits.hits.iter().filter_map(hit).collect());
        }
    }
    Ok(run)
}
