//! Vectors from encoder services: several batches in flight, replies used in the order of the requests.
//!
//! Each batch is one call with a deadline and bounded retries (by the client, which waits as long as a service asks
//! for), so that a service that restarts costs one batch and not the build. Of several services each gets batches in
//! turn, and those of one that has failed go to the others for a minute, until one of them finds it back; where none
//! answers, the build ends with an error that names the service and the documents.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use dyad_command::JobCancellation;
use dyad_corpus::logit_scale::NO_LOGIT_SCALE;
use dyad_corpus::{Document, PassageContext};
use dyad_index::ModelRecord;
use dyad_proto::client::{ClientError, EncoderClient};
use dyad_proto::{limits, v1, vector};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::absence::Absence;
use super::call::{CalledService, contract, encode};
use super::late::passage_documents;
use super::logit_scale::{is_lasting, measure};
use super::remote_config::RemoteConfig;
use super::{EmbeddedDocument, LocatedDocuments, VectorSource};
use crate::context_error::ContextError;
use crate::error::Error;

/// Interval at which a wait checks for cancellation.
const CANCEL_POLL: Duration = Duration::from_millis(50);
/// Text of one batch, well below the message limit.
const MAX_BATCH_BYTES: usize = limits::MAX_MESSAGE_BYTES / 4;

/// Sends documents to encoder services.
#[derive(Debug)]
pub struct RemoteSource {
    /// At least one.
    services: Vec<CalledService>,
    config: RemoteConfig,
    model: ModelRecord,
    /// Whether that embeds questions otherwise than documents, where its service says so.
    two_towers: Option<bool>,
    next_id: u64,
    truncated: u64,
    tokens: u64,
    /// The document that did not fit into the last batch.
    carried: Option<Document>,
    pending: VecDeque<PendingBatch>,
    /// Documents of answered batches, in order.
    ready: VecDeque<EmbeddedDocument>,
    // Last, so that it outlives what runs on it.
    runtime: Runtime,
}

#[derive(Debug)]
struct PendingBatch {
    id: u64,
    documents: Vec<Document>,
    reply: JoinHandle<Result<(String, v1::EncodeResponse), ClientError>>,
}

impl RemoteSource {
    /// Connects and asks for the model.
    pub fn connect(url: &str, config: RemoteConfig, cancel: &JobCancellation) -> Result<Self, Error> {
        Self::connect_all(&[url.to_owned()], config, cancel)
    }

    /// Connects to several services of one model. Those that do not answer are left out, as long as one does.
    pub fn connect_all(urls: &[String], config: RemoteConfig, cancel: &JobCancellation) -> Result<Self, Error> {
        let batch_limit = 1..=limits::MAX_TEXTS;
        if !batch_limit.contains(&config.batch_texts) {
            return Err(Error::Parameter {
                name: "batch-texts",
                low: *batch_limit.start(),
                high: *batch_limit.end(),
                got: config.batch_texts,
            });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let (mut services, mut model, mut failure) = (Vec::with_capacity(urls.len()), None, None);
        let mut two_towers = None;
        for url in urls {
            let answer = wait(&runtime, cancel, async {
                let client = EncoderClient::connect(url, config.client.clone()).await?;
                let info = client.info().await?;
                Ok::<_, ClientError>((client, info))
            });
            match answer? {
                Ok((client, info)) => {
                    two_towers = two_towers.or(info.two_towers);
                    let of = model_of(info)?;
                    let first: &ModelRecord = model.get_or_insert_with(|| of.clone());
                    if !first.same_space(&of) {
                        let (url, expected) = (url.clone(), first.fingerprint.clone());
                        return Err(Error::ModelChanged {
                            url,
                            expected,
                            got: of.fingerprint,
                        });
                    }
                    services.push(CalledService {
                        client,
                        absence: Absence::new(config.away),
                    });
                }
                Err(error) => {
                    if urls.len() > 1 {
                        tracing::warn!("{error}; the other encoder services go on without it");
                    }
                    failure = Some(error);
                }
            }
        }
        let Some(model) = model else {
            let (url, reason) = (urls.join(","), "no URL was given".to_owned());
            return Err(failure.unwrap_or(ClientError::Url { url, reason }).into());
        };
        let (pending, ready) = (VecDeque::new(), VecDeque::new());
        Ok(Self {
            services,
            config,
            model,
            two_towers,
            next_id: 0,
            truncated: 0,
            tokens: 0,
            carried: None,
            pending,
            ready,
            runtime,
        })
    }

    /// Sends batches until the window is full or the corpus at its end.
    fn fill(&mut self, corpus: &mut LocatedDocuments<'_>) -> Result<(), Error> {
        while self.pending.len() < self.config.in_flight.max(1) * self.services.len() {
            let documents = self.next_batch(corpus)?;
            if documents.is_empty() {
                break;
            }
            self.next_id += 1;
            let context = self.config.context;
            let texts = documents
                .iter()
                .map(|document| document.passage_in(context).into_owned())
                .collect();
            let request = v1::EncodeRequest {
                id: self.next_id,
                tower: self.config.tower.into(),
                texts,
                documents: passage_documents(&documents, context)?,
                late_weight: context.late_weight().unwrap_or(0.0),
                ..Default::default()
            };
            let mut services = self.services.clone();
            services.rotate_left((self.next_id % self.services.len().max(1) as u64) as usize);
            let reply = self.runtime.spawn(encode(
                services,
                request,
                self.config.client.clone(),
                self.model.fingerprint.clone(),
            ));
            self.pending.push_back(PendingBatch {
                id: self.next_id,
                documents,
                reply,
            });
        }
        Ok(())
    }

    fn next_batch(&mut self, corpus: &mut LocatedDocuments<'_>) -> Result<Vec<Document>, Error> {
        let (mut documents, mut bytes, mut read) = (Vec::new(), 0, None);
        let is_late = self.config.context.late_weight().is_some();
        while documents.len() < self.config.batch_texts {
            let document = match self.carried.take() {
                Some(document) => document,
                None => match corpus.next().transpose()? {
                    Some(document) => document.value,
                    None => break,
                },
            };
            bytes += document.passage().len();
            if let Some(place) = document
                .place
                .as_ref()
                .filter(|place| is_late && read != Some(place.digest()))
            {
                read = Some(place.digest());
                bytes += place.document().len();
            }
            if bytes > MAX_BATCH_BYTES && !documents.is_empty() {
                self.carried = Some(document);
                break;
            }
            documents.push(document);
        }
        Ok(documents)
    }

    /// Waits for the oldest batch.
    fn take(&mut self, mut batch: PendingBatch, cancel: &JobCancellation) -> Result<(), Error> {
        let joined = wait(&self.runtime, cancel, &mut batch.reply).inspect_err(|_| batch.reply.abort())?;
        let named = |source| Error::Encoder {
            first: batch
                .documents
                .first()
                .map(|document| document.key.clone())
                .unwrap_or_default(),
            last: batch
                .documents
                .last()
                .map(|document| document.key.clone())
                .unwrap_or_default(),
            source,
        };
        let joined = joined.map_err(|error| named(contract(String::new(), error.to_string())))?;
        let (url, reply) = joined.map_err(named)?;
        if reply.fingerprint != self.model.fingerprint {
            return Err(Error::ModelChanged {
                url,
                expected: self.model.fingerprint.clone(),
                got: reply.fingerprint,
            });
        }
        let dim = self.model.dim;
        if (reply.id, reply.dim as usize) != (batch.id, dim) {
            let reason = format!(
                "expected reply {} with vectors of {dim} values, got reply {} with {}",
                batch.id, reply.id, reply.dim
            );
            return Err(named(contract(url, reason)));
        }
        if self.config.context.late_weight().is_some() && reply.document_tokens == 0 {
            let context = self.config.context.to_string();
            return Err(ContextError::EarlierService { url, context }.into());
        }
        let rows = vector::unpack(&reply.vectors, batch.documents.len(), dim, "vectors")
            .map_err(|error| named(contract(url.clone(), error.to_string())))?;
        self.truncated += u64::from(reply.truncated);
        self.tokens += reply.document_tokens + reply.tokens.iter().map(|tokens| u64::from(*tokens)).sum::<u64>();
        let texts = batch.documents.len();
        let is_ascending = reply.truncated_texts.is_sorted_by(|one, next| one < next);
        let last = reply.truncated_texts.last().map_or(0, |last| *last as usize + 1);
        if !is_ascending || last > texts || reply.truncated as usize > texts {
            let reason = format!("expected `truncated` and `truncated_texts` of {texts} texts, ascending, got others");
            let first = batch
                .documents
                .first()
                .map(|document| document.key.clone())
                .unwrap_or_default();
            let last = batch
                .documents
                .last()
                .map(|document| document.key.clone())
                .unwrap_or_default();
            return Err(Error::Encoder {
                first,
                last,
                source: contract(url, reason),
            });
        }
        // Services of earlier releases tell only how many.
        let tells = reply.truncated_texts.len() == reply.truncated as usize;
        let is_truncated = |number: u32| tells.then(|| reply.truncated_texts.binary_search(&number).is_ok());
        let rows = rows.chunks_exact(dim).map(<[f32]>::to_vec).zip(0..);
        let embedded = batch.documents.into_iter().zip(rows);
        self.ready
            .extend(embedded.map(|(document, (row, number))| EmbeddedDocument {
                document,
                row,
                truncated: is_truncated(number),
            }));
        Ok(())
    }
}

/// Runs a future on a runtime until it ends or the job is cancelled.
fn wait<F: Future>(runtime: &Runtime, cancel: &JobCancellation, what: F) -> Result<F::Output, Error> {
    runtime.block_on(async {
        let mut what = std::pin::pin!(what);
        while !cancel.is_cancelled() {
            if let Ok(output) = tokio::time::timeout(CANCEL_POLL, &mut what).await {
                return Ok(output);
            }
        }
        Err(Error::Cancelled)
    })
}

fn model_of(info: v1::ModelInfo) -> Result<ModelRecord, Error> {
    let (dim, max_tokens, metric) = (info.dim as usize, info.max_tokens as usize, info.metric().as_str_name());
    Ok(ModelRecord::of_unit_vectors(
        info.name,
        info.fingerprint,
        dim,
        metric,
        max_tokens,
    )?)
}

impl VectorSource for RemoteSource {
    fn model(&self) -> &ModelRecord {
        &self.model
    }

    fn is_in_step(&self) -> bool {
        false
    }

    fn documents(&self) -> Option<u64> {
        None
    }

    fn has_two_towers(&self) -> Option<bool> {
        self.two_towers
    }

    fn context(&self) -> PassageContext {
        self.config.context
    }

    /// None where the service has no question tower.
    fn logit_scale(&mut self, dimensions: usize, cancel: &JobCancellation) -> Result<Option<f64>, Error> {
        let RemoteConfig {
            client, batch_texts, ..
        } = &self.config;
        let model = self.model.leading(dimensions)?;
        let measured = measure(&self.services, client, *batch_texts, &model);
        match wait(&self.runtime, cancel, measured)? {
            Ok(None) => {
                tracing::info!("{NO_LOGIT_SCALE}");
                Ok(None)
            }
            Err(error) if is_lasting(&error) => {
                tracing::warn!("the logit scale of the model cannot be measured: {error}");
                Ok(None)
            }
            measured => Ok(measured?),
        }
    }

    fn truncated(&self) -> Option<u64> {
        Some(self.truncated)
    }

    fn tokens(&self) -> Option<u64> {
        Some(self.tokens)
    }

    fn pull(
        &mut self,
        corpus: &mut LocatedDocuments<'_>,
        cancel: &JobCancellation,
    ) -> Result<Option<EmbeddedDocument>, Error> {
        while self.ready.is_empty() {
            self.fill(corpus)?;
            let Some(oldest) = self.pending.pop_front() else {
                return Ok(None);
            };
            self.take(oldest, cancel)?;
        }
        Ok(self.ready.pop_front())
    }
}

impl Drop for RemoteSource {
    fn drop(&mut self) {
        for batch in &self.pending {
            batch.reply.abort();
        }
    }
}
