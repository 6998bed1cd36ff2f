//! The reader thread: documents and their tokens, a window at a time, while the model works on the window before.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use dyad_corpus::{CorpusReader, Document};
use rayon::prelude::*;

use super::embed::JobError;
use crate::error::Error;
use crate::tokenize::{Tokenizer, Tokens};
use crate::tower::Tower;

/// Documents sorted by length together: enough that padding is rare, few enough that memory is small.
const WINDOW_DOCUMENTS: usize = 2048;
/// Text of one window at most, unless a single document has more.
const WINDOW_BYTES: usize = 8 << 20;
/// Windows ready behind the one that is embedded.
const WINDOWS_AHEAD: usize = 2;

/// Some documents, ready to be embedded.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) documents: Vec<Document>,
    pub(crate) tokens: Vec<Tokens>,
    /// Bytes of the corpus on disk that were read by the end of this window.
    pub(crate) bytes_read: u64,
}

/// What the reader thread sends: windows, then `None` at the end of the corpus, so that a thread that died is told from
/// one that is done.
pub(crate) type Sent = Result<Option<Window>, JobError>;

/// Reads the rest of a corpus on a thread of its own, which ends with the corpus, an error, or the receiver.
pub(crate) fn read_ahead(
    reader: CorpusReader,
    tokenizer: Arc<Tokenizer>,
    tower: Tower,
) -> Result<Receiver<Sent>, JobError> {
    let (sender, receiver) = sync_channel(WINDOWS_AHEAD);
    std::thread::Builder::new()
        .name("dyad-read".into())
        .spawn(move || send_windows(reader, &tokenizer, tower, &sender))
        .map_err(|source| Error::Thread { name: "dyad-read", source })?;
    Ok(receiver)
}

fn send_windows(mut reader: CorpusReader, tokenizer: &Tokenizer, tower: Tower, sender: &SyncSender<Sent>) {
    loop {
        let window = next_window(&mut reader, tokenizer, tower);
        let last = !matches!(window, Ok(Some(_)));
        // A closed channel means that the job has ended.
        if sender.send(window).is_err() || last {
            return;
        }
    }
}

fn next_window(reader: &mut CorpusReader, tokenizer: &Tokenizer, tower: Tower) -> Sent {
    let mut documents = Vec::new();
    let mut bytes = 0;
    while documents.len() < WINDOW_DOCUMENTS && bytes < WINDOW_BYTES {
        let Some(document) = reader.next() else { break };
        let document = document?.value;
        bytes += document.title.len() + document.text.len();
        documents.push(document);
    }
    if documents.is_empty() {
        return Ok(None);
    }
    let tokens: Result<Vec<Tokens>, Error> =
        documents.par_iter().map(|document| tokenizer.encode(tower, &document.passage())).collect();
    Ok(Some(Window { documents, tokens: tokens?, bytes_read: reader.bytes_read() }))
}
