//! Any number of texts: batches of like length, one after another, or on the CPU side by side.
//!
//! Operators that share the cores wait for each other at every end of every operator, and hand each other's results through
//! the cache. Where there are batches enough, each core therefore takes whole batches: a *lane* is a thread with one operator
//! thread and its own reference to the network. Measured with torch's products and all-MiniLM-L6-v2 on two cores, 160 passages of 256 tokens
//! (`dyad-encoder embed`): int8 14 % and bf16 8 % more tokens/s on an idle machine, f32 the same; where another process takes half of
//! the cores, f32 takes twice as long, and four to six times with operators of two threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use super::Tower;
use super::network::{Network, VectorLength};
use crate::device::{OperatorThreads, set_operator_threads};
use crate::error::Error;
use crate::tokenize::{Batch, Budget, Tokens, plan};

/// Batches per lane from which lanes pay: with fewer, a lane stands still while another one finishes.
const BATCHES_OF_A_LANE: usize = 2;

/// How any number of texts is embedded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Many {
    pub(crate) tower: Tower,
    /// Of each text.
    pub(crate) prompt_tokens: usize,
    pub(crate) length: VectorLength,
    pub(crate) budget: Budget,
    pub(crate) lanes: usize,
}

impl Many {
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
        let mut batches = plan(&lengths, self.budget, self.lanes);
        let side_by_side = self.lanes > 1 && batches.len() >= BATCHES_OF_A_LANE * self.lanes;
        if !side_by_side && self.lanes > 1 {
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
        let one = |network: &Network, number: usize| {
            let positions = batches.get(number).map_or(&[][..], Vec::as_slice);
            let batch: Vec<&Tokens> = positions.iter().filter_map(|&position| texts.get(position)).collect();
            let batch = Batch::new(&batch, self.prompt_tokens);
            let rows = network.embed(self.tower, &batch, self.length)?;
            Ok(batch.in_order_of_texts(&rows, dim))
        };
        let finished = if side_by_side {
            in_lanes(network, self.lanes, batches.len(), &one, &mut done)?
        } else {
            let mut finished = true;
            for number in 0..batches.len() {
                finished = done(number, &one(network, number)?);
                if !finished {
                    break;
                }
            }
            finished
        };
        Ok(finished.then_some(vectors))
    }
}

/// Batches from 0 to `batches`, each by the next free lane; `done` hears of each on this thread, and false ends it.
fn in_lanes<F>(
    network: &Network,
    lanes: usize,
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
        let (sender, receiver) = sync_channel(lanes);
        for number in 0..lanes {
            let (sender, network) = (sender.clone(), network.clone());
            let lane = move || {
                set_operator_threads(1);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    // Without a receiver nobody wants more.
                    if number >= batches || sender.send((number, one(&network, number))).is_err() {
                        break;
                    }
                }
            };
            let spawned = std::thread::Builder::new().name("dyad-lane".into()).spawn_scoped(scope, lane);
            match spawned {
                Ok(_) => {}
                Err(source) if number == 0 => return Err(Error::Thread { name: "dyad-lane", source }),
                Err(error) => {
                    tracing::warn!(lanes = number, %error, "the system gives no more threads; going on with fewer");
                    break;
                }
            }
        }
        drop(sender);
        // Ends with the last lane, each of which ends with the batches.
        for (number, rows) in receiver {
            if !done(number, &rows?) {
                return Ok(false);
            }
        }
        Ok(true)
    })
}
