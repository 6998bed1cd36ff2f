//! The clock of a connection: by when its client must have sent its first bytes, and read what was written.
//!
//! What is written waits in two places, and each has a deadline. The send buffer of the system fills where the client
//! reads nothing at all. HTTP/2 also lets a client request a reply and give it no window: then the next piece of the
//! reply waits, and the connection is free for others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::pace::TransferPace;

/// A deadline that a client has missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum MissedDeadline {
    #[error("the client sent no HTTP/2 preface")]
    Opening,
    #[error("the client does not read its replies")]
    Reading,
}

/// The deadlines of one connection's client.
#[derive(Debug)]
pub(super) struct ClientClock {
    opening: Instant,
    /// Bytes that the client must send until then.
    opening_bytes: usize,
    received: AtomicUsize,
    reply_pace: TransferPace,
    unread: Mutex<UnreadParts>,
}

/// The deadlines of all that waits for the client to read.
#[derive(Debug, Default)]
struct UnreadParts {
    send_buffer: Option<Instant>,
    /// The next piece of each reply.
    replies: HashMap<u64, Instant>,
    last_reply: u64,
}

impl ClientClock {
    /// For a client that must send `opening_bytes` within `opening`, and read within `stall`.
    pub(super) fn new(opening: Duration, opening_bytes: usize, stall: Duration) -> Self {
        Self {
            opening: Instant::now() + opening,
            opening_bytes,
            received: AtomicUsize::new(0),
            reply_pace: TransferPace::reply(stall),
            unread: Mutex::default(),
        }
    }

    fn unread(&self) -> MutexGuard<'_, UnreadParts> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time to read this number of bytes, from now on.
    pub(super) fn time_to_read(&self, bytes: usize) -> Instant {
        Instant::now() + self.reply_pace.time_for(bytes)
    }

    /// Notes that bytes have come.
    pub(super) fn note_received(&self, bytes: usize) {
        if !self.has_opened() {
            self.received.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn has_opened(&self) -> bool {
        self.received.load(Ordering::Relaxed) >= self.opening_bytes
    }

    /// Notes whether the send buffer is full.
    pub(super) fn note_written(&self, is_full: bool) {
        let until = self.time_to_read(0);
        let mut unread = self.unread();
        unread.send_buffer = is_full.then(|| unread.send_buffer.unwrap_or(until));
    }

    /// The number of a new reply.
    pub(super) fn new_reply(&self) -> u64 {
        let mut unread = self.unread();
        unread.last_reply += 1;
        unread.last_reply
    }

    /// Sets by when the client must have read the last piece of a reply; none where it waits for no piece.
    pub(super) fn set_reply(&self, number: u64, until: Option<Instant>) {
        let replies = &mut self.unread().replies;
        match until {
            Some(until) => replies.insert(number, until),
            None => replies.remove(&number),
        };
    }

    /// The deadline that the client has missed. While the server drains, it does not wait for first bytes.
    pub(super) fn missed(&self, is_draining: bool) -> Option<MissedDeadline> {
        let now = Instant::now();
        if !self.has_opened() && (is_draining || now >= self.opening) {
            return Some(MissedDeadline::Opening);
        }
        let unread = self.unread();
        let mut deadlines = unread.replies.values().chain(&unread.send_buffer);
        deadlines.any(|until| *until < now).then_some(MissedDeadline::Reading)
    }
}
