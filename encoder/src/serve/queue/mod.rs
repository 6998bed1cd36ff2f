//! Waiting requests and the batch that is cut next. Pure data: no clock, no thread, no channel.
//!
//! The request at the front gives the batch its width: the longest of its texts that still wait. The batch is filled,
//! within the budget, with the longest texts of the same kind that are not longer than that and at least half as long,
//! whichever request they belong to. On the CPU nothing is padded; texts of one batch are near in length so that
//! attention, which runs on texts of equal length together, is cut into few runs, and so that rows times the longest
//! row is a fair measure of the work. Where the front's are short, as questions are, all short texts may go with it, in
//! the order of their turns: attention is little of their work, and none waits for another of its length. Then the
//! front request goes to the back if it still waits: one question after a thousand passages waits for one batch, not
//! for all of them.

use std::collections::VecDeque;
use std::time::Instant;

use crate::config::Tower;
use crate::tokenize::{Budget, Tokens};

/// Texts looked at for one batch at most; keeps a cut cheap however long the queue is.
const WINDOW_TEXTS: usize = 4096;

/// Tokens of a short text at most.
const SHORT: usize = 64;

/// A tokenized request.
#[derive(Debug)]
pub(crate) struct QueuedRequest<R> {
    pub(crate) tower: Tower,
    /// Tokens at the beginning of each text that the pooling leaves out: those of its prompt.
    pub(crate) skipped: usize,
    pub(crate) texts: Vec<Tokens>,
    /// Windows of the documents in which the texts stand, with a span for each vector. Their vectors come after those
    /// of the texts.
    pub(crate) contexts: Vec<Tokens>,
    pub(crate) deadline: Instant,
    /// Receiver of the vectors; shared by the pieces that a request is split into.
    pub(crate) reply: R,
}

impl<R> QueuedRequest<R> {
    /// Tokens of all its texts and their documents.
    pub(crate) fn tokens(&self) -> usize {
        self.texts.iter().chain(&self.contexts).map(|text| text.ids.len()).sum()
    }
}

/// One text of a batch, or one window of a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueuedPiece<R> {
    pub(crate) reply: R,
    /// Place of its vector, or of its first one, in the reply.
    pub(crate) position: usize,
    pub(crate) tokens: Tokens,
}

/// Texts to embed together, longest first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut<R> {
    pub(crate) tower: Tower,
    /// Tokens at the beginning of each text that the pooling leaves out.
    pub(crate) skipped: usize,
    pub(crate) pieces: Vec<QueuedPiece<R>>,
}

impl<R> Cut<R> {
    /// Tokens of all its texts.
    pub(crate) fn tokens(&self) -> usize {
        self.pieces.iter().map(|piece| piece.tokens.ids.len()).sum()
    }
}

/// What all texts of a batch have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BatchKind {
    tower: Tower,
    /// Prompts may differ where the pooling reads them, or where it leaves out as many tokens of each.
    skipped: usize,
    /// Whether these are windows of documents, which have vectors of their spans.
    has_spans: bool,
}

#[derive(Debug)]
struct WaitingRequest<R> {
    kind: BatchKind,
    /// Tokens of `pending`.
    tokens: usize,
    /// Shortest first; of equal ones the later text first, so that texts leave from the end in order.
    pending: Vec<(usize, Tokens)>,
    deadline: Instant,
    reply: R,
}

impl<R> WaitingRequest<R> {
    /// Texts whose first vector is number `first` of the reply; nothing where there are none.
    fn of(texts: Vec<Tokens>, first: usize, kind: BatchKind, deadline: Instant, reply: R) -> Option<Self> {
        let tokens = texts.iter().map(|text| text.ids.len()).sum();
        let has_spans = texts.iter().any(|text| !text.spans.is_empty());
        let kind = BatchKind { has_spans, ..kind };
        let mut next = first;
        let mut pending = Vec::with_capacity(texts.len());
        for text in texts {
            let position = next;
            next += text.vectors();
            pending.push((position, text));
        }
        pending.sort_by_key(|(position, tokens)| (tokens.ids.len(), std::cmp::Reverse(*position)));
        (!pending.is_empty()).then_some(Self {
            kind,
            tokens,
            pending,
            deadline,
            reply,
        })
    }
}

impl<R: Clone> WaitingRequest<R> {
    /// The texts of a request, and the windows of its documents.
    fn all_of(request: QueuedRequest<R>) -> impl DoubleEndedIterator<Item = Self> {
        let QueuedRequest {
            tower,
            skipped,
            texts,
            contexts,
            deadline,
            reply,
        } = request;
        let kind = BatchKind {
            tower,
            skipped,
            has_spans: false,
        };
        let after = texts.len();
        let texts = Self::of(texts, 0, kind, deadline, reply.clone());
        texts
            .into_iter()
            .chain(Self::of(contexts, after, kind, deadline, reply))
    }
}

/// Requests in the order of their turn.
#[derive(Debug)]
pub(crate) struct RequestQueue<R> {
    waiting: VecDeque<WaitingRequest<R>>,
}

impl<R: Clone> RequestQueue<R> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
        }
    }

    /// Puts a request at the end. Its texts are cut longest first.
    pub(crate) fn push(&mut self, request: QueuedRequest<R>) {
        self.waiting.extend(WaitingRequest::all_of(request));
    }

    /// Puts a request before all others: for a probe, which says something only if it does not wait for bulk work.
    pub(crate) fn push_first(&mut self, request: QueuedRequest<R>) {
        for waiting in WaitingRequest::all_of(request).rev() {
            self.waiting.push_front(waiting);
        }
    }

    /// Whether the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Tokens that wait.
    pub(crate) fn tokens(&self) -> usize {
        self.waiting.iter().map(|request| request.tokens).sum()
    }

    /// Tokens that are embedded before the last of a request of this many, if it were pushed now: every other request
    /// has a turn for each of its turns, and no more.
    pub(crate) fn ahead(&self, tokens: usize, budget: Budget) -> usize {
        let turns = tokens.div_ceil(budget.tokens.max(1)).max(1);
        let most = budget.tokens.saturating_mul(turns);
        self.waiting.iter().map(|request| request.tokens.min(most)).sum()
    }

    /// Deadlines in the order of turns.
    #[cfg(test)]
    pub(crate) fn deadlines(&self) -> Vec<Instant> {
        self.waiting.iter().map(|request| request.deadline).collect()
    }

    /// Removes the requests whose deadline has passed or whose caller is gone.
    pub(crate) fn drop_dead(&mut self, now: Instant, is_gone: impl Fn(&R) -> bool) -> Vec<R> {
        let mut dead = Vec::new();
        self.waiting.retain(|request| {
            let keep = request.deadline > now && !is_gone(&request.reply);
            if !keep {
                dead.push(request.reply.clone());
            }
            keep
        });
        dead
    }

    /// Removes all requests.
    pub(crate) fn drain(&mut self) -> Vec<R> {
        self.waiting.drain(..).map(|request| request.reply).collect()
    }

    /// Cuts the next batch, or nothing where nothing waits.
    pub(crate) fn cut(&mut self, budget: Budget) -> Option<Cut<R>> {
        let front = self.waiting.front()?;
        let kind = front.kind;
        let width = front.pending.last().map_or(0, |(_, tokens)| tokens.ids.len());
        let shares = self.shares(kind, width, budget);

        let mut pieces: Vec<QueuedPiece<R>> = Vec::new();
        for (request, share) in self.waiting.iter_mut().zip(shares) {
            // The chosen texts of a request lie side by side in its order of length.
            let chosen = request.pending.drain(share).rev();
            let tokens = &mut request.tokens;
            pieces.extend(chosen.map(|(position, text)| {
                *tokens = tokens.saturating_sub(text.ids.len());
                QueuedPiece {
                    reply: request.reply.clone(),
                    position,
                    tokens: text,
                }
            }));
        }
        pieces.sort_by_key(|piece| std::cmp::Reverse(piece.tokens.ids.len()));
        if let Some(front) = self.waiting.pop_front() {
            self.waiting.push_back(front);
        }
        self.waiting.retain(|request| !request.pending.is_empty());
        let BatchKind { tower, skipped, .. } = kind;
        Some(Cut { tower, skipped, pieces })
    }

    /// Which texts of each request go into a batch of this width: ranges of `pending`, one per request from the front.
    fn shares(&self, kind: BatchKind, width: usize, budget: Budget) -> Vec<std::ops::Range<usize>> {
        let is_short = width <= SHORT;
        let (width, shortest) = if is_short {
            (SHORT, 0)
        } else {
            (width, width.div_ceil(2))
        };
        let mut candidates: Vec<(usize, usize)> = Vec::new();
        let mut shares = Vec::new();
        for (turn, request) in self.waiting.iter().enumerate() {
            if candidates.len() >= WINDOW_TEXTS {
                break;
            }
            let longer = request.pending.partition_point(|(_, tokens)| tokens.ids.len() <= width);
            shares.push(longer..longer);
            if request.kind == kind {
                let lengths = request
                    .pending
                    .iter()
                    .take(longer)
                    .rev()
                    .map(|(_, tokens)| tokens.ids.len());
                let room = WINDOW_TEXTS - candidates.len();
                candidates.extend(
                    lengths
                        .take_while(|&length| length >= shortest)
                        .take(room)
                        .map(|length| (length, turn)),
                );
            }
        }
        // Short texts stay in the order of turns: longest first, the shortest would wait for as long as longer ones
        // keep coming and fill the batches.
        if !is_short {
            // Stable: of equal lengths the request whose turn is sooner goes first, and the front's longest is always
            // in.
            candidates.sort_by_key(|&(length, _)| std::cmp::Reverse(length));
        }
        let mut tokens = 0;
        for (taken, (length, turn)) in candidates.into_iter().enumerate() {
            tokens += length;
            let fits = if is_short {
                budget.fits_short(taken + 1, tokens)
            } else {
                budget.fits(taken + 1, width)
            };
            if !fits {
                break;
            }
            if let Some(share) = shares.get_mut(turn) {
                share.start -= 1;
            }
        }
        shares
    }
}

#[cfg(test)]
mod tests;
