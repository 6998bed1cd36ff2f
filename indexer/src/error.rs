//! Errors of building, inspecting and verifying an index. Each message names the fix.

use std::path::PathBuf;

use dyad_files::space::ByteSize;
use dyad_index::ModelRecord;
use dyad_index::TextLanguage;

/// Failure to build, inspect or verify an index. The index on disk is unchanged whenever one is returned.
/// Causes are in `source()` and not in the text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A build parameter outside of its limits.
    #[error("`{name}` must be between {low} and {high}: {got}")]
    Parameter {
        /// The parameter's name on the command line.
        name: &'static str,
        /// Smallest value taken.
        low: usize,
        /// Largest value taken.
        high: usize,
        /// The value given.
        got: usize,
    },
    /// Other jobs published again and again while this one was about to.
    #[error("other jobs keep changing the index; it is unchanged by this one. Run it again when they have ended")]
    Contended,
    /// An encoder service of another model than the index's.
    #[error(
        "the questions would be embedded by another model than the documents, `{model}`: expected fingerprint {expected}, got {got}. Name the encoder or the model that the index was built with"
    )]
    ModelOfQuestions {
        /// The index's model.
        model: String,
        /// Its fingerprint.
        expected: String,
        /// The service's.
        got: String,
    },
    /// Other jobs brought documents back as often as they were purged.
    #[error("other jobs brought the documents back as often as they were purged. Run it again when they have ended")]
    PurgeUndone,
    /// Without its deleted documents, a shard is searched worse than the index must be.
    #[error(
        "shard {shard}: without the deleted documents recall@10 is {recall:.4} at ef {ef}, below the {target} that the index must keep (`build --min-recall`). Nothing was published. Run `dyad-indexer merge --all`, then try again"
    )]
    BelowKept {
        /// Name of the shard.
        shard: String,
        /// Measured.
        recall: f64,
        /// Wanted.
        target: f64,
        /// Beam width.
        ef: usize,
    },
    /// A file of vectors that cannot be used.
    #[error("`{}`, {part}: expected {expected}, got {got}. {hint}", path.display())]
    Vectors {
        /// The file.
        path: PathBuf,
        /// Header field or row.
        part: String,
        /// Wanted.
        expected: String,
        /// Found.
        got: String,
        /// What to do.
        hint: &'static str,
    },
    /// Documents to append are in the index.
    #[error("{total} documents are in the index already, such as `{}`. Nothing was published. Replace them with `upsert`, or leave them as they are with `append --skip-existing`", first.join("`, `"))]
    KeysExist {
        /// How many.
        total: u64,
        /// The first of their keys.
        first: Vec<String>,
    },
    /// A document that is to be replaced is one that does not exist for who replaces it.
    #[error("this API key may not replace the document `{}`; nothing was changed. Use another key for yours", key.escape_debug())]
    DocumentOfAnother {
        /// Its key.
        key: String,
    },
    /// Documents are not as the caller expects them.
    #[error("documents that are not as `expected` says: {total}, such as `{}`; nothing was changed. Read them before another attempt", first.join("`, `"))]
    NotAsExpected {
        /// How many.
        total: usize,
        /// The first of their keys.
        first: Vec<String>,
    },
    /// The job was cancelled from outside.
    #[error("cancelled; the index is unchanged")]
    Cancelled,
    /// More vectors than one shard can hold.
    #[error("a shard holds at most {limit} vectors, got {got}. Make more shards: `dyad-indexer build --shards N`")]
    TooManyVectors {
        /// Vectors that one shard can hold.
        limit: usize,
        /// Vectors given.
        got: usize,
    },
    /// A graph of no vectors.
    #[error("there are no vectors to build a graph of")]
    NoVectors,
    /// A vector that cannot be indexed.
    #[error(transparent)]
    Row(#[from] crate::row_error::RowError),
    /// Worker threads could not be started.
    #[error("cannot start {threads} threads")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// Why.
        source: rayon::ThreadPoolBuildError,
    },
    /// The operating system refused; its message names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// From the corpus, or from an embeddings directory.
    #[error(transparent)]
    Corpus(#[from] dyad_corpus::Error),
    /// The disk has less free space than the build needs.
    #[error(transparent)]
    Space(#[from] dyad_files::space::SpaceError),
    /// The build directory is locked by another process.
    #[error(transparent)]
    Lock(#[from] dyad_files::LockError),
    /// The encoder service cannot be used.
    #[error(transparent)]
    Service(#[from] dyad_proto::client::ClientError),
    /// The encoder service failed during the build.
    #[error("documents `{first}` to `{last}` could not be embedded; the index is unchanged")]
    Encoder {
        /// First document of the batch.
        first: String,
        /// Last document of the batch.
        last: String,
        /// Why; it names the service.
        source: dyad_proto::client::ClientError,
    },
    /// The encoder service has another model than when the build began.
    #[error(
        "`{url}` changed its model during the build: expected fingerprint {expected}, got {got}. Build again with one model"
    )]
    ModelChanged {
        /// The service.
        url: String,
        /// At the beginning.
        expected: String,
        /// Now.
        got: String,
    },
    /// Vectors of another model than the index's.
    #[error(
        "generation {generation} of `{}` is of model `{}` (fingerprint {}, {}, {}), and these vectors are of `{}` \
         (fingerprint {}, {}, {}): a searcher that serves the one cannot serve the other. Use vectors of the index's model, build into \
         another directory, or give this index the new model: `dyad-indexer reembed` from its own texts, or `dyad-indexer build --new-model` from a corpus",
        index.display(), expected.name, expected.fingerprint, expected.values(), expected.metric,
        got.name, got.fingerprint, got.values(), got.metric
    )]
    OtherModel {
        /// The index's directory.
        index: PathBuf,
        /// Its current generation.
        generation: u64,
        /// The model of that.
        expected: Box<ModelRecord>,
        /// The model of the vectors.
        got: Box<ModelRecord>,
    },
    /// Vectors that the index has already.
    #[error(
        "generation {generation} of the index has the vectors of this model already: `{model}`, fingerprint {fingerprint}. Name the encoder service of another model"
    )]
    SameModel {
        /// The current generation.
        generation: u64,
        /// Name of the model.
        model: String,
        /// Its fingerprint.
        fingerprint: String,
    },
    /// Vectors of the wrong tower.
    #[error(
        "embeddings in `{}`: expected tower `{expected}`, got `{got}`. Embed the corpus with `dyad-encoder embed --tower {expected}`",
        dir.display()
    )]
    Tower {
        /// The embeddings directory.
        dir: PathBuf,
        /// The tower of documents.
        expected: &'static str,
        /// The tower found.
        got: String,
    },
    /// A build without documents.
    #[error(
        "there is no document to index ({read} records were read, and skipped): the index is unchanged. `--allow-empty` publishes one without documents"
    )]
    NoDocuments {
        /// Records that were skipped.
        read: u64,
    },
    /// A document and a vector with different keys at one row.
    #[error(
        "embeddings in `{}` do not match the corpus at row {row}: expected key `{expected}` (corpus line {line}), \
         got `{got}`. Embed this corpus again",
        dir.display()
    )]
    KeysOutOfStep {
        /// The embeddings directory.
        dir: PathBuf,
        /// Row, from 1.
        row: u64,
        /// Line of the corpus, from 1.
        line: u64,
        /// Key of the document.
        expected: String,
        /// Key of the vector.
        got: String,
    },
    /// The keys match, the texts do not.
    #[error(
        "embeddings in `{}`, {part}: the texts of the corpus have changed since they were embedded, up to document `{last}`. \
         Run `dyad-encoder embed` again: it embeds what has changed", dir.display()
    )]
    StaleEmbeddings {
        /// The embeddings directory.
        dir: PathBuf,
        /// File of the part.
        part: String,
        /// The part's last document.
        last: String,
    },
    /// Fewer vectors than documents.
    #[error("embeddings in `{}` end before row {row}, document `{key}`. Embed this corpus again", dir.display())]
    RowsMissing {
        /// The embeddings directory.
        dir: PathBuf,
        /// Row, from 1.
        row: u64,
        /// The first document without a vector.
        key: String,
    },
    /// More vectors than documents.
    #[error("embeddings in `{}` continue beyond the corpus: row {row}, key `{key}`. Embed this corpus again", dir.display())]
    RowsLeft {
        /// The embeddings directory.
        dir: PathBuf,
        /// Row, from 1.
        row: u64,
        /// Key of the first vector without a document.
        key: String,
    },
    /// A builder that does not support the metric.
    #[error(
        "builder `{builder}` supports cosine only. Use `build --builder native` for inner products and euclidean distances"
    )]
    BuilderMetric {
        /// Its name.
        builder: &'static str,
    },
    /// Questions by which recall cannot be measured.
    #[error("questions in `{}`, {part}: expected {expected}, got {got}. {fix}", path.display())]
    Questions {
        /// File or directory.
        path: PathBuf,
        /// What is wrong.
        part: String,
        /// What is needed.
        expected: String,
        /// What was found.
        got: String,
        /// What to do.
        fix: &'static str,
    },
    /// A recall target out of range.
    #[error("`min-recall` must be above 0 and at most 1: {got}")]
    TargetValue {
        /// The value given.
        got: f64,
    },
    /// A graph below its recall target.
    #[error(
        "shard {shard}: recall@10 is {recall:.4} at ef {ef}, below the target of {target}; the index is unchanged. Raise \
         `build --ef-construction` or `build --m`, or lower `build --min-recall`: an index that is changed keeps what it was built with"
    )]
    BelowTarget {
        /// Number of the shard and of all shards.
        shard: String,
        /// Measured.
        recall: f64,
        /// Wanted.
        target: f64,
        /// Beam width.
        ef: usize,
    },
    /// A graph with unreachable nodes after the repair: a bug.
    #[error(
        "{unreachable} of {vectors} vectors cannot be reached after the repair; the index is unchanged. Report this as a bug"
    )]
    Unreachable {
        /// Nodes not reached.
        unreachable: u64,
        /// All nodes.
        vectors: u64,
    },
    /// A change that panicked in a service, which goes on.
    #[error(
        "the change failed because of a bug in dyad-indexer; its standard error says where. Check the current generation before you send it again"
    )]
    Panicked,
    /// A directory that is not an index.
    #[error("`{}` contains `{found}`: it is not an index. Name another directory with `--index`", dir.display())]
    NotAnIndex {
        /// The directory.
        dir: PathBuf,
        /// What is in it.
        found: &'static str,
    },
    /// A directory in that of an index.
    #[error("`{}` is inside the index `{}`. Name a directory beside it with `--index`", dir.display(), outer.display())]
    InsideIndex {
        /// The directory.
        dir: PathBuf,
        /// The index.
        outer: PathBuf,
    },
    /// Passages that cannot be read in their documents.
    #[error(transparent)]
    Context(#[from] crate::context_error::ContextError),
    /// Another language for some of an index's shards.
    #[error("BM25 analyses all texts of `{}` by one language, now `{language}`: another one needs `merge --all`", index.display())]
    LanguageOfSome {
        /// The index's directory.
        index: PathBuf,
        /// Its language.
        language: TextLanguage,
    },
    /// A text that the model does not read whole: the document, and the longest input in tokens.
    #[error(
        "document `{0}` has more than the {1} tokens that the model reads. Let such documents be truncated or split (`--on-long truncate`, `--on-long split`), or all be split (`--split WORDS`)"
    )]
    LongText(String, usize),
    /// A passage of a long document with the key of another document: that key.
    #[error("key `{0}` is that of a document and of a passage that `--on-long split` makes. Rename the document")]
    PassageKey(String),
    /// Nothing says which texts are long, of the model of this name.
    #[error(
        "the encoder service of `{0}` does not say which texts it truncates, which `--on-long error` and `--on-long split` need. Use one of this release"
    )]
    LengthsUnknown(String),
    /// More memory is needed than is allowed.
    #[error("`--memory`: {documents} documents need at least {} however many shards there are, got {}. Give more, or build parts of the corpus and add them with `append`", ByteSize(*needed), ByteSize(*given))]
    Memory {
        /// Allowed.
        given: u64,
        /// Needed.
        needed: u64,
        /// Documents.
        documents: u64,
    },
    /// A corpus whose size is not known.
    #[error("`--memory` needs a corpus that can be counted before it is read, got standard input. Write it to a file")]
    MemoryOfStream,
    /// An input of a job that cannot be read or embedded.
    #[error("input `{name}` of {url}, from byte {first}")]
    Input {
        /// The place of inputs.
        url: String,
        /// The input.
        name: String,
        /// Where the slice begins.
        first: u64,
        /// Why.
        source: Box<Error>,
    },
    /// Of a bulk job.
    #[error(transparent)]
    Job(#[from] crate::job_error::BulkJobError),
    /// From an object store.
    #[error(transparent)]
    Store(Box<dyad_store::Error>),
    /// From the index format.
    #[error(transparent)]
    Index(#[from] dyad_index::Error),
}

impl From<dyad_store::Error> for Error {
    fn from(error: dyad_store::Error) -> Self {
        match error {
            dyad_store::Error::Interrupted => Self::Cancelled,
            error => Self::Store(Box::new(error)),
        }
    }
}
