//! One batch on all free threads; and any number of texts: batches of like length, one after another or in parallel; on
//! a GPU two, so that one is laid out while the other one is computed.
//!
//! Operators that share the cores wait for each other at every end of every operator, and hand each other's results
//! through the cache. Where there are batches enough, each core therefore takes whole batches: a *worker* is a thread
//! with one operator thread and its own reference to the network. Measured with torch's products and all-MiniLM-L6-v2
//! on two cores, 160 passages of 256 tokens (`dyad-encoder embed`): int8 14 % and bf16 8 % more tokens/s on an idle
//! machine, f32 the same; where another process takes half of the cores, f32 takes twice as long, and four to six times
//! with operators of two threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::config::Tower;
use crate::device::{OperatorThreads, set_operator_threads};
use crate::error::Error;
use crate::nn::{Exec, Network, VectorLength};
use crate::tokenize::{Budget, TokenBatch, Tokens, plan};
use dyad_files::Cancel;

/// Batches per worker from which workers pay: with fewer, one stands still while another one finishes.
const BATCHES_PER_WORKER: usize = 2;

/// Tokens per thread from which threads take whole texts of a batch: with fewer, reading the weights costs each of them
/// more than its share of every product, and waiting for the others, does.
const TOKENS_PER_SHARE: usize = 32;

/// One batch on all free threads: whole texts for each where there are enough of them, else a share of every product.
/// Row-major vectors in the order of `texts`; `prompt_tokens` of each text belong to the prompt.
///
/// Measured with all-MiniLM-L6-v2 in int8 on two cores and questions of 20 tokens (`dyad-bench load`,
/// `load-scifact-int8.toml`): from 16 clients a tenth more answers than with shares of products, from 64 a twelfth.
pub(crate) fn embed_batch(
    network: &Network,
    tower: Tower,
    length: VectorLength,
    texts: &[&Tokens],
    prompt_tokens: usize,
) -> Result<Vec<f32>, Error> {
    let all = || network.embed(tower, &TokenBatch::new(texts, prompt_tokens), length);
    let Some(pool) = &network.pool else { return all() };
    let lengths: Vec<usize> = texts.iter().map(|text| text.ids.len()).collect();
    let Some(shares) = whole_texts(&lengths, pool.free_threads()) else {
        return all();
    };
    let mut work: Vec<_> = shares
        .iter()
        .map(|positions| (network.clone(), positions, Ok(Vec::new())))
        .collect();
    let one = |(network, positions, rows): &mut (Network, &Vec<usize>, Result<Vec<f32>, Error>)| {
        let texts: Vec<&Tokens> = positions
            .iter()
            .filter_map(|&position| texts.get(position).copied())
            .collect();
        *rows = network.embed_by(Exec::ONE_THREAD, tower, &TokenBatch::new(&texts, prompt_tokens), length);
    };
    pool.share_long(work.iter_mut(), one);
    let dim = network.routes[tower.index()].dim;
    let places = VectorPlaces::new(texts.iter().copied(), dim);
    let mut vectors = vec![0.0; places.values()];
    for (_, positions, rows) in work {
        places.copy(positions, &rows?, &mut vectors);
    }
    Ok(vectors)
}

/// Where the vectors of each text are among those of all: one, or as many as the text has spans.
#[derive(Debug)]
struct VectorPlaces {
    /// First value of each text, and the end.
    firsts: Vec<usize>,
}

impl VectorPlaces {
    fn new<'a>(texts: impl Iterator<Item = &'a Tokens>, dim: usize) -> Self {
        let mut firsts = vec![0];
        let mut next = 0;
        for text in texts {
            next += text.vectors() * dim;
            firsts.push(next);
        }
        Self { firsts }
    }

    /// Values of all vectors.
    fn values(&self) -> usize {
        self.firsts.last().copied().unwrap_or_default()
    }

    /// Puts the vectors of some texts, one after another, into their places.
    fn copy(&self, positions: &[usize], vectors: &[f32], all: &mut [f32]) {
        let mut left = vectors;
        for &position in positions {
            let (Some(&first), Some(&end)) = (self.firsts.get(position), self.firsts.get(position + 1)) else {
                return;
            };
            let (Some((own, others)), Some(place)) = (left.split_at_checked(end - first), all.get_mut(first..end))
            else {
                return;
            };
            place.copy_from_slice(own);
            left = others;
        }
    }
}

/// What makes rows of the texts of a service, on any number of threads at once, each with a runner of its own.
#[derive(Debug, Clone)]
pub(crate) struct BatchRunner {
    pub(super) network: Network,
    pub(super) length: VectorLength,
}

impl BatchRunner {
    /// Runners that may run at once: one for each two threads where kernels are ours, which help each other, else one,
    /// whose operators use all threads.
    ///
    /// Measured with all-MiniLM-L6-v2 in int8 and questions of 20 tokens: on eight threads 16 clients got 1,364 answers
    /// a second by one batch at a time on all of them, 2,571 by a runner on each; on two threads two runners make
    /// smaller batches, and a twentieth fewer answers than one.
    pub(crate) fn at_once(&self) -> usize {
        self.network.pool.as_ref().map_or(1, |pool| pool.threads().div_ceil(2))
    }

    /// Values of a row.
    pub(crate) fn dim(&self) -> usize {
        self.network.dim()
    }

    /// Embeds, or scores, tokenized texts as one batch: row-major, in their order. Each begins with as many tokens of
    /// its prompt.
    pub(crate) fn run(&self, tower: Tower, prompt_tokens: usize, texts: &[&Tokens]) -> Result<Vec<f32>, Error> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        embed_batch(&self.network, tower, self.length, texts, prompt_tokens)
    }
}

/// Positions of texts for each of the threads, so that all have nearly as much to do; none where that cannot be.
fn whole_texts(lengths: &[usize], threads: usize) -> Option<Vec<Vec<usize>>> {
    let all: usize = lengths.iter().sum();
    if threads < 2 || lengths.len() < threads || all < TOKENS_PER_SHARE * threads {
        return None;
    }
    // Longest first, each to the thread with the least (Graham 1969).
    let length = |position: usize| lengths.get(position).copied().unwrap_or(0);
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&position| (std::cmp::Reverse(length(position)), position));
    let mut shares = vec![(0, Vec::new()); threads];
    for position in order {
        if let Some((tokens, share)) = shares.iter_mut().min_by_key(|(tokens, _)| *tokens) {
            *tokens += length(position);
            share.push(position);
        }
    }
    let most = shares.iter().map(|(tokens, _)| *tokens).max().unwrap_or(0);
    (4 * most * threads <= 5 * all).then(|| shares.into_iter().map(|(_, share)| share).collect())
}

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
    /// Row-major vectors in the order of `texts`. After each batch `report` is called with its number of tokens, and
    /// cancellation is polled; `None` where it was cancelled.
    pub(crate) fn embed(
        self,
        network: &Network,
        texts: &[Tokens],
        cancel: &dyn Cancel,
        report: &mut dyn FnMut(usize),
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
        let places = VectorPlaces::new(texts.iter(), dim);
        let mut vectors = vec![0.0; places.values()];
        let mut done = |number: usize, rows: &[f32]| {
            let positions = batches.get(number).map_or(&[][..], Vec::as_slice);
            places.copy(positions, rows, &mut vectors);
            report(positions.iter().filter_map(|&position| lengths.get(position)).sum());
            !cancel.is_cancelled()
        };
        let texts_of = |number: usize| -> Vec<&Tokens> {
            let positions = batches.get(number).map_or(&[][..], Vec::as_slice);
            positions.iter().filter_map(|&position| texts.get(position)).collect()
        };
        let finished = if parallel {
            let one = |network: &Network, number: usize| {
                let batch = TokenBatch::new(&texts_of(number), self.prompt_tokens);
                network.embed_by(Exec::ONE_THREAD, self.tower, &batch, self.length)
            };
            in_parallel(network, self.workers, batches.len(), &one, &mut done)?
        } else {
            let mut finished = true;
            for number in 0..batches.len() {
                let texts = texts_of(number);
                finished = done(
                    number,
                    &embed_batch(network, self.tower, self.length, &texts, self.prompt_tokens)?,
                );
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
            let spawned = std::thread::Builder::new()
                .name("dyad-embed".into())
                .spawn_scoped(scope, move || {
                    set_operator_threads(1);
                    work_through(next, batches, &sender, |number| one(&network, number));
                });
            match spawned {
                Ok(_) => {}
                Err(source) if number == 0 => {
                    return Err(Error::Thread {
                        name: "dyad-embed",
                        source,
                    });
                }
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

/// Sends batches, each by its number, until there are no more.
fn work_through<T>(next: &AtomicUsize, batches: usize, sender: &SyncSender<(usize, T)>, one: impl Fn(usize) -> T) {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        // Without a receiver no more are needed.
        if number >= batches || sender.send((number, one(number))).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn threads_take_whole_texts_where_each_has_enough_to_do() {
        assert_eq!(whole_texts(&[40, 30, 20, 10], 2), Some(vec![vec![0, 3], vec![1, 2]]));
        for (lengths, threads, why) in [
            (&[40, 40][..], 1, "one thread"),
            (&[100], 2, "one text"),
            (&[20, 20], 2, "too few tokens"),
            (&[100, 20, 20], 2, "one text has most of it"),
        ] {
            assert_eq!(whole_texts(lengths, threads), None, "{why}");
        }
    }

    proptest! {
        #[test]
        fn every_text_is_in_one_share_and_shares_are_even(
            lengths in proptest::collection::vec(1usize..300, 0..60),
            threads in 1usize..9,
        ) {
            if let Some(shares) = whole_texts(&lengths, threads) {
                let mut all: Vec<usize> = shares.iter().flatten().copied().collect();
                all.sort_unstable();
                prop_assert_eq!(all, (0..lengths.len()).collect::<Vec<_>>());
                let tokens = |share: &Vec<usize>| share.iter().map(|position| lengths[*position]).sum::<usize>();
                let mean = lengths.iter().sum::<usize>() as f64 / threads as f64;
                prop_assert!(shares.iter().all(|share| tokens(share) as f64 <= 1.25 * mean + 1e-9));
                prop_assert_eq!(shares.len(), threads);
            }
        }
    }
}
