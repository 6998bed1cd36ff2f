//! Writes one segment, in which document `i` is node `i` of the vectors: at once, or, within a limit of memory, in
//! parts that are merged in their order.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use dyad_files::sync_paths;
use tantivy::{Index, SingleSegmentIndexWriter, TantivyDocument};

use super::analyzer::{Analyzer, counting_analyzer};
use super::lengths::{LengthsWriter, TermCount};
use super::parts::merge;
use super::schema::{Fields, schema_by};
use super::unsynced::UnsyncedDirectory;
use super::words::LongWords;
use super::{facts, text_error};
use crate::error::Result;
use crate::language::TextLanguage;

/// Memory that the term dictionary starts with. Its table is filled and read as a whole, which is most of the work of
/// indexing a few documents where it is large, and doubles as terms come, which many documents do not notice.
const MEMORY_BUDGET: usize = 1 << 20;

/// A document to store and index.
#[derive(Debug, Clone, Copy)]
pub struct TextDocument<'a> {
    /// Unique key.
    pub key: &'a str,
    /// Title, may be empty.
    pub title: &'a str,
    /// Text.
    pub text: &'a str,
    /// One JSON object, or empty.
    pub metadata_json: &'a str,
}

/// Writes the text index of one shard.
pub struct TextWriter {
    writer: SingleSegmentIndexWriter,
    fields: Fields,
    /// The language by which the texts are analysed.
    language: TextLanguage,
    path: PathBuf,
    /// Bytes in memory from which a part is written, those of an empty one among them; none where all is one part.
    limit: Option<usize>,
    /// Parts that are complete.
    parts: usize,
    lengths: LengthsWriter,
    long: LongWords,
}

impl std::fmt::Debug for TextWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextWriter")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Where the parts of an index are before they are merged.
fn parts(dir: &Path) -> PathBuf {
    PathBuf::from(format!("{}.parts", dir.display()))
}

fn part(dir: &Path, number: usize) -> PathBuf {
    parts(dir).join(format!("{number:06}"))
}

/// A segment in a new directory, whose terms are counted.
fn begin(
    dir: &Path,
    language: TextLanguage,
    count: &TermCount,
    long: &LongWords,
) -> Result<(SingleSegmentIndexWriter, Fields)> {
    fs_err::create_dir_all(dir)?;
    let failed = text_error(dir);
    let directory = UnsyncedDirectory::open(dir).map_err(&failed)?;
    let (schema, fields) = schema_by(Analyzer::Of(language));
    let tokenizers = tantivy::tokenizer::TokenizerManager::default();
    tokenizers.register(
        language.analyzer(),
        counting_analyzer(language, count.clone(), long.clone()),
    );
    let writer = Index::builder()
        .schema(schema)
        .tokenizers(tokenizers)
        .single_segment_index_writer(directory, MEMORY_BUDGET)
        .map_err(&failed)?;
    Ok((writer, fields))
}

impl TextWriter {
    /// Starts an index in a new directory. All of its terms stay in memory until it is finished.
    pub fn create(dir: &Path, language: TextLanguage) -> Result<Self> {
        let (lengths, long) = (LengthsWriter::default(), LongWords::default());
        let (writer, fields) = begin(dir, language, &lengths.count, &long)?;
        Ok(Self {
            writer,
            fields,
            language,
            path: dir.to_owned(),
            limit: None,
            parts: 0,
            lengths,
            long,
        })
    }

    /// An index of texts that are stored and not searched.
    pub(super) fn create_stored(dir: &Path) -> Result<Self> {
        Self::create(dir, TextLanguage::default())
    }

    /// The same with terms written to the disk whenever they take `bytes` of memory more than none do, and merged in
    /// the end: what is read is the same.
    pub fn create_within(dir: &Path, language: TextLanguage, bytes: usize) -> Result<Self> {
        let (lengths, long) = (LengthsWriter::default(), LongWords::default());
        let (writer, fields) = begin(&part(dir, 0), language, &lengths.count, &long)?;
        let limit = writer.mem_usage().saturating_add(bytes);
        Ok(Self {
            writer,
            fields,
            language,
            path: dir.to_owned(),
            limit: Some(limit),
            parts: 0,
            lengths,
            long,
        })
    }

    /// Adds the next document: the first is node 0.
    pub fn add(&mut self, document: TextDocument<'_>) -> Result<()> {
        let mut fields = TantivyDocument::new();
        fields.add_text(self.fields.text, document.text);
        // Two values of one field, so that no word of the title merges with one of the text.
        fields.add_text(self.fields.body, document.title);
        fields.add_text(self.fields.body, document.text);
        self.add_fields(document, fields)
    }

    /// Adds a document of which only key, title and metadata are stored and filtered by; none of its words is searched.
    pub(super) fn add_without_text(&mut self, document: TextDocument<'_>) -> Result<()> {
        self.add_fields(document, TantivyDocument::new())
    }

    /// Adds a text that is stored and not searched, without any other field.
    pub(super) fn add_stored(&mut self, text: &str) -> Result<()> {
        let mut fields = TantivyDocument::new();
        fields.add_text(self.fields.text, text);
        self.add_document(fields)
    }

    fn add_fields(&mut self, document: TextDocument<'_>, mut fields: TantivyDocument) -> Result<()> {
        fields.add_text(self.fields.key, document.key);
        fields.add_text(self.fields.title, document.title);
        fields.add_text(self.fields.metadata, document.metadata_json);
        for fact in facts::terms(document.title, document.metadata_json) {
            fields.add_bytes(self.fields.facts, &fact);
        }
        self.add_document(fields)
    }

    fn add_document(&mut self, fields: TantivyDocument) -> Result<()> {
        self.writer.add_document(fields).map_err(text_error(&self.path))?;
        self.lengths.add();
        if self.limit.is_some_and(|limit| self.writer.mem_usage() >= limit) {
            self.parts += 1;
            let (next, _) = begin(
                &part(&self.path, self.parts),
                self.language,
                &self.lengths.count,
                &self.long,
            )?;
            std::mem::replace(&mut self.writer, next)
                .finalize()
                .map_err(text_error(&self.path))?;
        }
        Ok(())
    }

    /// Words that were left out because of their length.
    pub fn long_words(&self) -> u64 {
        self.long.count()
    }

    /// Bytes in memory now.
    pub fn memory_bytes(&self) -> usize {
        self.writer.mem_usage() + self.lengths.bytes()
    }

    /// Writes the segment and makes it durable.
    pub fn finish(self) -> Result<()> {
        let path = self.path;
        let failed = text_error(&path);
        self.writer.finalize().map_err(&failed)?;
        if self.limit.is_some() {
            if self.parts == 0 {
                fs_err::rename(part(&path, 0), &path)?;
            } else {
                fs_err::create_dir_all(&path)?;
                merge(
                    &(0..=self.parts).map(|number| part(&path, number)).collect::<Vec<_>>(),
                    &path,
                )?;
            }
            fs_err::remove_dir_all(parts(&path))?;
        }
        self.lengths.write(&path)?;
        let mut written = Vec::new();
        for entry in fs_err::read_dir(&path)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                // tantivy keeps some of its files to the user who wrote them; a searcher may be another one.
                fs_err::set_permissions(entry.path(), Permissions::from_mode(0o644))?;
                written.push(entry.path());
            }
        }
        written.push(path.clone());
        Ok(sync_paths(&written)?)
    }
}
