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
            let splitter = InputSplitter {
                tokenizer: &tokenizer,
                tower,
                options,
                came,
            };
            let tokenized = splitter.split(&input).and_then(|tokenized| {
                permit.fit(&admission, tokenized.tokens())?;
                Ok(tokenized)
            });
            let TokenizedInput { texts, contexts, late } = match tokenized {
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
struct TokenizedInput {
    texts: Vec<Tokens>,
    contexts: Vec<Tokens>,
    late: Option<LateRows>,
}

impl TokenizedInput {
    fn tokens(&self) -> usize {
        self.texts.iter().chain(&self.contexts).map(|text| text.ids.len()).sum()
    }
}

/// Makes tokens of a request, until its deadline.
struct InputSplitter<'a> {
    tokenizer: &'a Tokenizer,
    tower: Tower,
    options: EncodeOptions,
    came: Instant,
}

impl InputSplitter<'_> {
    fn check_time(&self) -> Result<(), EncodeError> {
        if Instant::now() < self.options.deadline {
            Ok(())
        } else {
            Err(late(self.came))
        }
    }

    fn split(&self, input: &Input) -> Result<TokenizedInput, EncodeError> {
        let mut texts = self.texts(input)?;
        let Input::Passages { documents, weight, .. } = input else {
            return Ok(TokenizedInput {
                texts,
                contexts: Vec::new(),
                late: None,
            });
        };
        let in_time = || self.check_time();
        let tokens = context_tokens(self.tokenizer, self.tower, documents, texts.len(), &in_time);
        let ContextTokens { contexts, rows, cut } = tokens?;
        for (position, (text, cut)) in texts.iter_mut().zip(cut).enumerate() {
            if cut && self.options.truncation == Truncation::Refuse {
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
        Ok(TokenizedInput {
            texts,
            contexts,
            late: Some(LateRows { rows, weight: *weight }),
        })
    }

    /// Tokens of every text; of several errors that of the first text.
    fn texts(&self, input: &Input) -> Result<Vec<Tokens>, EncodeError> {
        let tokens: Vec<Result<Tokens, EncodeError>> = match input {
            Input::Texts(texts) | Input::Passages { texts, .. } => {
                let texts = texts.par_iter().enumerate();
                texts.map(|(position, text)| self.text(position, text)).collect()
            }
            Input::TokenIds(texts) => {
                let texts = texts.par_iter().enumerate();
                texts.map(|(position, ids)| self.ids(position, ids)).collect()
            }
            Input::Pairs { query, texts } => {
                let texts = texts.par_iter().enumerate();
                texts.map(|(position, text)| self.pair(position, query, text)).collect()
            }
        };
        tokens.into_iter().collect()
    }

    fn text(&self, position: usize, text: &str) -> Result<Tokens, EncodeError> {
        self.check_time()?;
        let tokens = self.tokenizer.encode(self.tower, text).map_err(failed)?;
        self.check_length(position, tokens, || self.tokenizer.whole_length(self.tower, text))
    }

    fn ids(&self, position: usize, ids: &[u32]) -> Result<Tokens, EncodeError> {
        self.check_time()?;
        let tokens = self
            .tokenizer
            .surround(self.tower, ids)
            .map_err(|error| refusal(position, error))?;
        self.check_length(position, tokens, || {
            Ok((self.tokenizer.whole_length_of(self.tower, ids.len())?, false))
        })
    }

    fn pair(&self, position: usize, query: &str, text: &str) -> Result<Tokens, EncodeError> {
        self.check_time()?;
        let tokens = self.tokenizer.encode_pair(query, text).map_err(failed)?;
        self.check_length(position, tokens, || self.tokenizer.whole_length_of_pair(query, text))
    }

    /// Refuses a text without tokens, and one that was cut where the caller wants none to be. `whole` counts the tokens
    /// before the cut, and says whether there are more.
    fn check_length(
        &self,
        position: usize,
        tokens: Tokens,
        whole: impl Fn() -> Result<(usize, bool), crate::Error>,
    ) -> Result<Tokens, EncodeError> {
        // A tokenizer may drop all of a text, and put nothing around it.
        if tokens.ids.is_empty() {
            return Err(EncodeError::EmptyText { position });
        }
        if tokens.truncated && self.options.truncation == Truncation::Refuse {
            let (whole, more) = whole().map_err(failed)?;
            return Err(EncodeError::TooLong {
                position,
                tokens: whole,
                more,
                limit: tokens.ids.len(),
            });
        }
        Ok(tokens)
    }
}

fn failed(error: crate::Error) -> EncodeError {
    EncodeError::Model(Arc::new(error))
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
