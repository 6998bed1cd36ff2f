//! Errors of the searcher.

use std::path::PathBuf;
use std::time::Duration;

use dyad_index::ModelRecord;
use tonic::Code;

use crate::memory::DoesNotFit;

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// A searcher that cannot start, or a request that cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The index cannot be opened or read.
    #[error(transparent)]
    Index(#[from] dyad_index::Error),
    /// The question tower is not of the model that made the index.
    #[error(
        "the question tower does not match the index: the index was built with `{}` (fingerprint {}, {}), the tower is \
         `{}` (fingerprint {}, {} values). Start with the model of the index, make a generation of this model current \
         (`dyad-indexer rollback`), or embed the corpus again with this one",
        index.name, index.fingerprint, index.values(), tower.name, tower.fingerprint, tower.dim
    )]
    Model {
        /// The index's model.
        index: Box<ModelRecord>,
        /// The tower's model.
        tower: Box<ModelRecord>,
    },
    /// None of several question towers is of the model that made the index.
    #[error(
        "no question tower matches the index: the index was built with `{}` (fingerprint {}, {}), the towers are {towers}. Give the tower \
         of that model too, or `--question-tower none` for indexes that are asked with vectors or by BM25 alone",
        index.name, index.fingerprint, index.values()
    )]
    NoModel {
        /// The index's model.
        index: Box<ModelRecord>,
        /// The towers' models.
        towers: String,
    },
    /// Two question towers are of one model.
    #[error("two question towers are of the model `{}` (fingerprint {}). Give one of them", .0.name, .0.fingerprint)]
    SameModel(Box<ModelRecord>),
    /// One of several indexes cannot be opened.
    #[error("index `{name}`: {error}")]
    OfIndex {
        /// Its name.
        name: String,
        /// Why.
        error: Box<Self>,
    },
    /// An index cannot be fetched from its store.
    #[error("index `{name}`: {error}")]
    Store {
        /// Its name.
        name: String,
        /// Why.
        error: Box<dyad_store::Error>,
    },
    /// A store has not answered, or an index is still being fetched.
    #[error("index `{name}`: {reason}")]
    StoreLate {
        /// Its name.
        name: String,
        /// What was waited for.
        reason: String,
    },
    /// Two indexes have one name.
    #[error("two indexes are named `{name}`: `{}` and `{}`. Name one of them otherwise: `--index NAME=DIR`", one.display(), other.display())]
    SameName {
        /// The name.
        name: String,
        /// Directory of one.
        one: PathBuf,
        /// Directory of the other.
        other: PathBuf,
    },
    /// The process cannot open as many files, or map as many, as the indexes have.
    #[error("{error}. {limits}. Raise what is too low for {indexes} indexes, or serve fewer in one process")]
    Shortage {
        /// What could not be opened.
        error: Box<dyad_index::Error>,
        /// Indexes to be opened.
        indexes: usize,
        /// The limits.
        limits: String,
    },
    /// An index would need more memory than there is.
    #[error(transparent)]
    DoesNotFit(#[from] Box<DoesNotFit>),
    /// No index has the name that a request gives.
    #[error("`{at}index`: there is no index named `{name}`. There are {known}")]
    NoSuchIndex {
        /// Path of the request in its call.
        at: String,
        /// As asked for.
        name: String,
        /// Some of those that there are.
        known: String,
    },
    /// The request names no index, and none is the default.
    #[error("`{at}index`: expected the name of an index, because none of several is the default. There are {known}")]
    NoDefault {
        /// Path of the request in its call.
        at: String,
        /// Some of those that there are.
        known: String,
    },
    /// Not the URL of leaves.
    #[error("--leaves `{url}`: {reason}. Expected http://HOST:PORT or https://HOST:PORT")]
    LeafUrl {
        /// As given.
        url: String,
        /// Why not.
        reason: String,
    },
    /// This leaf does not hold what a root asks for: another one may.
    #[error("index `{index}`: generation {generation}{} is not held here", of_shard(*.shard))]
    NotHeld {
        /// The name of the index.
        index: String,
        /// The generation that was asked for.
        generation: u64,
        /// The number of the shard, where the generation is held without it.
        shard: Option<u32>,
    },
    /// A root asks this leaf for a document that its shard does not have.
    #[error("shard {shard}: `node`: expected less than {documents}, got {node}")]
    NoNode {
        /// The number of the shard.
        shard: u32,
        /// The node.
        node: u32,
        /// The documents of the shard.
        documents: usize,
    },
    /// No leaf that answers holds some shards of a generation.
    #[error("index `{index}`: no leaf answers for shards {shards} of generation {generation}{}", after(.reason.as_deref()))]
    NoLeaves {
        /// The name of the index.
        index: String,
        /// The generation.
        generation: u64,
        /// The shards.
        shards: ShardNumbers,
        /// What a leaf that was asked has said.
        reason: Option<String>,
    },
    /// Fewer leaves hold some shards of a generation than are to hold them before it is served.
    #[error(
        "index `{index}`: generation {generation} is not served yet: fewer than {wanted} leaves (`--replicas`) hold its shards {shards}"
    )]
    FewLeaves {
        /// The name of the index.
        index: String,
        /// The generation.
        generation: u64,
        /// The shards.
        shards: ShardNumbers,
        /// How many leaves are to hold each.
        wanted: usize,
    },
    /// A leaf has answered something that cannot be an answer, or refuses what is asked.
    #[error("leaf `{leaf}`: {reason}")]
    Leaf {
        /// Its name.
        leaf: String,
        /// What it says, or what is wrong with that.
        reason: String,
    },
    /// A leaf has too much to do, and so have the others that hold its shards, or too many calls were made twice.
    #[error("leaf `{leaf}`: {reason}")]
    LeafBusy {
        /// Its name.
        leaf: String,
        /// What it says.
        reason: String,
        /// When another try may succeed, where the leaf says so.
        retry_after: Option<Duration>,
    },
    /// Something that is not answered where leaves hold the shards.
    #[error(
        "`{0}` is not available where the shards of the index are held by leaves. Ask a searcher that serves the whole index"
    )]
    NotOnLeaves(&'static str),
    /// The question tower cannot be opened, or failed.
    #[error("question tower: {reason}")]
    Tower {
        /// Why.
        reason: String,
        /// Another try may succeed.
        transient: bool,
    },
    /// The question tower is too busy to answer within the deadline.
    #[error("question tower: {reason}")]
    TowerBusy {
        /// The tower's message.
        reason: String,
        /// When another try may succeed, where the tower says so.
        retry_after: Option<Duration>,
    },
    /// The question tower is an encoder service that has not answered for a while: no question is sent to it.
    #[error(
        "question tower: its last calls were not answered in time, so none is made. It is probed again in {next:.1?}"
    )]
    TowerSilent {
        /// Until the next probe.
        next: Duration,
    },
    /// The index cannot be read, for a caller who is not told more.
    #[error("the index cannot be read")]
    Unreadable(Code),
    /// There is no question tower, and a question without a vector.
    #[error(
        "there is no question tower of the index's model, so no text is embedded. Send `vector`, ask in MODE_BM25, or start the searcher with \
         `--question-tower`"
    )]
    NoTower,
    /// The cross encoder cannot be opened, or failed.
    #[error("cross encoder: {reason}")]
    Reranker {
        /// Why.
        reason: String,
        /// Another try may succeed.
        transient: bool,
    },
    /// A request for hits that a cross encoder has scored, and there is none.
    #[error("`rerank_depth`: this searcher has no cross encoder. Leave it 0, or start the searcher with `--reranker`")]
    NoReranker,
    /// The index is not of the model that the request names.
    #[error(
        "`{at}fingerprint`: the index was made by `{}` (fingerprint {}), the request is for a model with fingerprint {got}. Embed the \
         question with the index's model, or use an index of that one",
        index.name, index.fingerprint
    )]
    OtherModel {
        /// The index's model.
        index: Box<ModelRecord>,
        /// Path of the request in its call.
        at: String,
        /// Fingerprint of the request.
        got: String,
    },
    /// A request for a fusion that needs the logit scale of the index's model.
    #[error(
        "`{at}fusion`: the index does not know the logit scale of its model, which FUSION_LOG_ODDS needs. Ask for another, or build the index again from a corpus that this release has embedded"
    )]
    NoLogitScale {
        /// Path of the request in its call.
        at: String,
    },
    /// A weight of a cross encoder's scores next to scores of another unit.
    #[error(
        "`{at}rerank_weight`: expected 1 or none in an index whose rankings are fused by {fusion}: a logit is added to scores of FUSION_LOG_ODDS, which alone are in its unit. \
         Ask for that fusion, or leave the weight out"
    )]
    RerankWeight {
        /// Path of the request in its call.
        at: String,
        /// What is fused by.
        fusion: &'static str,
    },
    /// The question's vector is not as long as the index's.
    #[error("`{at}vector`: expected {expected} values, as the vectors of the index have, got {got}")]
    Dimension {
        /// Path of the request in its call.
        at: String,
        /// Values of the index's vectors, and of its model's own.
        expected: String,
        /// Values of the request's.
        got: usize,
    },
    /// Of the question's vector, nothing is left where the index keeps its first values.
    #[error("`{at}vector`: expected a direction in the first {kept} values, which the index keeps, got zeros alone")]
    NoDirection {
        /// Path of the request in its call.
        at: String,
        /// Values that the index keeps.
        kept: usize,
    },
    /// The time for the question tower is over.
    #[error("question tower: no vector within {0:.1?}")]
    TowerLate(Duration),
    /// Too many requests of a class in flight.
    #[error(
        "all {limit} places for {class} are taken, of {all} for all requests. Try again later, or raise `--max-requests`"
    )]
    Busy {
        /// What the places are for.
        class: &'static str,
        /// Number of these places.
        limit: usize,
        /// Places for all requests.
        all: usize,
    },
    /// The queue is longer than the request's deadline.
    #[error(
        "the queue holds about {wait:.1?} of work, and the request's deadline is in {time:.1?}. Try again later, set a longer deadline, or use another searcher"
    )]
    Overloaded {
        /// Expected time until an answer.
        wait: Duration,
        /// The request's time.
        time: Duration,
    },
    /// The documents of one reply are too many bytes.
    #[error(
        "the documents of the reply are more than {limit} bytes. Set `keys_only` or a smaller k, or fetch fewer keys"
    )]
    LargeReply {
        /// The limit.
        limit: usize,
    },
    /// The documents of all replies that are being sent are too many bytes.
    #[error(
        "replies of {limit} bytes are being sent, which is the most this searcher holds in memory. Try again later, or set `keys_only`"
    )]
    FullReplies {
        /// The limit.
        limit: usize,
    },
    /// Threads cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(String),
    /// A verification could not be run.
    #[error("the index was not verified: {0}")]
    NotVerified(String),
    /// A verification is already running.
    #[error("a verification is already running. Wait until it has ended")]
    Verifying,
    /// The time for the request is over.
    #[error("the deadline of {0:?} passed before the answer was complete")]
    Deadline(Duration),
    /// The document to explain is not in the index.
    #[error("no document with the key `{0}`")]
    NoDocument(String),
    /// A search ended without an answer, because its thread panicked.
    #[error("internal error: a search failed. See the log of the searcher")]
    Internal,
}

/// Numbers of shards, of which some are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardNumbers(pub Vec<u32>);

impl std::fmt::Display for ShardNumbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const TOLD: usize = 10;
        let told: Vec<String> = self.0.iter().take(TOLD).map(u32::to_string).collect();
        f.write_str(&told.join(", "))?;
        match self.0.len().checked_sub(TOLD) {
            Some(others) if others > 0 => write!(f, " and {others} others"),
            _ => Ok(()),
        }
    }
}

fn of_shard(shard: Option<u32>) -> String {
    shard.map_or_else(String::new, |shard| format!(", shard {shard},"))
}

fn after(reason: Option<&str>) -> String {
    reason.map_or_else(String::new, |reason| format!(": {reason}"))
}
