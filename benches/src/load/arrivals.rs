//! When requests are meant to be sent, and which: gaps between arrivals, and the mix of kinds and questions. Seeded.

use std::time::Duration;

use rand::SeedableRng as _;
use rand::distr::weighted::WeightedIndex;
use rand::seq::SliceRandom as _;
use rand_distr::{Distribution as _, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// How arrivals are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arrivals {
    /// Independent of each other: exponentially distributed gaps.
    #[default]
    Poisson,
    /// Equal gaps.
    Constant,
}

/// The times of arrivals, from the beginning of a pass; endless.
#[derive(Debug)]
pub(super) struct ArrivalTimes {
    arrivals: Arrivals,
    rate: f64,
    random: Xoshiro256PlusPlus,
    /// Seconds.
    now: f64,
}

impl ArrivalTimes {
    /// `rate` arrivals per second, above 0.
    pub(super) fn new(arrivals: Arrivals, rate: f64, seed: u64) -> Self {
        Self {
            arrivals,
            rate,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            now: 0.0,
        }
    }
}

impl Iterator for ArrivalTimes {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let gap: f64 = match self.arrivals {
            Arrivals::Poisson => Exp1.sample(&mut self.random),
            Arrivals::Constant => 1.0,
        };
        self.now += gap / self.rate;
        Duration::try_from_secs_f64(self.now).ok()
    }
}

/// A question in a kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AskedQuestion {
    pub(super) kind: usize,
    pub(super) question: usize,
}

/// What is asked, one after the other; endless. Kinds by their weights; each kind goes through all questions in an
/// order of its own before it repeats one.
#[derive(Debug)]
pub(super) struct RequestMix {
    random: Xoshiro256PlusPlus,
    kinds: Option<WeightedIndex<f64>>,
    /// The order of the questions in each kind, and the place in it.
    orders: Vec<(Vec<usize>, usize)>,
}

impl RequestMix {
    /// Weights are above 0, and there is at least one question.
    pub(super) fn new(weights: &[f64], questions: usize, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut order: Vec<usize> = (0..questions).collect();
        let shuffled = |_: &f64| {
            order.shuffle(&mut random);
            (order.clone(), 0)
        };
        let orders = weights.iter().map(shuffled).collect();
        Self {
            random,
            kinds: WeightedIndex::new(weights).ok(),
            orders,
        }
    }

    pub(super) fn next(&mut self) -> AskedQuestion {
        let kind = self.kinds.as_ref().map_or(0, |kinds| kinds.sample(&mut self.random));
        let Some((order, at)) = self.orders.get_mut(kind) else {
            return AskedQuestion { kind, question: 0 };
        };
        let question = order.get(*at).copied().unwrap_or(0);
        *at = (*at + 1) % order.len().max(1);
        AskedQuestion { kind, question }
    }
}
