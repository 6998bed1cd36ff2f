//! Which parts of an earlier run still hold: their documents are read again and compared by digest, not embedded again.

use std::path::Path;

use dyad_corpus::embeddings::{EmbeddingsWriter, SourceDigest};
use dyad_corpus::{CorpusReader, ReadOptions};

use super::embed::JobError;

/// A reader that stands behind the documents of the parts that are kept.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) reader: CorpusReader,
    /// Documents of kept parts.
    pub(crate) documents: u64,
    /// Parts that were made of other text.
    pub(crate) parts_dropped: usize,
}

/// Standard input or a pipe: what is read from it once cannot be read again.
pub(crate) fn is_stream(corpus: &Path) -> bool {
    corpus == Path::new("-") || (corpus.exists() && !corpus.is_file() && !corpus.is_dir())
}

/// Opens the corpus and reads past what the writer already has. Parts made of text that has changed, and all after them,
/// are dropped from the writer.
pub(crate) fn resume(
    corpus: &Path,
    options: &ReadOptions,
    part_rows: u64,
    writer: &mut EmbeddingsWriter,
) -> Result<Resumed, JobError> {
    let mut reader = CorpusReader::open(corpus, options)?;
    let parts = writer.finished_parts().to_vec();
    let mut kept = 0;
    let mut documents = 0;
    for part in &parts {
        let mut digest = SourceDigest::default();
        let mut rows = 0;
        while rows < part.rows {
            let Some(document) = reader.next() else { break };
            digest.add(&document?.value);
            rows += 1;
        }
        if rows < part.rows || digest.hex() != part.source_digest {
            break;
        }
        kept += 1;
        documents += rows;
    }
    // Only the last part of a set may be short: it cannot stay where documents were added behind it.
    let short = parts.last().is_some_and(|last| kept == parts.len() && last.rows < part_rows);
    let mut ahead = None;
    if short {
        ahead = reader.next().transpose()?;
    }
    if kept == parts.len() && ahead.is_none() {
        return Ok(Resumed { reader, documents, parts_dropped: 0 });
    }
    if ahead.is_some() {
        kept -= 1;
    }
    if is_stream(corpus) {
        return Err(JobError::ChangedInput { part: kept });
    }
    writer.truncate(kept)?;
    let documents: u64 = parts.iter().take(kept).map(|part| part.rows).sum();
    let mut reader = CorpusReader::open(corpus, options)?;
    for _ in 0..documents {
        reader.next().transpose()?;
    }
    Ok(Resumed { reader, documents, parts_dropped: parts.len() - kept })
}
