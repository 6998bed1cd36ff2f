//! The reader thread: documents and their tokens, a window at a time, while the model works on the window before.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use dyad_corpus::embeddings::{EarlierRow, EarlierRows, text_digest};
use dyad_corpus::{CorpusReader, Document, PassageContext, PassagePlace};
use rayon::prelude::*;

use super::job::JobError;
use crate::config::Tower;
use crate::error::Error;
use crate::tokenize::{ContextTokens, Tokenizer, Tokens};

/// Documents sorted by length together: enough that padding is rare, few enough that memory is small.
const WINDOW_DOCUMENTS: usize = 2048;
/// Text of one window at most, unless a single document has more.
const WINDOW_BYTES: usize = 8 << 20;
/// Windows ready after the one that is embedded.
const WINDOWS_AHEAD: usize = 2;

/// Some documents, ready to be embedded.
#[derive(Debug, Default)]
pub(crate) struct ReadWindow {
    pub(crate) documents: Vec<Document>,
    /// Vector of each document, where an earlier run has made it.
    pub(crate) earlier: Vec<Option<Vec<f32>>>,
    /// Tokens of the documents without one.
    pub(crate) tokens: Vec<Tokens>,
    /// Whether the model reads less than the whole text, of each document.
    pub(crate) truncated: Vec<bool>,
    /// Tokens of those others, with a span for each document without an earlier vector.
    pub(crate) contexts: Vec<Tokens>,
    /// Of each document without an earlier vector, the number of its vector among those of the contexts.
    pub(crate) context_rows: Vec<usize>,
    /// Bytes of the corpus on disk that were read by the end of this window.
    pub(crate) bytes_read: u64,
}

/// Messages of the reader thread: windows, then `None` at the end of the corpus, so that a panic is not mistaken for
/// the end.
pub(crate) type SentWindow = Result<Option<ReadWindow>, JobError>;

/// Source of the windows.
#[derive(Debug)]
pub(crate) struct WindowSource {
    pub(crate) reader: CorpusReader,
    pub(crate) earlier: EarlierRows,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) tower: Tower,
    pub(crate) context: PassageContext,
}

/// Reads the rest of a corpus on a thread of its own, which ends with the corpus, an error, or the receiver. What a
/// user should hear of the corpus is told at its end where `tell`.
pub(crate) fn read_ahead(mut source: WindowSource, tell: bool) -> Result<Receiver<SentWindow>, JobError> {
    let (sender, receiver) = sync_channel(WINDOWS_AHEAD);
    std::thread::Builder::new()
        .name("dyad-read".into())
        .spawn(move || {
            source.send_windows(&sender);
            if tell {
                source.log_warnings();
            }
        })
        .map_err(|source| Error::Thread {
            name: "dyad-read",
            source,
        })?;
    Ok(receiver)
}

impl WindowSource {
    fn log_warnings(&self) {
        for warning in self.reader.warnings() {
            tracing::warn!("{warning}");
        }
    }

    fn send_windows(&mut self, sender: &SyncSender<SentWindow>) {
        loop {
            let window = self.next_window();
            let last = !matches!(window, Ok(Some(_)));
            // A closed channel means that the job has ended.
            if sender.send(window).is_err() || last {
                return;
            }
        }
    }

    fn next_window(&mut self) -> SentWindow {
        let is_late = self.context.late_weight().is_some();
        let (mut documents, mut bytes) = (Vec::new(), 0);
        while documents.len() < WINDOW_DOCUMENTS && bytes < WINDOW_BYTES {
            let Some(document) = self.reader.next() else { break };
            let document = document?.value;
            bytes += document.title.len() + document.text.len();
            if is_late && document.place.is_none() {
                return Err(JobError::NoPlace {
                    key: document.key,
                    context: self.context,
                });
            }
            documents.push(document);
        }
        if documents.is_empty() {
            return Ok(None);
        }
        let mut window = ReadWindow {
            bytes_read: self.reader.bytes_read(),
            ..ReadWindow::default()
        };
        let earlier: Vec<Option<EarlierRow>> = if self.earlier.rows() == 0 {
            vec![None; documents.len()]
        } else {
            documents
                .iter()
                .map(|document| self.earlier.find(text_digest(document, self.context)))
                .collect()
        };
        let read_as = ReadAs {
            tokenizer: &self.tokenizer,
            tower: self.tower,
            context: self.context,
        };
        let tokens: Result<Vec<Option<Tokens>>, Error> = documents
            .par_iter()
            .zip(&earlier)
            .map(|(document, row)| match row {
                Some(EarlierRow { truncated: Some(_), .. }) => Ok(None),
                // A row whose part does not say whether this text was truncated, or none.
                Some(_) | None => read_as
                    .tokenizer
                    .encode(read_as.tower, &document.passage_in(read_as.context))
                    .map(Some),
            })
            .collect();
        for (row, tokens) in earlier.into_iter().zip(tokens?) {
            let known = row.as_ref().and_then(|row| row.truncated);
            window.truncated.push(
                known
                    .or(tokens.as_ref().map(|tokens| tokens.truncated))
                    .unwrap_or(false),
            );
            window.tokens.extend(tokens.filter(|_| row.is_none()));
            window.earlier.push(row.map(|row| row.vector));
        }
        if is_late {
            let new = window
                .earlier
                .iter()
                .zip(&documents)
                .filter(|(earlier, _)| earlier.is_none());
            let new: Vec<&PassagePlace> = new.filter_map(|(_, document)| document.place.as_ref()).collect();
            let ContextTokens { contexts, rows, cut } = read_as.tokenizer.contexts_of_passages(read_as.tower, &new)?;
            (window.contexts, window.context_rows) = (contexts, rows);
            let mut cut = cut.into_iter();
            for (truncated, earlier) in window.truncated.iter_mut().zip(&window.earlier) {
                if earlier.is_none() {
                    *truncated |= cut.next().unwrap_or_default();
                }
            }
        }
        window.documents = documents;
        Ok(Some(window))
    }
}

/// How documents become tokens.
#[derive(Clone, Copy)]
struct ReadAs<'a> {
    tokenizer: &'a Tokenizer,
    tower: Tower,
    context: PassageContext,
}
