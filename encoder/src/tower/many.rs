//! Any number of texts: batches of like length, one after another, or on the CPU side by side.
//!
//! Operators that share the cores wait for each other at every end of every operator, and hand each other's results through
//! the cache. Where there are batches enough, each core therefore takes whole batches: a *lane* is a thread with one operator
//! thread and its own reference to the network. Measured with all-MiniLM-L6-v2 on two cores, 160 passages of 256 tokens: two
//! processes of one thread embed 8 to 11 % more than one of two (`dyad-encoder embed --threads`).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use super::Tower;
use super::network::{Network, VectorLength};
use crate::device::Compute;
use crate::error::Error;
use crate::tokenize::{Batch, Budget, Tokens, plan};

/// Batches per lane from which lanes pay: with fewer, a lane stands still while another one finishes.
const BATCHES_OF_A_LANE: usize = 2;

/// How many texts are embedded.
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
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (next, stop) = (&next, &stop);
    let finished = std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(lanes);
        for _ in 0..lanes {
            let (sender, network) = (sender.clone(), network.clone());
            let lane = move || {
                tch::set_num_threads(1);
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= batches || sender.send((number, one(&network, number))).is_err() {
                        break;
                    }
                }
            };
            let spawned = std::thread::Builder::new().name("dyad-lane".into()).spawn_scoped(scope, lane);
            if let Err(source) = spawned {
                stop.store(true, Ordering::Relaxed);
                return Err(Error::Thread { name: "dyad-lane", source });
            }
        }
        drop(sender);
        // Ends with the last lane.
        for (number, rows) in receiver {
            let go_on = rows.map(|rows| done(number, &rows));
            if !matches!(go_on, Ok(true)) {
                stop.store(true, Ordering::Relaxed);
                return go_on;
            }
        }
        Ok(true)
    });
    // libtorch also keeps the last number that any thread has set, for threads to come.
    Compute { threads: Some(lanes), ..Compute::default() }.prepare()?;
    finished
}
