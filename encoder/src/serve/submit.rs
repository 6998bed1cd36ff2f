//! From a checked request to the queue: admission, tokenizing, and the reply's place.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use dyad_proto::admission::Admitted;
use tokio::sync::oneshot;

use super::admission::at_most;
use super::backend::ModelBackend;
use super::error::{EncodeError, late};
use super::handle::Handle;
use super::input_splitter::{InputSplitter, TokenizedInput};
use super::prompts::PromptCache;
use super::queue::QueuedRequest;
use super::reply::{EncodedReply, PendingReply, Receiver, ReplyOutcome, micros};
use super::request::{EncodeOptions, Input, RequestPrompt};
use crate::config::Tower;
use crate::model::PromptedModel;
use crate::tokenize::Tokens;

/// A request that is in order, and when it came.
#[derive(Debug)]
pub(crate) struct SubmittedJob {
    pub(crate) tower: Tower,
    input: Input,
    pub(crate) options: EncodeOptions,
    /// What stands before each text, where that is not the tower's prompt.
    prompt: Option<String>,
    /// Values per vector that were asked for.
    dim: usize,
    /// Tokens that it can have at most.
    pub(crate) cost: usize,
    came: Instant,
}

/// How a request enters the queue.
type QueueEntry = fn(&ModelBackend, QueuedRequest<Arc<PendingReply>>);

impl SubmittedJob {
    pub(crate) fn late(&self) -> EncodeError {
        late(self.came)
    }

    pub(crate) fn texts(&self) -> usize {
        self.input.len()
    }

    /// The model with the prompt of the request, and the tokens of the request by it.
    fn tokenized(&self, prompts: &PromptCache) -> Result<(Arc<PromptedModel>, TokenizedInput), EncodeError> {
        let prompted = prompts.with(self.tower, self.prompt.as_deref())?;
        let splitter = InputSplitter {
            tokenizer: prompted.tokenizer(),
            tower: self.tower,
            options: &self.options,
            came: self.came,
        };
        let tokenized = splitter.split(&self.input)?;
        Ok((prompted, tokenized))
    }
}

impl Handle {
    /// Checks what can be checked without tokenizing.
    pub(crate) fn job(&self, tower: Tower, input: Input, options: EncodeOptions) -> Result<SubmittedJob, EncodeError> {
        let came = Instant::now();
        let info = self.info();
        if input.kind() != info.kind {
            return Err(EncodeError::OtherKind {
                served: info.kind,
                model: info.name.clone(),
            });
        }
        if matches!(input, Input::Passages { .. }) && !self.running.opened.pools_means(tower) {
            return Err(EncodeError::NoMeans {
                model: info.name.clone(),
            });
        }
        if matches!(input, Input::Pairs { .. }) && options.prompt != RequestPrompt::OfTower {
            return Err(EncodeError::PromptOfPairs);
        }
        if matches!(&input, Input::Pairs { query, .. } if query.trim().is_empty()) {
            return Err(EncodeError::EmptyQuery);
        }
        if input.is_empty() {
            return Err(EncodeError::NoTexts);
        }
        if let Some(position) = input.first_empty() {
            return Err(EncodeError::EmptyText { position });
        }
        let dim = options.dim(info.dim)?;
        let prompt = options.prompt(&info.named_prompts)?.map(ToOwned::to_owned);
        let own_prompt = &info.prompts[tower.index()];
        let prompt_bytes = prompt.as_ref().unwrap_or(own_prompt).len();
        let longest = match tower {
            Tower::Question => info.max_question_tokens,
            Tower::Answer => info.max_tokens,
        };
        let cost = at_most(&input.at_most(longest), prompt_bytes, longest);
        Ok(SubmittedJob {
            tower,
            input,
            options,
            prompt,
            dim,
            cost,
            came,
        })
    }

    /// Embeds an admitted request, for a task.
    pub(crate) async fn submit(&self, job: SubmittedJob, permit: Admitted, entry: QueueEntry) -> ReplyOutcome {
        let (deadline, came) = (job.options.deadline, job.came);
        let (sender, receiver) = oneshot::channel();
        self.enqueue(job, Receiver::Task(sender), permit, entry);
        match tokio::time::timeout_at(deadline.into(), receiver).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(EncodeError::Stopped),
            Err(_) => Err(late(came)),
        }
    }

    /// Embeds an admitted request, for a thread.
    pub(crate) fn submit_blocking(&self, job: SubmittedJob, permit: Admitted) -> ReplyOutcome {
        let (deadline, came) = (job.options.deadline, job.came);
        let (sender, receiver) = mpsc::sync_channel(1);
        self.enqueue(job, Receiver::Thread(sender), permit, ModelBackend::push);
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(outcome) => outcome,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(late(came)),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(EncodeError::Stopped),
        }
    }

    /// Tokenizes on the pool, then queues.
    fn enqueue(&self, job: SubmittedJob, receiver: Receiver, mut permit: Admitted, entry: QueueEntry) {
        let (prompts, backend) = (
            Arc::clone(&self.running.opened.prompts),
            Arc::clone(&self.running.backend),
        );
        let admission = self.running.admission.clone();
        self.running.splitters.spawn(move || {
            let started = Instant::now();
            let tokenized = job.tokenized(&prompts).and_then(|(prompted, tokenized)| {
                admission.fit(&mut permit, tokenized.tokens())?;
                Ok((prompted, tokenized))
            });
            let SubmittedJob {
                tower,
                options,
                dim,
                came,
                ..
            } = job;
            let (prompted, TokenizedInput { texts, contexts, late }) = match tokenized {
                Ok(tokenized) => tokenized,
                Err(error) => {
                    drop(permit);
                    return receiver.send(Err(error));
                }
            };
            let queued = Instant::now();
            let encoded = EncodedReply {
                queue_us: micros(started.saturating_duration_since(came)),
                tokenize_us: micros(queued.saturating_duration_since(started)),
                fingerprint: Arc::clone(prompted.fingerprint()),
                ..blank(&texts, &contexts, dim)
            };
            let reply = Arc::new(PendingReply::new(encoded, late, queued, receiver, Some(permit)));
            entry(
                &backend,
                QueuedRequest {
                    tower,
                    skipped: prompted.skipped_tokens(tower),
                    texts,
                    contexts,
                    deadline: options.deadline,
                    reply,
                },
            );
        });
    }
}

/// A reply without vectors and without a fingerprint yet: of the texts, then of the passages of documents.
pub(crate) fn blank(texts: &[Tokens], contexts: &[Tokens], dim: usize) -> EncodedReply {
    let rows: usize = contexts.iter().map(Tokens::vectors).sum();
    EncodedReply {
        vectors: vec![0.0; (texts.len() + rows) * dim],
        document_tokens: contexts.iter().map(|window| window.ids.len() as u64).sum(),
        dim,
        tokens: texts.iter().map(|text| text.ids.len() as u32).collect(),
        fingerprint: Arc::default(),
        truncated: (0..)
            .zip(texts)
            .filter(|(_, text)| text.truncated)
            .map(|(number, _)| number)
            .collect(),
        queue_us: 0,
        tokenize_us: 0,
        embed_us: 0,
    }
}
