//! The addresses of leaves, looked up again and again, and a connection to each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use dyad_proto::client::{ClientConfig, check_url};
use dyad_proto::v1;
use tokio::sync::Notify;
use tonic::codegen::http::Uri;

use super::connection::{LeafAddress, LeafConnection};
use super::draws::Draws;
use super::hedges::Hedges;
use super::held::{GenerationShards, LeafShard, LeafState, TooFewHolders, damage_of};
use super::patience::HolderPatience;
use crate::error::{Error, Result, ShardNumbers};

/// Between two look-ups of the addresses.
const LOOK_UP: Duration = Duration::from_secs(5);
/// Longest look-up of a name.
const LOOK_UP_TIME: Duration = Duration::from_secs(3);

/// A name of which every address is a leaf's.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LeafName {
    scheme: String,
    host: String,
    port: u16,
}

impl LeafName {
    fn new(url: &str) -> Result<Self> {
        let unusable = |reason: String| Error::LeafUrl {
            url: url.to_owned(),
            reason,
        };
        check_url(url).map_err(|error| unusable(error.to_string()))?;
        let uri: Uri = url.parse().map_err(|_| unusable("it is no URL".to_owned()))?;
        let port = uri.port_u16().ok_or_else(|| unusable("it has no port".to_owned()))?;
        Ok(Self {
            scheme: uri.scheme_str().unwrap_or("http").to_owned(),
            host: uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned(),
            port,
        })
    }

    /// All addresses; none where the name cannot be looked up now.
    async fn look_up(&self) -> Option<BTreeSet<LeafAddress>> {
        let found = tokio::time::timeout(LOOK_UP_TIME, tokio::net::lookup_host((self.host.as_str(), self.port)));
        let found = match found.await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::warn!(host = self.host, %error, "the leaves of a name cannot be looked up: those that were found before stay");
                return None;
            }
            Err(_) => {
                tracing::warn!(
                    host = self.host,
                    "the leaves of a name are not looked up in time: those that were found before stay"
                );
                return None;
            }
        };
        let address = |address| LeafAddress {
            scheme: self.scheme.clone(),
            host: self.host.clone(),
            address,
        };
        Some(found.map(address).collect())
    }
}

/// The leaves of a root.
#[derive(Debug)]
pub struct Leaves {
    names: Vec<LeafName>,
    config: ClientConfig,
    connections: ArcSwap<Vec<Arc<LeafConnection>>>,
    changed: Arc<Notify>,
    hedges: Hedges,
    busy_retries: Hedges,
    draws: Draws,
    /// Leaves that have to hold each shard of a generation before it is served.
    replicas: usize,
    patience: HolderPatience,
}

impl Leaves {
    /// The leaves at these URLs, `http://HOST:PORT` or `https://HOST:PORT`, each of which may have several addresses.
    /// They are connected to from [`Self::look_up`] on.
    pub fn new(urls: &[String], replicas: usize, config: ClientConfig) -> Result<Self> {
        let names = urls.iter().map(|url| LeafName::new(url)).collect::<Result<_>>()?;
        Ok(Self {
            names,
            config,
            connections: ArcSwap::default(),
            changed: Arc::default(),
            hedges: Hedges::default(),
            busy_retries: Hedges::default(),
            draws: Draws::default(),
            replicas: replicas.max(1),
            patience: HolderPatience::default(),
        })
    }

    /// Looks up the addresses, and connects to those that are new; those that are gone are left.
    pub async fn look_up(&self) {
        let known = self.connections.load_full();
        let mut wanted = BTreeSet::new();
        for name in &self.names {
            let of_name = |connection: &&Arc<LeafConnection>| {
                let LeafAddress { scheme, host, address } = connection.address();
                (scheme, host, address.port()) == (&name.scheme, &name.host, name.port)
            };
            let before = || {
                known
                    .iter()
                    .filter(of_name)
                    .map(|connection| connection.address().clone())
                    .collect()
            };
            wanted.extend(name.look_up().await.unwrap_or_else(before));
        }
        let is_same = known.len() == wanted.len() && known.iter().all(|known| wanted.contains(known.address()));
        if is_same {
            return;
        }
        let connection = |address: LeafAddress| {
            let before = known.iter().find(|known| *known.address() == address).cloned();
            before.unwrap_or_else(|| {
                tracing::info!(leaf = address.url(), "a leaf is connected to");
                LeafConnection::start(address, self.config.clone(), Arc::clone(&self.changed))
            })
        };
        for left in known.iter().filter(|known| !wanted.contains(known.address())) {
            left.end();
        }
        self.connections
            .store(Arc::new(wanted.into_iter().map(connection).collect()));
        self.changed.notify_waiters();
    }

    /// Looks up the addresses again and again, until the future is dropped.
    pub async fn follow(&self) {
        loop {
            tokio::time::sleep(LOOK_UP).await;
            self.look_up().await;
        }
    }

    /// All leaves, whether they are there or not.
    pub(crate) fn connections(&self) -> Arc<Vec<Arc<LeafConnection>>> {
        self.connections.load_full()
    }

    /// Told when a leaf reports something else.
    pub(crate) fn changed(&self) -> &Arc<Notify> {
        &self.changed
    }

    /// How many calls may be made twice.
    pub(crate) fn hedges(&self) -> &Hedges {
        &self.hedges
    }

    /// How many calls that a busy leaf has refused may be made at another one.
    pub(crate) fn busy_retries(&self) -> &Hedges {
        &self.busy_retries
    }

    /// By which leaves are chosen.
    pub(crate) fn draws(&self) -> &Draws {
        &self.draws
    }

    /// How many leaves hold shards of a generation.
    pub(crate) fn count_holding(&self, generation: &v1::GenerationName) -> usize {
        let connections = self.connections();
        let states = connections.iter().filter_map(|leaf| leaf.state());
        states.filter(|state| state.generation(generation).is_some()).count()
    }

    /// All shards of a generation, where enough leaves hold each of them: `--replicas` of them, or one at least where
    /// others have been waited for long enough, or nobody waits any more.
    pub(crate) fn shards_of(
        &self,
        generation: &v1::GenerationName,
        count: usize,
        waits: bool,
    ) -> std::result::Result<GenerationShards, TooFewHolders> {
        let (mut shards, mut missing, mut few) = (Vec::with_capacity(count), Vec::new(), Vec::new());
        let states = self.states();
        for number in 0..count as u32 {
            let held: Vec<&LeafShard> = states
                .iter()
                .filter_map(|state| state.shards_of(generation)?.get(&number))
                .collect();
            match held.first() {
                Some(first) => shards.push((*first).clone()),
                None => missing.push(number),
            }
            if held.len() < self.replicas {
                few.push(number);
            }
        }
        if !missing.is_empty() {
            return Err(TooFewHolders::None(missing));
        }
        let index = generation.index.as_str();
        if few.is_empty() {
            self.patience.begin_anew(index);
        } else if self.patience.is_over(index) || !waits {
            let (generation, shards, replicas) = (generation.generation, ShardNumbers(few), self.replicas);
            tracing::warn!(index, generation, %shards, replicas, "serving a generation of which some shards have fewer holders than --replicas");
        } else {
            return Err(TooFewHolders::Few {
                shards: few,
                wanted: self.replicas,
            });
        }
        let has_documents =
            |state: &Arc<LeafState>| state.generation(generation).is_some_and(|held| held.has_documents);
        Ok(GenerationShards {
            name: generation.clone(),
            shards,
            damage: ArcSwap::from_pointee(damage_of(&states, generation)),
            has_documents: states.iter().any(has_documents),
        })
    }

    /// Takes over which shards are damaged, as leaves say now.
    pub(crate) fn see_damage(&self, of: &GenerationShards) {
        of.damage.store(Arc::new(damage_of(&self.states(), &of.name)));
    }

    /// What leaves say that do not leave, each leaf once: it may have several addresses.
    pub(super) fn states(&self) -> Vec<Arc<LeafState>> {
        let connections = self.connections();
        let states = connections.iter().filter_map(|connection| connection.state());
        let by_name: BTreeMap<String, Arc<LeafState>> = states
            .filter(|state| !state.is_leaving)
            .map(|state| (state.name.clone(), state))
            .collect();
        by_name.into_values().collect()
    }

    /// Waits until leaves report something else, at most for a time.
    pub(crate) async fn wait(&self, time: Duration) {
        // Elapsed, or told.
        _ = tokio::time::timeout(time, self.changed.notified()).await;
    }
}

#[cfg(test)]
impl Leaves {
    /// Leaves that a test describes; what is drawn is that of a seed.
    pub(super) fn of_test(connections: Vec<Arc<LeafConnection>>, changed: Arc<Notify>, seed: u64) -> Self {
        Self {
            names: Vec::new(),
            config: ClientConfig::default(),
            connections: ArcSwap::from_pointee(connections),
            changed,
            hedges: Hedges::default(),
            busy_retries: Hedges::default(),
            draws: Draws::new(seed),
            replicas: 1,
            patience: HolderPatience::default(),
        }
    }
}
