//! A thread that works ahead of the trainer, over a bounded channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::collate::{TrainBatch, collate};
use super::error::DataError;
use super::sampler::Sampler;
use crate::error::Error;

/// Items that a producer thread makes ahead of its consumer. Dropping it stops the producer after the current item, and
/// waits for it.
#[derive(Debug)]
pub struct Prefetch<T> {
    name: &'static str,
    receiver: Option<Receiver<Result<Option<T>, DataError>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    finished: bool,
}

impl Prefetch<TrainBatch> {
    /// Batches of a sampler, without end, at most `ahead` of them ready.
    pub fn batches(mut sampler: Sampler, ahead: usize) -> Result<Self, DataError> {
        Self::start("dyad-batches", ahead, move || Ok(Some(collate(&mut sampler))))
    }
}

impl<T: Send + 'static> Prefetch<T> {
    /// Items of `produce` until it gives none or fails, at most `ahead` of them ready.
    pub fn start(
        name: &'static str,
        ahead: usize,
        produce: impl FnMut() -> Result<Option<T>, DataError> + Send + 'static,
    ) -> Result<Self, DataError> {
        let (sender, receiver) = sync_channel(ahead.max(1));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(produce, &sender, &stopped))
            .map_err(|source| Error::Thread { name, source })?;
        Ok(Self {
            name,
            receiver: Some(receiver),
            stop,
            thread: Some(thread),
            finished: false,
        })
    }

    /// The next item, `None` after the last; an error of the producer is returned in its place. Either is final.
    pub fn next(&mut self, deadline: Duration) -> Result<Option<T>, DataError> {
        let (false, Some(receiver)) = (self.finished, &self.receiver) else {
            return Ok(None);
        };
        let received = match receiver.recv_timeout(deadline) {
            Ok(received) => received,
            Err(RecvTimeoutError::Timeout) => {
                return Err(DataError::Late {
                    name: self.name,
                    seconds: deadline.as_secs(),
                });
            }
            Err(RecvTimeoutError::Disconnected) => Err(DataError::Lost { name: self.name }),
        };
        self.finished = !matches!(received, Ok(Some(_)));
        received
    }
}

fn work<T>(
    mut produce: impl FnMut() -> Result<Option<T>, DataError>,
    sender: &SyncSender<Result<Option<T>, DataError>>,
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Relaxed) {
        let item = produce();
        let last = !matches!(item, Ok(Some(_)));
        // A closed channel means that the consumer is gone.
        if sender.send(item).is_err() || last {
            return;
        }
    }
}

impl<T> Drop for Prefetch<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.receiver = None;
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, was told as `Lost`.
            let _ = thread.join();
        }
    }
}
