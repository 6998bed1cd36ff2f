//! Faults of one line of a file, or of an embeddings directory.

use std::path::PathBuf;

/// What is wrong with one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CorpusProblem {
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
    /// A file that is one document, and larger than any could be.
    #[error("the file is larger than {limit} bytes. Divide it into several files")]
    FileTooLarge {
        /// The largest file that is read, unpacked.
        limit: usize,
    },
    /// A file whose name cannot be the key of its document.
    #[error("the name of the file is not UTF-8, and would be the key of its document. Rename the file")]
    NameNotUtf8,
    /// Broken JSON.
    #[error("not a JSON object: {message}")]
    Json {
        /// The parser's message, with the column.
        message: String,
    },
    /// A JSON array where a record belongs.
    #[error(
        "a JSON array: expected one JSON object per line. `jq -c '.[]' FILE` writes the elements of an array one per line"
    )]
    JsonArray,
    /// A required field is null.
    #[error("field `{field}` is null. Give it a value, or remove the record")]
    NullField {
        /// The field.
        field: String,
    },
    /// A required field is missing.
    #[error("a field is missing: expected {expected}")]
    MissingField {
        /// The accepted names.
        expected: String,
    },
    /// A field holds another type of value.
    #[error("field `{field}` has the wrong type: expected {expected}, got {got}")]
    FieldType {
        /// The field.
        field: String,
        /// The accepted types.
        expected: &'static str,
        /// The type that was found.
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
    /// A fault that an option may mend.
    #[error("{problem}. {advice}")]
    Advised {
        /// What is wrong.
        problem: Box<CorpusProblem>,
        /// The option, and when it helps.
        advice: String,
    },
    /// A header line that does not name a column that is needed.
    #[error("the header line has no such column: expected {expected}, got {got}. {fix}")]
    NoColumn {
        /// The accepted names.
        expected: String,
        /// The names that are there.
        got: String,
        /// What to do.
        fix: String,
    },
    /// A header line that names a column twice.
    #[error("the header line has the column `{column}` twice: expected one, got several. Rename or remove the others")]
    ColumnTwice {
        /// Its name.
        column: String,
    },
    /// A value that is not UTF-8.
    #[error("{column} is not valid UTF-8 at byte {offset} of its value. Convert the file to UTF-8")]
    ColumnNotUtf8 {
        /// The column, by name or number.
        column: String,
        /// Offset in the value, from 0.
        offset: usize,
    },
    /// A quote that has a beginning only.
    #[error(
        "a double quote opens a field and is never closed. Close it, and write a double quote in a field as two of them"
    )]
    OpenQuote,
    /// A record that is longer than anything that could be accepted; nothing of it was kept.
    #[error(
        "the record is longer than {limit} bytes. If it is one document, split it into passages; otherwise close the double quote that opens a field on this line"
    )]
    RecordTooLong {
        /// Longest record that is read.
        limit: usize,
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
    /// A key that could not be named in a file of keys, which has one in a line.
    #[error("the key has a line break or a zero byte, which no file of keys could name. Use keys without them")]
    KeyUnnameable,
    /// Metadata that would be read with every hit.
    #[error(
        "the metadata of document `{key}` are too large: {bytes} bytes as compact JSON, limit {limit}. Keep large values elsewhere"
    )]
    MetadataTooLarge {
        /// Of the document.
        key: String,
        /// As compact JSON.
        bytes: usize,
        /// The limit, [`crate::MAX_METADATA_BYTES`].
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
    /// The key was seen in another file.
    #[error("key `{key}` was already used in `{}`, line {line}. Keys must be unique; remove one of the two", file.display())]
    DuplicateKeyIn {
        /// The key.
        key: String,
        /// The file that had it first.
        file: PathBuf,
        /// The line that had it first.
        line: u64,
    },
    /// A passage that is not where it says.
    #[error("the passage has no place in a document: expected {expected}, got {got}")]
    Place {
        /// What would be one.
        expected: String,
        /// What was there.
        got: String,
    },
    /// A field of the metadata that passages have of their own.
    #[error(
        "metadata field `{field}` is where a passage keeps its document: rename it, or read the corpus without `--split`"
    )]
    Reserved {
        /// The field.
        field: &'static str,
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
    /// A record that does not match its format.
    #[error("not a record of this format: {message}")]
    Record {
        /// What the parser said.
        message: String,
    },
    /// A malformed JSON array.
    #[error("not an array of records: expected {expected}, got {got}. Fetch or write the file again")]
    NotAnArray {
        /// What was expected.
        expected: &'static str,
        /// What was found.
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
        problem: Box<CorpusProblem>,
    },
    /// A judged question that the question set lacks.
    #[error("the question is judged but has no text. Complete queries.jsonl, or ask for such questions to be skipped")]
    UnknownQuestion,
    /// A judged document that the corpus lacks.
    #[error("document `{key}` is not in the corpus. Complete the corpus, or ask for such questions to be skipped")]
    UnknownDocument {
        /// Its key.
        key: String,
    },
    /// An answer that is not in its paragraph.
    #[error("answer `{text}` is not in its paragraph. Correct the record, or ask for such records to be skipped")]
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

/// What is wrong with an embeddings directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddingsProblem {
    /// No record in the directory.
    #[error("there is no `embeddings.json`. Make the set with `dyad-encoder embed --out DIR`")]
    Absent,
    /// The record cannot be understood.
    #[error("`embeddings.json` is damaged: {0}. Remove the directory and embed again")]
    Record(String),
    /// Written by a later release.
    #[error("`embeddings.json` has format version {got}, and this build reads up to {supported}. Upgrade dyad")]
    Newer {
        /// Its version.
        got: u32,
        /// The newest readable version.
        supported: u32,
    },
    /// Made with other parameters than those of the job that would resume it.
    #[error(
        "it was made with another {what}: expected {expected}, got {got}. Choose another `--out`, or remove the directory"
    )]
    Different {
        /// What differs.
        what: &'static str,
        /// The requested value.
        expected: String,
        /// What the directory has.
        got: String,
    },
    /// The job has not finished.
    #[error("the set is not complete: {rows} rows so far. Run the same `dyad-encoder embed` again to resume it")]
    Incomplete {
        /// Rows in whole parts.
        rows: u64,
    },
    /// A part's file does not match the record.
    #[error("`{file}`, {part}: expected {expected}, got {got}. Remove the directory and embed again")]
    Damaged {
        /// The file.
        file: String,
        /// Which property.
        part: &'static str,
        /// As recorded.
        expected: String,
        /// As found.
        got: String,
    },
    /// A vector cannot be used.
    #[error("row {row} (key `{key}`) {what}")]
    Vector {
        /// Row of the whole set, from 1.
        row: u64,
        /// Document key.
        key: String,
        /// What is wrong.
        what: String,
    },
    /// Another process is writing.
    #[error("another process is writing to it. Wait until it ends, or choose another `--out`")]
    Locked,
}
