//! `dyad-indexer serve` killed at random moments while clients write and it merges and removes generations: what was
//! acknowledged is there, what was not is there as a whole or not at all, nothing that was deleted comes back, and a
//! call with a name that is sent again afterwards is made once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dyad_index::manifest;
use dyad_proto::client::{ChangeTerms, ClientConfig, ClientError, IndexClient};
use dyad_proto::v1;

use crate::command_line::dyad_indexer;
use crate::fixture::Fixture;
use crate::kill::{Texts, random, stored};
use crate::serve::{Serving, message, serve_with};

const CLIENTS: usize = 4;
/// Each client has as many keys of its own, of which it writes one at a time.
const KEYS: usize = 12;
/// Generations that are kept, and that may be there before some are removed.
const KEPT: usize = 2;
const MOST_GENERATIONS: usize = KEPT + 4;
/// Time for merges that have begun.
const PATIENCE: Duration = Duration::from_mins(1);

/// A write, under its name.
#[derive(Debug, Clone)]
struct NamedWrite {
    name: String,
    key: String,
    /// None of a deletion.
    text: Option<String>,
}

impl NamedWrite {
    async fn send(&self, client: &IndexClient) -> Result<(), ClientError> {
        let terms = ChangeTerms {
            request_key: &self.name,
            ..ChangeTerms::default()
        };
        match &self.text {
            Some(text) => client.upsert_on(&[with_text(&self.key, text)], terms).await?,
            None => client.delete_on(std::slice::from_ref(&self.key), terms).await?,
        };
        Ok(())
    }
}

fn with_text(key: &str, text: &str) -> v1::Document {
    v1::Document {
        key: key.to_owned(),
        text: text.to_owned(),
        ..message(0)
    }
}

/// The last write of a client that was not acknowledged.
type Unacknowledged = Option<NamedWrite>;

/// One client's own documents.
#[derive(Debug, Clone)]
struct OwnDocuments {
    number: usize,
    texts: Texts,
    random: u64,
    writes: usize,
    /// What was under way when the server was killed, where it has certainly been made.
    made: Option<NamedWrite>,
}

impl OwnDocuments {
    fn new(number: usize, seed: u64) -> Self {
        Self {
            number,
            texts: Texts::new(),
            random: seed * 1_000 + number as u64,
            writes: 0,
            made: None,
        }
    }

    /// Writes until a call fails, which was under way then.
    async fn write(mut self, client: IndexClient) -> (Self, Unacknowledged) {
        loop {
            let key = message(1_000 * (self.number + 1) + random(&mut self.random, KEYS as u64) as usize).key;
            self.writes += 1;
            let deletes = random(&mut self.random, 4) == 0;
            let name = format!("write {} of client {}", self.writes, self.number);
            let write = NamedWrite {
                text: (!deletes).then(|| name.clone()),
                name,
                key,
            };
            if write.send(&client).await.is_err() {
                return (self, Some(write));
            }
            self.wrote(&write);
        }
    }

    fn wrote(&mut self, write: &NamedWrite) {
        match write.text.clone() {
            Some(text) => self.texts.insert(write.key.clone(), text),
            None => self.texts.remove(&write.key),
        };
    }

    /// Sends the call again that was made when the server was killed, after somebody has undone what it did: it is not
    /// made a second time.
    async fn send_again(&mut self, client: &IndexClient) {
        let Some(write) = self.made.take() else { return };
        let undo = NamedWrite {
            name: String::new(),
            key: write.key.clone(),
            text: match write.text {
                Some(_) => None,
                None => Some("by somebody else".to_owned()),
            },
        };
        undo.send(client).await.unwrap();
        self.wrote(&undo);
        write.send(client).await.unwrap();
    }
}

/// All clients write until the server is killed, after a random time. Returns what each did not get acknowledged.
fn write_until_killed(serving: &mut Serving, clients: &mut [OwnDocuments], lives: Duration) -> Vec<Unacknowledged> {
    // A call that fails is not made again: it would wait for a server that is gone.
    let config = ClientConfig {
        attempts: 1,
        ..ClientConfig::default()
    };
    let connect = || IndexClient::connect(&serving.url, config.clone());
    let connections: Vec<IndexClient> = clients
        .iter()
        .map(|_| serving.runtime.block_on(connect()).unwrap())
        .collect();
    for (own, client) in clients.iter_mut().zip(&connections) {
        serving.runtime.block_on(own.send_again(client));
    }
    let writing: Vec<_> = clients
        .iter()
        .zip(connections)
        .map(|(own, client)| serving.runtime.spawn(own.clone().write(client)))
        .collect();
    std::thread::sleep(lives);
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    let mut pending = Vec::new();
    for (writing, own) in writing.into_iter().zip(clients) {
        let (after, unacknowledged) = serving.runtime.block_on(writing).unwrap();
        *own = after;
        pending.push(unacknowledged);
    }
    pending
}

/// Compares what is stored with what a client was told, and takes over what it was not told of.
fn check(own: &mut OwnDocuments, pending: &Unacknowledged, stored: &BTreeMap<String, String>, seed: u64) {
    let keys = (0..KEYS).map(|at| message(1_000 * (own.number + 1) + at).key);
    for key in keys {
        let found = stored.get(&key);
        let told = own.texts.get(&key);
        if let Some(pending) = pending.as_ref().filter(|pending| pending.key == key) {
            assert!(
                found == told || found == pending.text.as_ref(),
                "seed {seed}, `{key}`: {found:?}, {told:?} or {pending:?}"
            );
            own.made = (found != told).then(|| pending.clone());
            match found.cloned() {
                Some(found) => own.texts.insert(key, found),
                None => own.texts.remove(&key),
            };
        } else {
            assert_eq!(found, told, "seed {seed}, `{key}`");
        }
    }
}

/// Returns how many calls were made and not acknowledged, and are sent again.
fn killed_while_it_writes(seed: u64, kills: usize) -> usize {
    let fixture = Fixture::new(40);
    fixture.build().unwrap();
    let others = stored(&fixture);
    let index = fixture.index();
    let keep = KEPT.to_string();
    let options = ["--gather-ms", "1", "--keep", &keep];
    let mut clients: Vec<OwnDocuments> = (0..CLIENTS).map(|number| OwnDocuments::new(number, seed)).collect();
    let (mut state, mut sent_again) = (seed, 0);
    for _ in 0..kills {
        let mut serving = serve_with(index.to_str().unwrap(), &options);
        let lives = Duration::from_millis(100 + random(&mut state, 900));
        let pending = write_until_killed(&mut serving, &mut clients, lives);
        let found = stored(&fixture);
        for (own, pending) in clients.iter_mut().zip(pending) {
            check(own, &pending, &found, seed);
        }
        sent_again += clients.iter().filter(|own| own.made.is_some()).count();
        let is_own = |key: &String| clients.iter().any(|own| own.texts.contains_key(key));
        let left: Texts = found.into_iter().filter(|(key, _)| !is_own(key)).collect();
        assert_eq!(left, others, "seed {seed}: documents that nobody wrote");
    }
    assert!(clients.iter().map(|own| own.writes).sum::<usize>() > kills);
    let serving = serve_with(index.to_str().unwrap(), &options);
    let until = Instant::now() + PATIENCE;
    while manifest::generations(&index).unwrap().len() > MOST_GENERATIONS
        || manifest::current(&index).unwrap().shards.len() > 12
    {
        assert!(Instant::now() < until, "seed {seed}: the index stays large");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(serving);
    let collected = dyad_indexer()
        .args(["gc", "--keep", "1", "--index"])
        .arg(&index)
        .output()
        .unwrap();
    assert!(collected.status.success());
    let debt = dyad_indexer::inspect::inspect(&index).unwrap().debt;
    assert_eq!((debt.unnamed_bytes, fixture.building()), (Some(0), 0), "seed {seed}");
    sent_again
}

#[test]
fn a_killed_server_loses_nothing_that_it_acknowledged() {
    killed_while_it_writes(1, 4);
}

/// `cargo test --release -p dyad-indexer --test it -- --ignored twenty_seeds_of_killed_servers`
#[test]
#[ignore = "takes minutes"]
fn twenty_seeds_of_killed_servers() {
    let sent_again: usize = (100..120).map(|seed| killed_while_it_writes(seed, 12)).sum();
    assert!(sent_again > 0, "no call was made and not acknowledged");
}
