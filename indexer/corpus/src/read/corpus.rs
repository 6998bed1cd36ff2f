//! The reader of all corpus formats.
use std::collections::VecDeque;
use std::path::Path;

use super::field_notes::FieldNotes;
use super::files::Files;
use super::flaws::Flaws;
use super::input::is_stream;
use super::keys::SeenKeys;
use super::options::{ReadOptions, UnseenFieldPolicy};
use super::record_source::RecordSource;
use super::whole_documents::WholeDocuments;
use super::{MAX_KEY_BYTES, MAX_METADATA_BYTES};
use crate::document::{Document, Located};
use crate::error::Error;
use crate::problem::CorpusProblem;

/// Files whose warnings are kept.
const TOLD_FILES: usize = 8;

/// Refuses keys that no new document may have: empty ones, those too long to store, and those with a line break or a
/// zero byte.
pub fn check_key(key: &str) -> Result<(), CorpusProblem> {
    if key.trim().is_empty() {
        return Err(CorpusProblem::EmptyKey);
    }
    if key.len() > MAX_KEY_BYTES {
        return Err(CorpusProblem::KeyTooLong {
            bytes: key.len(),
            limit: MAX_KEY_BYTES,
        });
    }
    if key.contains(['\n', '\r', '\0']) {
        return Err(CorpusProblem::KeyUnnameable);
    }
    Ok(())
}

/// Refuses metadata that are too large to store.
fn check_metadata(document: &Document) -> Result<(), CorpusProblem> {
    let bytes = document
        .metadata
        .as_ref()
        .map_or(0, |metadata| metadata.as_json().len());
    if bytes > MAX_METADATA_BYTES {
        return Err(CorpusProblem::MetadataTooLarge {
            key: document.key.clone(),
            bytes,
            limit: MAX_METADATA_BYTES,
        });
    }
    Ok(())
}

/// Streams the documents of a corpus in its own order.
///
/// Text is held one record at a time; only 128 bits per key stay in memory, to refuse duplicates. Flawed are records of
/// broken JSON or invalid UTF-8, with missing fields or fields of the wrong type, with an empty or duplicate key, or
/// with a [passage](Document::passage) that is empty or longer than [`ReadOptions::max_text_bytes`]; after one more
/// than [`ReadOptions::max_bad`] the rest is read only for what else is flawed, and all are refused together. Always
/// refused are streams that are cut short and a corpus without documents. After an error the reader is at its end.
#[derive(Debug)]
pub struct CorpusReader {
    files: Files,
    records: Box<dyn RecordSource>,
    options: ReadOptions,
    /// Absent where keys may be repeated.
    keys: Option<SeenKeys>,
    flaws: Flaws,
    notes: FieldNotes,
    /// Warnings about files that are read to their ends.
    of_files: Vec<String>,
    /// How many more of them there are.
    more_of_files: usize,
    /// Passages of the last document that are still to come.
    passages: VecDeque<Document>,
    /// The whole documents, where they have a file of their own.
    whole: Option<WholeDocuments>,
    /// The line of that document.
    line: u64,
    documents: u64,
    finished: bool,
}

impl CorpusReader {
    /// Opens a corpus: a file, a BEIR folder, a folder of files that are a document each, a pattern of files such as
    /// `parts/*.jsonl.gz`, which are read in the order of their names, or `-` for standard input. The format is that of
    /// [`ReadOptions::format`].
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self, Error> {
        let mut files = Files::find(path, options)?;
        let Some(records) = files.open_next(options)? else {
            return Err(Error::NotFound { path: path.to_owned() });
        };
        let of = if files.is_one() { records.progress().path } else { path };
        Ok(Self {
            flaws: Flaws::open(of, files.names(), options.max_bad, options.rejects.as_deref())?,
            files,
            records,
            keys: (!options.repeated_keys).then(SeenKeys::default),
            options: options.clone(),
            notes: FieldNotes::of(&options.fields),
            of_files: Vec::new(),
            more_of_files: 0,
            passages: VecDeque::new(),
            whole: options.documents.as_deref().map(Self::whole_documents).transpose()?,
            line: 0,
            documents: 0,
            finished: false,
        })
    }

    /// The documents of a file, of which a corpus or examples have passages: in memory. No stream, as it is read again
    /// for each pass over them.
    pub fn whole_documents(path: &Path) -> Result<WholeDocuments, Error> {
        if is_stream(path) {
            return Err(Error::DocumentsOfStream { path: path.to_owned() });
        }
        let options = ReadOptions {
            max_text_bytes: usize::MAX,
            ..ReadOptions::default()
        };
        WholeDocuments::collect(Self::open(path, &options)?)
    }

    /// Bytes read of the files on disk (compressed where they are), for progress.
    pub fn bytes_read(&self) -> u64 {
        self.files.read_bytes + self.records.progress().bytes_read
    }

    /// Size of the files on disk; `None` for standard input.
    pub fn total_bytes(&self) -> Option<u64> {
        self.files.total_bytes
    }

    /// Bytes of the corpus decompressed, estimated; `None` for standard input. Packed text is taken to be a third of
    /// its size.
    pub fn plain_bytes(&self) -> Option<u64> {
        Some(
            self.files
                .total_bytes?
                .saturating_mul(if self.records.progress().is_packed { 3 } else { 1 }),
        )
    }

    /// The file being read, or `standard input`.
    pub fn path(&self) -> &Path {
        self.records.progress().path
    }

    /// Flawed records so far.
    pub fn rejected(&self) -> u64 {
        self.flaws.total()
    }

    /// Warnings for the user, after the reading: records that were skipped, fields that are not stored.
    pub fn warnings(&self) -> Vec<String> {
        let of_files = self.of_files.iter().cloned().chain(self.records.warning());
        let more = self.more_of_files;
        let more = (more > 0).then(|| format!("{more} more files have text outside of documents"));
        let left_out = self.files.warning().into_iter().chain(self.notes.warnings());
        self.flaws
            .skipped()
            .into_iter()
            .chain(left_out)
            .chain(of_files)
            .chain(more)
            .collect()
    }

    fn read(&mut self) -> Result<Option<Located<Document>>, Error> {
        loop {
            match self.advance() {
                Ok(found) => {
                    if found.is_none() {
                        self.flaws.flush()?;
                    }
                    return Ok(found);
                }
                Err(error) => self.flaws.take(error)?,
            }
            if self.flaws.too_many() {
                let refusal = self.refuse_all();
                self.flaws.flush()?;
                return Err(refusal);
            }
        }
    }

    /// Reads on, only to find other flawed records.
    fn refuse_all(&mut self) -> Error {
        let end = loop {
            match self.advance().map_err(|error| self.flaws.take(error)) {
                Ok(Some(_)) | Err(Ok(())) => {}
                Ok(None) | Err(Err(Error::Empty { .. } | Error::UnseenFields { .. })) => break None,
                Err(Err(error)) => break Some(error),
            }
        };
        self.flaws.refusal(end)
    }

    fn advance(&mut self) -> Result<Option<Located<Document>>, Error> {
        if let Some(value) = self.passages.pop_front() {
            self.documents += 1;
            return Ok(Some(Located { value, line: self.line }));
        }
        let (line, parsed) = loop {
            if let Some(record) = self.records.advance(&self.options, &mut self.notes)? {
                break record;
            }
            let read = self.records.progress().bytes_read;
            match self.files.open_next(&self.options)? {
                Some(next) => {
                    if let Some(warning) = self.records.warning() {
                        if self.of_files.len() < TOLD_FILES {
                            self.of_files.push(warning);
                        } else {
                            self.more_of_files += 1;
                        }
                    }
                    self.files.read_bytes += read;
                    self.records = next;
                }
                None if self.documents == 0 && !self.options.allow_empty => {
                    return Err(Error::Empty {
                        path: self.records.progress().path.to_owned(),
                        expected: "documents",
                    });
                }
                None => {
                    self.refuse_unseen()?;
                    return Ok(None);
                }
            }
        };
        self.line = line;
        let metadata = parsed.as_ref().ok().and_then(|document| document.metadata.clone());
        let passages = parsed.and_then(|document| self.placed(document));
        // A document is accepted with all of its passages, or with none.
        let accepted = passages.and_then(|passages| {
            passages.iter().try_for_each(|passage| self.check(passage))?;
            passages.iter().try_for_each(|passage| self.note(passage))?;
            Ok(passages)
        });
        self.passages = accepted.map_err(|problem| self.refuse(line, problem))?;
        if let Some(metadata) = metadata {
            self.notes.types.see(&metadata);
        }
        self.documents += 1;
        let next = self.passages.pop_front();
        Ok(next.map(|value| Located { value, line }))
    }

    /// An error at a line or row of the file that is being read.
    fn refuse(&self, line: u64, problem: CorpusProblem) -> Error {
        Error::Line {
            path: self.path().to_owned(),
            line,
            problem,
        }
    }

    /// Refuses names of fields that no record had, in formats whose fields have names.
    fn refuse_unseen(&self) -> Result<(), Error> {
        let has_names = self.records.has_field_names();
        match self.notes.unseen.listed() {
            Some(fields)
                if has_names && self.options.unseen_fields == UnseenFieldPolicy::Refused && self.documents > 0 =>
            {
                Err(Error::UnseenFields {
                    path: self.flaws.path().to_owned(),
                    fields,
                    others: self.notes.unstored.listed().unwrap_or_else(|| "none".to_owned()),
                })
            }
            _ => Ok(()),
        }
    }

    /// A record as it is returned: whole, or as passages.
    fn placed(&self, document: Document) -> Result<VecDeque<Document>, CorpusProblem> {
        // A document without text, or with a key of its own fault, is told as such.
        let is_sound = check(&document, usize::MAX).is_ok();
        match (self.options.split, &self.whole) {
            (Some(split), _) if is_sound => Ok(split.passages_of(&document, self.records.sections())?.into()),
            (None, Some(whole)) if is_sound => {
                let place = Some(whole.place(&document)?);
                Ok(VecDeque::from([Document { place, ..document }]))
            }
            _ => Ok(VecDeque::from([document])),
        }
    }

    fn check(&self, document: &Document) -> Result<(), CorpusProblem> {
        check_metadata(document)?;
        if self.options.metadata_only {
            check_key(&document.key)
        } else {
            check(document, self.options.max_text_bytes)
        }
    }

    /// Notes a key, and refuses one that was there.
    fn note(&mut self, document: &Document) -> Result<(), CorpusProblem> {
        let place = self.files.place(self.line);
        match &mut self.keys {
            Some(keys) => self.files.with_file(keys.insert(&document.key, place)),
            None => Ok(()),
        }
    }
}

fn check(document: &Document, max_text_bytes: usize) -> Result<(), CorpusProblem> {
    check_key(&document.key)?;
    let bytes = document.passage().len();
    if bytes == 0 {
        return Err(CorpusProblem::EmptyText {
            key: document.key.clone(),
        });
    }
    if bytes > max_text_bytes {
        return Err(CorpusProblem::TextTooLong {
            key: document.key.clone(),
            bytes,
            limit: max_text_bytes,
        });
    }
    Ok(())
}

impl Iterator for CorpusReader {
    type Item = Result<Located<Document>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let next = self.read().transpose();
        self.finished = !matches!(next, Some(Ok(_)));
        next
    }
}
