//! Any number of texts: batches of like length, one after another or in parallel; on a GPU two, so that one is laid out while the other one is computed.
//!
//! Operators that share the cores wait for each other at every end of every operator, and hand each other's results through
//! the cache. Where there are batches enough, each core therefore takes whole batches: a *worker* is a thread with one operator
//! thread and its own reference to the network. Measured with torch's products and all-MiniLM-L6-v2 on two cores, 160 passages of 256 tokens
//! (`dyad-encoder embed`): int8 14 % and bf16 8 % more tokens/s on an idle machine, f32 the same; where another process takes half of
//! the cores, f32 takes twice as long, and four to six times with operators of two threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use crate::config::Tower;
use crate::device::{OperatorThreads, set_operator_threads};
use crate::error::Error;
use crate::nn::{Exec, Network, VectorLength};
use crate::tokenize::{Batch, Budget, Tokens, plan};

/// Batches per worker from which workers pay: with fewer, one stands still while another one finishes.
const BATCHES_PER_WORKER: usize = 2;

/// How any number of texts is embedded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchEncoder {
    pub(crate) tower: Tower,
    /// Number of tokens of the prompt, which each text begins with.
    pub(crate) prompt_tokens: usize,
    pub(crate) length: VectorLength,
    pub(crate) budget: Budget,
    pub(crate) workers: usize,
}

impl BatchEncoder {
    /// Row-major vectors in the order of `texts`. `go_on` is asked after each batch with its number of tokens; `None` once it
    /// says no.
    pub(crate) fn embed(
        self,
        network: &Network,
        texts: &[Tokens],
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Option<Vec<f32>>, Error> {
        let dim = network.dim();
        let lengths: Vec<usize> = texts.iter().map(|text| text.ids.len()).collect();
        // On a GPU small batches at the end would cost more than a worker that waits.
        let shares = if network.device.is_cuda() { 1 } else { self.workers };
        let mut batches = plan(&lengths, self.budget, shares);
        let parallel = self.workers > 1 && batches.len() >= BATCHES_PER_WORKER * self.workers;
        if !parallel && self.workers > 1 {
            batches = plan(&lengths, self.budget, 1);
        }
        let mut vectors = vec![0.0; texts.len() * dim];
        let mut done = |number: usize, rows: &[f32]| {
            let positions = batches.get(number).map_or(&[][..], Vec::as_slice);
            for (&position, row) in positions.iter().zip(rows.chunks_exact(dim)) {
                if let Some(place) = vectors.get_mut(position * dim..(position + 1) * dim) {
                    place.copy_from_slice(row);
                }
            }
            go_on(positions.iter().filter_map(|&position| lengths.get(position)).sum())
        };
        let batch = |number: usize| {
            let positions = batches.get(number).map_or(&[][..], Vec::as_slice);
            let texts: Vec<&Tokens> = positions.iter().filter_map(|&position| texts.get(position)).collect();
            Batch::new(&texts, self.prompt_tokens)
        };
        let finished = if parallel {
            let one = |network: &Network, number: usize| {
                network.embed_by(Exec::ONE_THREAD, self.tower, &batch(number), self.length)
            };
            in_parallel(network, self.workers, batches.len(), &one, &mut done)?
        } else {
            let mut finished = true;
            for number in 0..batches.len() {
                finished = done(number, &network.embed(self.tower, &batch(number), self.length)?);
                if !finished {
                    break;
                }
            }
            finished
        };
        Ok(finished.then_some(vectors))
    }
}

/// Batches from 0 to `batches`, each by the next free worker; `done` hears of each on this thread, and false ends it.
fn in_parallel<F>(
    network: &Network,
    workers: usize,
    batches: usize,
    one: &F,
    done: &mut dyn FnMut(usize, &[f32]) -> bool,
) -> Result<bool, Error>
where
    F: Fn(&Network, usize) -> Result<Vec<f32>, Error> + Sync,
{
    // libtorch keeps the last number of operator threads that any thread has set, for threads to come.
    let _threads = OperatorThreads::kept();
    let next = &AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(workers);
        for number in 0..workers {
            let (sender, network) = (sender.clone(), network.clone());
            let work = move || {
                set_operator_threads(1);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    // Without a receiver no more are needed.
                    if number >= batches || sender.send((number, one(&network, number))).is_err() {
                        break;
                    }
                }
            };
            let spawned = std::thread::Builder::new().name("dyad-embed".into()).spawn_scoped(scope, work);
            match spawned {
                Ok(_) => {}
                Err(source) if number == 0 => return Err(Error::Thread { name: "dyad-embed", source }),
                Err(error) => {
                    tracing::warn!(workers = number, %error, "the system gives no more threads; going on with fewer");
                    break;
                }
            }
        }
        drop(sender);
        // Ends with the last worker, each of which ends with the batches.
        for (number, rows) in receiver {
            if !done(number, &rows?) {
                return Ok(false);
            }
        }
        Ok(true)
    })
}
