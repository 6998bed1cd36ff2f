//! Hard negatives from a published index: what its searcher ranks high for a question, and nothing known to answer it.

use std::collections::{HashMap, HashSet};

use dyad_corpus::Metadata;
use dyad_corpus::examples::{Passage, TrainingExample};
use dyad_files::Cancel;
use dyad_proto::client::{ClientConfig, ClientError, Credentials, SearcherClient};
use dyad_proto::limits::{MAX_BATCH, MAX_K};
use dyad_proto::v1;
use tokio::runtime::{Builder, Runtime};

use super::error::DataError;
use super::exact::RankedAnswer;
use super::mine::{Finder, MiningEncoder, question_key, score_positives};
use super::negatives::{MineOptions, Mined, add_negatives};
use super::texts::halves;

/// Hits of one call, each with its document: some MiB of usual passages, where a message may have 64.
const HITS_OF_A_CALL: usize = 8192;

/// The known answers of a question.
#[derive(Debug, Default)]
struct KnownAnswers {
    keys: HashSet<String>,
    texts: HashSet<(u64, u64)>,
}

impl KnownAnswers {
    fn contains(&self, key: &str, passage: &Passage) -> bool {
        self.keys.contains(key) || self.texts.contains(&halves(passage.passage().as_bytes()))
    }
}

/// The hits of a question.
#[derive(Debug, Default)]
struct RankedPassages {
    passages: Vec<Passage>,
    /// The places of the passages with their scores, best first.
    ranking: Vec<RankedAnswer>,
    /// The places of passages that are known to answer the question.
    known: Vec<u32>,
}

/// A searcher whose index was made by the model that mines, and what is known to answer which question.
#[derive(Debug)]
pub struct ServedMiner<'a> {
    encoder: MiningEncoder<'a>,
    client: SearcherClient,
    runtime: Runtime,
    /// The known answers of each question, by the question's text.
    known: HashMap<(u64, u64), KnownAnswers>,
}

impl<'a> ServedMiner<'a> {
    /// Connects to `http://HOST:PORT` or `https://HOST:PORT`.
    pub fn connect(encoder: MiningEncoder<'a>, url: &str, credentials: Credentials) -> Result<Self, DataError> {
        // With a thread of its own, which answers the server's pings while this one embeds: a connection without is
        // closed after 50 s.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| DataError::Source(error.into()))?;
        let config = ClientConfig {
            credentials,
            ..ClientConfig::default()
        };
        let client = runtime.block_on(SearcherClient::connect(url, config))?;
        Ok(Self {
            encoder,
            client,
            runtime,
            known: HashMap::new(),
        })
    }

    /// The best `k` documents of each example's question.
    fn ask(&self, examples: &[TrainingExample], k: u32) -> Result<Vec<Vec<v1::Hit>>, DataError> {
        let requests = examples.iter().map(|example| v1::SearchRequest {
            query: example.question.trim().to_owned(),
            mode: v1::Mode::Dense.into(),
            k,
            ..v1::SearchRequest::default()
        });
        let request = v1::SearchBatchRequest {
            requests: requests.collect(),
        };
        let responses = self.runtime.block_on(self.client.search_batch(request))?.responses;
        if responses.len() != examples.len() {
            return Err(self.contract_error(&format!("{} answers to {} questions", responses.len(), examples.len())));
        }
        let expected = &self.encoder.model.info().fingerprint;
        if let Some(other) = responses.iter().find(|response| response.fingerprint != *expected) {
            let (url, got) = (self.client.url().to_owned(), other.fingerprint.clone());
            return Err(DataError::OtherModel {
                url,
                expected: expected.clone(),
                got,
            });
        }
        Ok(responses.into_iter().map(|response| response.hits).collect())
    }

    /// The hits of a question, best first, and which of them are known to answer it.
    fn rank_passages(&self, hits: Vec<v1::Hit>, known: &KnownAnswers) -> Result<RankedPassages, DataError> {
        let mut ranked = RankedPassages::default();
        for (answer, hit) in (0u32..).zip(hits) {
            let Some(document) = hit.document else {
                return Err(self.contract_error("a hit without its document"));
            };
            let passage = passage_of(document);
            if known.contains(&hit.key, &passage) {
                ranked.known.push(answer);
            }
            ranked.ranking.push(RankedAnswer {
                answer,
                score: hit.score,
            });
            ranked.passages.push(passage);
        }
        Ok(ranked)
    }

    fn contract_error(&self, reason: &str) -> DataError {
        DataError::Searcher(ClientError::Contract {
            url: self.client.url().to_owned(),
            reason: reason.to_owned(),
        })
    }
}

/// Among the documents of the index, by its graph; scores of negatives are the searcher's cosines.
impl Finder for ServedMiner<'_> {
    fn add_known(&mut self, example: &TrainingExample) {
        let known = self.known.entry(question_key(example)).or_default();
        for positive in &example.positives {
            known.keys.extend(positive.key.clone().filter(|key| !key.is_empty()));
            known.texts.insert(halves(positive.passage().as_bytes()));
        }
    }

    fn find(
        &self,
        window: &mut [TrainingExample],
        options: &MineOptions,
        cancel: &dyn Cancel,
        mined: &mut Mined,
    ) -> Result<(), DataError> {
        score_positives(self.encoder, window, cancel)?;
        let none = KnownAnswers::default();
        let known = |example: &TrainingExample| self.known.get(&question_key(example)).unwrap_or(&none);
        // Each positive may come up by its key, and another document by its text.
        let deepest = window
            .iter()
            .map(known)
            .map(|known| known.keys.len() + known.texts.len())
            .max()
            .unwrap_or(0);
        let k = hits_per_question(options, deepest)?;
        let at_a_time = (HITS_OF_A_CALL / k as usize).clamp(1, MAX_BATCH);
        for some in window.chunks_mut(at_a_time) {
            if cancel.is_cancelled() {
                return Err(DataError::Interrupted);
            }
            let answers = self.ask(some, k)?;
            for (example, hits) in some.iter_mut().zip(answers) {
                let ranked = self.rank_passages(hits, known(example))?;
                let RankedPassages {
                    passages,
                    ranking,
                    known,
                } = &ranked;
                add_negatives(example, passages, ranking, known, options, mined);
            }
        }
        Ok(())
    }
}

/// How many hits of a question are asked for where `known` of them may be left out.
fn hits_per_question(options: &MineOptions, known: usize) -> Result<u32, DataError> {
    let k = u32::try_from(options.rank_end + known).ok();
    k.filter(|k| *k <= MAX_K).ok_or_else(|| DataError::Option {
        what: "`rank-end`",
        expected: format!(
            "at most the {} ranks that a searcher gives",
            (MAX_K as usize).saturating_sub(known)
        ),
        got: options.rank_end.to_string(),
    })
}

fn passage_of(document: v1::Document) -> Passage {
    let span = Metadata::of_stored(document.metadata_json).and_then(|metadata| metadata.span());
    let v1::Document { key, title, text, .. } = document;
    Passage {
        key: Some(key),
        title,
        text,
        score: None,
        span,
    }
}
