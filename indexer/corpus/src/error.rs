//! What can be wrong with a corpus, a question set, judgements, a run or an embeddings directory.
use std::io;
use std::path::PathBuf;

use crate::embeddings::EmbeddingsProblem;
use crate::read::Told;
use crate::room::Bytes;

/// A refusal. Each names the file, what was expected, what was there, and the fix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system said no; its message names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes of a file stopped making sense, or could not be read.
    #[error("cannot read `{}` after line {line}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The last line that was read whole.
        line: u64,
        /// What the decompressor or the operating system said.
        reason: io::Error,
    },
    /// A compressed file ends in the middle of its stream.
    #[error(
        "`{}` is cut short: its {compression} stream ends in the middle, after line {line}. Fetch the file or compress it again",
        path.display()
    )]
    CutShort {
        /// The file.
        path: PathBuf,
        /// The last line that was read whole.
        line: u64,
        /// `gzip` or `zstd`.
        compression: &'static str,
    },
    /// One line of a text file is not what it has to be.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        problem: Problem,
    },
    /// More records are flawed than may be skipped.
    #[error("{}", Told { path, total: *total, allowed: *allowed, first, end: end.as_deref() })]
    Flaws {
        /// The corpus.
        path: PathBuf,
        /// How many.
        total: u64,
        /// How many may be skipped; `None` where no option says so.
        allowed: Option<u64>,
        /// The first of them, each an [`Error::Line`].
        first: Vec<Error>,
        /// What ended the reading before the end of the corpus.
        end: Option<Box<Error>>,
    },
    /// Nothing is there.
    #[error("no file or directory `{}`", path.display())]
    NotFound {
        /// The path that was given.
        path: PathBuf,
    },
    /// One question of a BEIR folder cannot be learned from.
    #[error("`{}`, split `{split}`, question `{key}`: {problem}", folder.display())]
    Question {
        /// The BEIR folder.
        folder: PathBuf,
        /// Whose judgements were read.
        split: String,
        /// Key of the question.
        key: String,
        /// What is wrong.
        problem: Box<Problem>,
    },
    /// Examples that name their passages by key, without the passages.
    #[error("`{}` names its passages by key. Name the corpus that holds them beside it", path.display())]
    NoCorpus {
        /// The file of examples.
        path: PathBuf,
    },
    /// Something new would replace something old.
    #[error("`{}` is there already. Name a new folder, or move the old one away", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// Neither the options nor the file's name say what is in it.
    #[error(
        "cannot tell the format of `{}`: expected a BEIR folder, or a name ending in .jsonl, .ndjson, .json, .tsv or .txt \
         (with .gz or .zst after it where compressed). Name it with `--format`, as in `--format tsv`, or rename the file",
        path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// A file that must hold at least one record holds none.
    #[error("`{}` holds no {expected}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What it should hold, in the plural.
        expected: &'static str,
    },
    /// A BEIR folder was expected where nothing is.
    #[error("no BEIR folder at `{}`: expected corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv", path.display())]
    NoBeirFolder {
        /// The path that was given.
        path: PathBuf,
    },
    /// A folder was expected.
    #[error("`{}` is not a folder: expected a BEIR folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv", path.display())]
    NotAFolder {
        /// The path that was given.
        path: PathBuf,
    },
    /// A BEIR folder lacks one of its files.
    #[error("`{}` has no {name}: expected {name}, {name}.gz or {name}.zst", folder.display())]
    MissingFile {
        /// The BEIR folder.
        folder: PathBuf,
        /// The file's plain name.
        name: String,
    },
    /// A BEIR folder has no judgements under this name.
    #[error("`{}` has no split `{split}`. The splits there: {}", folder.display(), listed(found))]
    MissingSplit {
        /// The BEIR folder.
        folder: PathBuf,
        /// The split asked for.
        split: String,
        /// The splits that exist.
        found: Vec<String>,
    },
    /// An identifier cannot stand in a whitespace-separated TREC run.
    #[error(
        "{what} `{key}` cannot be written to a TREC run: it is empty or contains whitespace. Use keys without whitespace"
    )]
    RunKey {
        /// `query` or `document`.
        what: &'static str,
        /// The identifier.
        key: String,
    },
    /// A score is not a number that can be ranked.
    #[error("the score of document `{key}` for query `{query}` is not finite: {score}")]
    RunScore {
        /// The query.
        query: String,
        /// The document.
        key: String,
        /// The score.
        score: f32,
    },
    /// A disk with less room than the work will take.
    #[error(
        "`{}` needs about {} of disk, and {} are free. Make room, name a directory on another disk, or begin all the same \
         with `--skip-space-check`",
        dir.display(), Bytes(*needed), Bytes(*free)
    )]
    NoRoom {
        /// Where it is to be written.
        dir: PathBuf,
        /// Bytes that will be written.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// An embeddings directory is not what it has to be.
    #[error("embeddings in `{}`: {problem}", dir.display())]
    Embeddings {
        /// The directory.
        dir: PathBuf,
        /// What is wrong.
        problem: EmbeddingsProblem,
    },
}

/// What is wrong with one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Bytes that are not UTF-8.
    #[error("not valid UTF-8 at byte {offset} of the line. Convert the file to UTF-8")]
    NotUtf8 {
        /// Offset in the line, from 0.
        offset: usize,
    },
    /// The line is longer than anything that could be accepted; it was not read to its end.
    #[error("the line is longer than {limit} bytes. Split the document into passages")]
    LineTooLong {
        /// Longest line that is read.
        limit: usize,
    },
    /// Broken JSON.
    #[error("not a JSON object: {message}")]
    Json {
        /// What the parser said, with the column.
        message: String,
    },
    /// A JSON array where a record belongs.
    #[error(
        "a JSON array: expected one JSON object per line. `jq -c '.[]' FILE` writes the elements of an array one per line"
    )]
    JsonArray,
    /// A field that must hold something is null.
    #[error("field `{field}` is null. Give it a value, or remove the record")]
    NullField {
        /// The field.
        field: String,
    },
    /// A field that must be there is not.
    #[error("a field is missing: expected {expected}")]
    MissingField {
        /// The names that would do.
        expected: String,
    },
    /// A field holds another type of value.
    #[error("field `{field}` has the wrong type: expected {expected}, got {got}")]
    FieldType {
        /// The field.
        field: String,
        /// The type that would do.
        expected: &'static str,
        /// The type that was there.
        got: &'static str,
    },
    /// Another number of columns.
    #[error("wrong number of columns: expected {expected}, got {got}")]
    Columns {
        /// The columns, spelled out.
        expected: String,
        /// How many there were.
        got: usize,
    },
    /// A column that must hold a number does not.
    #[error("column `{column}` is not {expected}: {got}")]
    Number {
        /// The column.
        column: &'static str,
        /// `an integer` or `a finite number`.
        expected: &'static str,
        /// What was there.
        got: String,
    },
    /// A key that is empty or only whitespace.
    #[error("the key is empty. Give every record a key of its own")]
    EmptyKey,
    /// A key that no index could store.
    #[error("the key is too long: {bytes} bytes, limit {limit}. Use shorter keys")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The limit, [`crate::MAX_KEY_BYTES`].
        limit: usize,
    },
    /// The key was seen before.
    #[error("key `{key}` was already used on line {first_line}. Keys must be unique; remove one of the two")]
    DuplicateKey {
        /// The key.
        key: String,
        /// The line that had it first.
        first_line: u64,
    },
    /// Neither title nor text holds anything but whitespace.
    #[error("the text of key `{key}` is empty. Remove the record or give it a text")]
    EmptyText {
        /// The key.
        key: String,
    },
    /// The passage is longer than the limit.
    #[error("the text of key `{key}` is too long: {bytes} bytes, limit {limit}. Split it into passages")]
    TextTooLong {
        /// The key.
        key: String,
        /// Its length, title included.
        bytes: usize,
        /// The limit, from [`crate::ReadOptions::max_text_bytes`].
        limit: usize,
    },
    /// Two judgements of one pair disagree.
    #[error("query `{query}` and document `{key}` were already judged {first}, now {second}. Remove one of the two")]
    JudgedTwice {
        /// The query.
        query: String,
        /// The document.
        key: String,
        /// The earlier judgement.
        first: i32,
        /// The later one.
        second: i32,
    },
    /// A record that has another shape than its format asks for.
    #[error("not a record of this format: {message}")]
    Record {
        /// What the parser said.
        message: String,
    },
    /// A JSON array that does not go on as one.
    #[error("not an array of records: expected {expected}, got {got}. Fetch or write the file again")]
    NotAnArray {
        /// What may stand there.
        expected: &'static str,
        /// What does.
        got: String,
    },
    /// The question holds nothing but whitespace.
    #[error("the question is empty. Give the record a question, or ask for such records to be skipped")]
    EmptyQuestion,
    /// Nothing answers the question.
    #[error("the record has no positive passage. Give it one, or ask for such records to be skipped")]
    NoPositives,
    /// Neither title nor text of a passage holds anything but whitespace.
    #[error("{which} passage {number} is empty. Give it a text, or ask for such records to be skipped")]
    EmptyPassage {
        /// `positive` or `negative`.
        which: &'static str,
        /// Counted from 1.
        number: usize,
    },
    /// Scores and passages differ in number.
    #[error("field `{field}` must hold one score per passage: expected {expected}, got {got}")]
    ScoreCount {
        /// The field.
        field: &'static str,
        /// Passages.
        expected: usize,
        /// Scores.
        got: usize,
    },
    /// What is wrong with one question of a record that holds many.
    #[error("question `{key}`: {problem}")]
    InQuestion {
        /// Its key.
        key: String,
        /// What is wrong.
        problem: Box<Problem>,
    },
    /// A judged question that the question set lacks.
    #[error("the question is judged and has no text. Complete queries.jsonl, or ask for such questions to be skipped")]
    UnknownQuestion,
    /// A judged document that the corpus lacks.
    #[error("document `{key}` is not in the corpus. Complete the corpus, or ask for such questions to be skipped")]
    UnknownDocument {
        /// Its key.
        key: String,
    },
    /// An answer that its paragraph does not hold.
    #[error(
        "answer `{text}` does not stand in its paragraph. Correct the record, or ask for such records to be skipped"
    )]
    UnknownSpan {
        /// The answer.
        text: String,
    },
    /// One query returns one document twice.
    #[error("query `{query}` already has document `{key}`. A run holds each document once per query")]
    ReturnedTwice {
        /// The query.
        query: String,
        /// The document.
        key: String,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
