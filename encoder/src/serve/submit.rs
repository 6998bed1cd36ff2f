//! From a checked request to the queue: admission, tokenizing, and the reply's place.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use rayon::prelude::*;
use tokio::sync::oneshot;

use super::admission::{Permit, at_most};
use super::backend::ModelBackend;
use super::error::{EncodeError, late};
use super::handle::Handle;
use super::passages::{LateRows, context_tokens};
use super::queue::QueuedRequest;
use super::reply::{EncodedReply, PendingReply, Receiver, ReplyOutcome, micros};
use super::request::{EncodeOptions, Input, Truncation};
use crate::config::Tower;
use crate::tokenize::{ContextTokens, GivenError, Tokenizer, Tokens};

/// A request that is in order, and when it came.
#[derive(Debug)]
pub(crate) struct SubmittedJob {
    pub(crate) tower: Tower,
    input: Input,
    pub(crate) options: EncodeOptions,
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
        let prompt_bytes = self.running.opened.tokenizer.prompt(tower).text.len();
        let longest = match tower {
            Tower::Question => info.max_question_tokens,
            Tower::Answer => info.max_tokens,
        };
        let cost = at_most(&input.at_most(longest), prompt_bytes, longest);
        Ok(SubmittedJob {
            tower,
            input,
            options,
            dim,
            cost,
            came,
        })
    }

    /// Embeds an admitted request, for a task.
    pub(crate) async fn submit(&self, job: SubmittedJob, permit: Permit, entry: QueueEntry) -> ReplyOutcome {
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
    pub(crate) fn submit_blocking(&self, job: SubmittedJob, permit: Permit) -> ReplyOutcome {
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
    fn enqueue(&self, job: SubmittedJob, receiver: Receiver, mut permit: Permit, entry: QueueEntry) {
        let (tokenizer, backend) = (
            Arc::clone(&self.running.opened.tokenizer),
            Arc::clone(&self.running.backend),
        );
        let admission = self.running.admission.clone();
        self.running.splitters.spawn(move || {
            let started = Instant::now();
            let SubmittedJob {
                tower,
                input,
                options,
                dim,
                came,
                ..
            } = job;
            let mut tokenize = || -> Result<InContext, EncodeError> {
                let texts = split(&tokenizer, tower, &input, options, came)?;
                let tokenized = InContext::of(&tokenizer, &input, (tower, options, came), texts)?;
                permit.fit(&admission, tokenized.tokens())?;
                Ok(tokenized)
            };
            let InContext { texts, contexts, late } = match tokenize() {
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
                ..blank(&texts, &contexts, dim)
            };
            let reply = Arc::new(PendingReply::new(encoded, late, queued, receiver, Some(permit)));
            entry(
                &backend,
                QueuedRequest {
                    tower,
                    texts,
                    contexts,
                    deadline: options.deadline,
                    reply,
                },
            );
        });
    }
}

/// A request's tokens, and those of the documents in which its texts stand, where they stand in some.
struct InContext {
    texts: Vec<Tokens>,
    contexts: Vec<Tokens>,
    late: Option<LateRows>,
}

impl InContext {
    fn of(
        tokenizer: &Tokenizer,
        input: &Input,
        (tower, options, came): (Tower, EncodeOptions, Instant),
        mut texts: Vec<Tokens>,
    ) -> Result<Self, EncodeError> {
        let Input::Passages { documents, weight, .. } = input else {
            return Ok(Self {
                texts,
                contexts: Vec::new(),
                late: None,
            });
        };
        let in_time = || {
            if Instant::now() < options.deadline {
                Ok(())
            } else {
                Err(late(came))
            }
        };
        let tokens = context_tokens(tokenizer, tower, documents, texts.len(), &in_time);
        let ContextTokens { contexts, rows, cut } = tokens?;
        for (position, (text, cut)) in texts.iter_mut().zip(cut).enumerate() {
            if cut && options.truncation == Truncation::Refuse {
                let limit = contexts.iter().map(|window| window.ids.len()).max().unwrap_or_default();
                return Err(EncodeError::TooLong {
                    position,
                    tokens: limit,
                    more: true,
                    limit,
                });
            }
            text.truncated |= cut;
        }
        Ok(Self {
            texts,
            contexts,
            late: Some(LateRows { rows, weight: *weight }),
        })
    }

    fn tokens(&self) -> usize {
        self.texts.iter().chain(&self.contexts).map(|text| text.ids.len()).sum()
    }
}

/// A reply without vectors yet: of the texts, then of the passages of documents.
pub(crate) fn blank(texts: &[Tokens], contexts: &[Tokens], dim: usize) -> EncodedReply {
    let rows: usize = contexts.iter().map(Tokens::vectors).sum();
    EncodedReply {
        vectors: vec![0.0; (texts.len() + rows) * dim],
        document_tokens: contexts.iter().map(|window| window.ids.len() as u64).sum(),
        dim,
        tokens: texts.iter().map(|text| text.ids.len() as u32).collect(),
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

/// Tokens of every text; of several errors that of the first text.
fn split(
    tokenizer: &Tokenizer,
    tower: Tower,
    input: &Input,
    options: EncodeOptions,
    came: Instant,
) -> Result<Vec<Tokens>, EncodeError> {
    let failed = |error| EncodeError::Model(Arc::new(error));
    let in_time = || {
        if Instant::now() < options.deadline {
            Ok(())
        } else {
            Err(late(came))
        }
    };
    let fits = |position, tokens: Tokens, whole: &dyn Fn() -> Result<(usize, bool), crate::Error>| {
        // A tokenizer may drop all of a text, and put nothing around it.
        if tokens.ids.is_empty() {
            return Err(EncodeError::EmptyText { position });
        }
        if tokens.truncated && options.truncation == Truncation::Refuse {
            let (whole, more) = whole().map_err(failed)?;
            return Err(EncodeError::TooLong {
                position,
                tokens: whole,
                more,
                limit: tokens.ids.len(),
            });
        }
        Ok(tokens)
    };
    let tokens: Vec<Result<Tokens, EncodeError>> = match input {
        Input::Texts(texts) | Input::Passages { texts, .. } => {
            let one = |(position, text): (usize, &String)| {
                in_time()?;
                let tokens = tokenizer.encode(tower, text).map_err(failed)?;
                fits(position, tokens, &|| tokenizer.whole_length(tower, text))
            };
            texts.par_iter().enumerate().map(one).collect()
        }
        Input::TokenIds(texts) => {
            let one = |(position, ids): (usize, &Vec<u32>)| {
                in_time()?;
                let tokens = tokenizer
                    .surround(tower, ids)
                    .map_err(|error| refusal(position, error))?;
                fits(position, tokens, &|| {
                    Ok((tokenizer.whole_length_of(tower, ids.len())?, false))
                })
            };
            texts.par_iter().enumerate().map(one).collect()
        }
        Input::Pairs { query, texts } => {
            let one = |(position, text): (usize, &String)| {
                in_time()?;
                let tokens = tokenizer.encode_pair(query, text).map_err(failed)?;
                fits(position, tokens, &|| tokenizer.whole_length_of_pair(query, text))
            };
            texts.par_iter().enumerate().map(one).collect()
        }
    };
    tokens.into_iter().collect()
}

fn refusal(position: usize, error: GivenError) -> EncodeError {
    match error {
        GivenError::Unknown { place, id, vocabulary } => EncodeError::UnknownToken {
            position,
            place,
            id,
            vocabulary,
        },
        GivenError::Special { place, id, token } => EncodeError::SpecialToken {
            position,
            place,
            id,
            token,
        },
        GivenError::Failed(error) => EncodeError::Model(Arc::new(error)),
    }
}
