//! Roots and leaves in virtual time: leaves fail, hang, are late, answer another generation, leave and come back, while
//! generations change; thousands of seeds, each of which repeats exactly.
//!
//! What is simulated are the leaves and the network; routing, hedging, failover and partial answers are the code of the
//! root. No answer is of two generations, lacks a shard that it does not name, has one twice, or comes after its
//! deadline.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dyad_index::Certificate;
use dyad_proto::client::{ClientError, LeafClient};
use dyad_proto::v1;
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::{Code, Status};

use super::call::LeafRequest;
use super::connection::{LeafAddress, LeafConnection};
use super::draws::Draws;
use super::follow::Leaves;
use super::held::{LeafGeneration, LeafShard, LeafState};
use super::lost::LeafFailure;
use super::partial::PartialAnswers;

const SEEDS: u64 = 2000;
const QUESTIONS: usize = 30;
const SHARDS: u32 = 6;
const DEADLINE: Duration = Duration::from_millis(400);
/// How long a leaf that hangs is believed in.
const SILENCE: Duration = Duration::from_millis(150);

/// What a leaf does with calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conduct {
    Answers,
    /// After so many milliseconds.
    Late(u64),
    Hangs,
    Fails,
    /// It has too much to do.
    IsBusy,
    /// It says that it does not hold what it has reported.
    HasLost,
    /// With another generation than it is asked for.
    AnswersAnother,
}

/// What the simulated leaves do, by URL.
#[derive(Debug, Default)]
struct World {
    conduct: Mutex<BTreeMap<String, Conduct>>,
    /// Calls, in order.
    trace: Mutex<Vec<String>>,
    draws: Option<Draws>,
}

/// A question to simulated leaves.
struct SimulatedRequest {
    world: Arc<World>,
    generation: v1::GenerationName,
}

/// A leaf's part: of which shards, and of which generation.
struct SimulatedReply {
    shards: Vec<u32>,
    generation: v1::GenerationName,
}

impl LeafRequest for SimulatedRequest {
    type Reply = SimulatedReply;

    async fn send(&self, client: &LeafClient, shards: Vec<u32>, time: Duration) -> Result<Self::Reply, ClientError> {
        let url = client.url().to_owned();
        let conduct = self.world.conduct.lock().unwrap().get(&url).copied().unwrap();
        let network = self.world.draws.as_ref().unwrap().below(4) as u64;
        self.world
            .trace
            .lock()
            .unwrap()
            .push(format!("{url} {shards:?} {conduct:?} {network}"));
        let refused = |status: Status| Err(ClientError::from_status(&url, 1, &status));
        let takes = match conduct {
            Conduct::Late(millis) => Duration::from_millis(millis),
            Conduct::Hangs => Duration::from_hours(1),
            _ => Duration::from_millis(1 + network),
        };
        if tokio::time::timeout(time, tokio::time::sleep(takes)).await.is_err() {
            return refused(Status::new(Code::DeadlineExceeded, "late"));
        }
        let mut generation = self.generation.clone();
        match conduct {
            Conduct::IsBusy => return refused(Status::resource_exhausted("it is busy")),
            Conduct::Fails => return refused(Status::unavailable("it fails")),
            Conduct::HasLost => return refused(Status::not_found("it has lost them")),
            Conduct::AnswersAnother => generation.generation += 1,
            Conduct::Answers | Conduct::Late(_) | Conduct::Hangs => {}
        }
        Ok(SimulatedReply { shards, generation })
    }

    fn generation(reply: &Self::Reply) -> Option<&v1::GenerationName> {
        Some(&reply.generation)
    }
}

fn name(generation: u64) -> v1::GenerationName {
    v1::GenerationName {
        index: "index".to_owned(),
        generation,
        pointer: format!("manifest {generation}"),
    }
}

fn url(number: usize) -> LeafAddress {
    LeafAddress {
        scheme: "http".to_owned(),
        host: "leaf".to_owned(),
        address: ([127, 0, 0, 1], 1000 + number as u16).into(),
    }
}

/// One run: leaves, what they hold, and what happens to them.
struct Simulation {
    world: Arc<World>,
    changed: Arc<Notify>,
    leaves: Arc<Leaves>,
    connections: Vec<Arc<LeafConnection>>,
    replicas: usize,
    draws: Draws,
    /// The newest generation; the one before is held, too.
    generation: u64,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let draws = Draws::new(seed);
        let (count, changed) = (2 + draws.below(4), Arc::new(Notify::new()));
        let connection = |number: usize| {
            let address = url(number);
            let client = LeafClient::unconnected(&address.url()).unwrap();
            LeafConnection::of_test(address, client)
        };
        let connections: Vec<Arc<LeafConnection>> = (0..count).map(connection).collect();
        let world = World {
            conduct: Mutex::new(
                connections
                    .iter()
                    .map(|leaf| (leaf.address().url(), Conduct::Answers))
                    .collect(),
            ),
            draws: Some(Draws::new(draws.next())),
            ..World::default()
        };
        let leaves = Leaves::of_test(connections.clone(), Arc::clone(&changed), draws.next());
        let simulation = Self {
            world: Arc::new(world),
            changed,
            leaves: Arc::new(leaves),
            connections,
            replicas: 1 + draws.below(2),
            draws,
            generation: 1,
        };
        for number in 0..count {
            simulation.report(number, false);
        }
        simulation
    }

    /// What a leaf says: the shards that are placed on it, of this generation and the one before.
    fn report(&self, number: usize, is_leaving: bool) {
        let Some(leaf) = self.connections.get(number) else {
            return;
        };
        let count = self.connections.len();
        let holds = |shard: &u32| (0..self.replicas).any(|replica| (*shard as usize + replica) % count == number);
        let shard = LeafShard {
            documents: 10,
            certificate: Certificate::default(),
            damage: String::new(),
        };
        let held = |generation: u64| {
            let shards = (0..SHARDS).filter(holds).map(|number| (number, shard.clone()));
            Arc::new(LeafGeneration {
                name: name(generation),
                shards: shards.collect(),
                has_documents: false,
            })
        };
        let state = LeafState {
            name: format!("leaf-{number}"),
            is_leaving,
            generations: [self.generation - 1, self.generation].map(held).into_iter().collect(),
            refused: Vec::new(),
        };
        leaf.say(Some(state), &self.changed);
    }

    /// Something happens to a leaf, or there is a new generation.
    fn happen(&mut self) {
        let number = self.draws.below(self.connections.len());
        let address = url(number).url();
        let set = |conduct| {
            self.world.conduct.lock().unwrap().insert(address.clone(), conduct);
        };
        match self.draws.below(11) {
            0 => set(Conduct::Hangs),
            1 => set(Conduct::Fails),
            2 => set(Conduct::HasLost),
            3 => set(Conduct::AnswersAnother),
            7 => set(Conduct::IsBusy),
            4 => set(Conduct::Late(20 + self.draws.below(500) as u64)),
            5 => self.report(number, true),
            6 => {
                self.generation += 1;
                for number in 0..self.connections.len() {
                    self.report(number, false);
                }
            }
            // It is back, or well as before.
            _ => {
                set(Conduct::Answers);
                self.report(number, false);
            }
        }
    }

    /// Leaves that hang report nothing, and are not believed in after a while.
    async fn silence(connections: Vec<Arc<LeafConnection>>, world: Arc<World>, changed: Arc<Notify>) {
        loop {
            tokio::time::sleep(SILENCE).await;
            for leaf in &connections {
                if world.conduct.lock().unwrap().get(&leaf.address().url()) == Some(&Conduct::Hangs) {
                    leaf.say(None, &changed);
                }
            }
        }
    }

    /// Asks, and checks the answer; returns what it was.
    async fn ask(&self, generation: u64, is_partial: bool) -> String {
        let request = SimulatedRequest {
            world: Arc::clone(&self.world),
            generation: name(generation),
        };
        let (began, all) = (Instant::now(), (0..SHARDS).collect::<Vec<u32>>());
        let until = began + DEADLINE;
        let told = if is_partial {
            let enough = |shards: &[u32]| shards.len() * 2 >= SHARDS as usize;
            match self
                .leaves
                .ask_some(&request.generation, &all, until, &request, enough)
                .await
            {
                Ok(PartialAnswers { answers, missing }) => {
                    let answered = shards_once(&answers, generation);
                    let named: BTreeSet<u32> = missing.iter().flat_map(|missing| missing.shards.clone()).collect();
                    assert!(answered.is_disjoint(&named), "{answered:?} {named:?}");
                    assert_eq!(
                        answered.union(&named).copied().collect::<Vec<_>>(),
                        all,
                        "each is answered or named"
                    );
                    format!("{answered:?} of all")
                }
                Err(failure) => format!("{failure:?}"),
            }
        } else {
            match self.leaves.ask(&request.generation, &all, until, &request).await {
                Ok(answers) => {
                    assert_eq!(shards_once(&answers, generation).into_iter().collect::<Vec<_>>(), all);
                    "all".to_owned()
                }
                Err(LeafFailure::Missing { shards, error }) => {
                    assert!(!shards.is_empty());
                    format!("{shards:?} are missing: {error:?}")
                }
                Err(failure) => format!("{failure:?}"),
            }
        };
        let took = began.elapsed();
        assert!(took <= DEADLINE + Duration::from_millis(2), "{took:?}: {told}");
        format!("{told} after {took:?}")
    }
}

/// The shards of answers, each of which is there once, and of this generation.
fn shards_once(answers: &[SimulatedReply], generation: u64) -> BTreeSet<u32> {
    let mut once = BTreeSet::new();
    for answer in answers {
        assert_eq!(answer.generation, name(generation));
        for shard in &answer.shards {
            assert!(once.insert(*shard), "shard {shard} twice");
        }
    }
    once
}

/// Time passes where nothing else happens.
fn virtual_time() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap()
}

/// What has happened, call for call and answer for answer.
fn run(seed: u64) -> (Vec<String>, Vec<String>) {
    virtual_time().block_on(async {
        let mut simulation = Simulation::new(seed);
        let told = Rc::new(RefCell::new(Vec::new()));
        let world = Arc::clone(&simulation.world);
        let silence = tokio::spawn(Simulation::silence(
            simulation.connections.clone(),
            Arc::clone(&world),
            Arc::clone(&simulation.changed),
        ));
        for _ in 0..QUESTIONS {
            if simulation.draws.below(3) == 0 {
                simulation.happen();
            }
            let is_of_last = simulation.draws.below(4) == 0;
            let generation = simulation.generation - u64::from(is_of_last);
            let is_partial = simulation.draws.below(3) == 0;
            let answer = simulation.ask(generation, is_partial).await;
            told.borrow_mut().push(answer);
            tokio::time::sleep(Duration::from_millis(simulation.draws.below(40) as u64)).await;
        }
        silence.abort();
        let trace = world.trace.lock().unwrap().clone();
        (told.take(), trace)
    })
}

#[test]
fn no_seed_loses_a_shard_or_mixes_generations_or_is_late() {
    let (mut answered, mut failed, mut calls) = (0, 0, 0);
    for seed in 0..SEEDS {
        let (told, trace) = run(seed);
        answered += told.iter().filter(|one| one.starts_with("all")).count();
        failed += told
            .iter()
            .filter(|one| one.contains("missing") || one.starts_with("Late"))
            .count();
        calls += trace.len();
    }
    // The simulation is of failures, and most questions are answered in spite of them.
    assert!(failed > 1000, "{failed}");
    assert!(answered > 10_000, "{answered} {failed}");
    assert!(calls > answered, "{calls}");
}

#[test]
fn a_seed_repeats_exactly() {
    for seed in 0..100 {
        assert_eq!(run(seed), run(seed), "{seed}");
    }
    assert_ne!(run(1), run(2));
}

/// The first simulation of three leaves of which two hold each shard.
fn three_leaves() -> Simulation {
    let is_it = |one: &Simulation| (one.connections.len(), one.replicas) == (3, 2);
    (0..SEEDS).map(Simulation::new).find(is_it).unwrap()
}

#[test]
fn shards_that_others_hold_are_not_lost_with_those_that_none_does() {
    virtual_time().block_on(async {
        for _ in 0..20 {
            let simulation = three_leaves();
            for number in [0, 1] {
                let mut conduct = simulation.world.conduct.lock().unwrap();
                conduct.insert(url(number).url(), Conduct::Fails);
            }
            // The two leaves alone hold 0 and 3.
            let told = simulation.ask(1, true).await;
            assert!(told.starts_with("{1, 2, 4, 5} of all"), "{told}");
        }
    });
}

#[test]
fn leaves_that_all_have_too_much_to_do_are_not_asked_again_and_again() {
    virtual_time().block_on(async {
        let simulation = three_leaves();
        for conduct in simulation.world.conduct.lock().unwrap().values_mut() {
            *conduct = Conduct::IsBusy;
        }
        for _ in 0..300 {
            let told = simulation.ask(1, false).await;
            assert!(told.starts_with("Busy"), "{told}");
        }
        let calls = simulation.world.trace.lock().unwrap().len();
        assert!((300..=300 * 3 * 3 / 2).contains(&calls), "{calls}");
    });
}
