//! The state of an earlier run: parts whose documents are unchanged are kept, and rows of others are reused one by one.
//!
//! A file is read once to its end before anything is embedded: what is flawed, how much room the vectors take and where
//! the corpus has changed is then known. A stream is compared with the parts as far as they go.
//!
//! The result is byte for byte that of a fresh run wherever a vector does not depend on its batch, as with
//! all-MiniLM-L6-v2 in f32; in models whose sizes are no multiple of a vector register the last bit may.

use std::path::Path;

use dyad_command::JobCancellation;
use dyad_corpus::embeddings::{EarlierRows, EmbeddingsPart, EmbeddingsWriter, SourceDigest};
use dyad_corpus::{CorpusReader, PassageContext, ReadOptions, is_stream};
use dyad_files::Cancel;
use dyad_files::space::check_space;

use super::job::{EmbedJob, JobError};

/// Bytes of a row without its vector: the digest of its text, and quotes and line end of its key.
const ROW_BYTES: u64 = 16 + 3;

/// A reader that stands after the documents of the parts that are kept.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) reader: CorpusReader,
    /// Documents of kept parts.
    pub(crate) documents: u64,
    /// Parts that were made of other text.
    pub(crate) parts_dropped: usize,
    /// Vectors that are there already, by document.
    pub(crate) earlier: EarlierRows,
}

/// How a corpus relates to the parts of an earlier run.
#[derive(Debug, Default)]
struct ResumedParts {
    /// Parts whose documents are still the same, and their documents.
    kept: usize,
    documents: u64,
    /// The documents after these: how many were read, and the bytes of their keys.
    new: u64,
    key_bytes: u64,
}

/// Opens the corpus and reads past what the writer already has. Parts made of text that has changed, and all after
/// them, are set aside.
pub(crate) fn resume(
    job: &EmbedJob,
    writer: &mut EmbeddingsWriter,
    cancel: &JobCancellation,
) -> Result<Resumed, JobError> {
    let parts = writer.finished_parts().to_vec();
    let stream = is_stream(&job.corpus);
    let mut reader = CorpusReader::open(&job.corpus, &job.read)?;
    let compared_with = ComparedWith {
        parts: &parts,
        part_rows: job.part_rows,
        whole: !stream,
        context: job.context,
    };
    let compared = compare(&mut reader, compared_with, cancel)?.ok_or_else(|| job.interrupted(writer))?;
    let (kept, parts_dropped) = (compared.kept, parts.len() - compared.kept);
    if stream && parts_dropped > 0 {
        return Err(JobError::ChangedInput { part: kept });
    }
    if !stream {
        reader.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        let header = writer.header();
        let vector = header.vectors.row_bytes(header.model.dim).unwrap_or(usize::MAX) as u64;
        let row_bytes = vector.saturating_add(ROW_BYTES);
        let needed = compared
            .new
            .saturating_mul(row_bytes)
            .saturating_add(compared.key_bytes);
        check_space(&job.out, needed, job.free_space)?;
        // What is flawed was listed by the first reading. Documents that passages were cut from are in memory once.
        drop(reader);
        reader = reader_after(
            &job.corpus,
            &ReadOptions {
                rejects: None,
                ..job.read.clone()
            },
            compared.documents,
        )?;
    }
    if parts_dropped > 0 {
        writer.set_aside(kept)?;
    }
    Ok(Resumed {
        reader,
        documents: compared.documents,
        parts_dropped,
        earlier: writer.earlier_rows(),
    })
}

/// A reader of a file after this many documents.
fn reader_after(corpus: &Path, options: &ReadOptions, documents: u64) -> Result<CorpusReader, JobError> {
    let mut reader = CorpusReader::open(corpus, options)?;
    for _ in 0..documents {
        reader.next().transpose()?;
    }
    Ok(reader)
}

/// What documents are compared with.
#[derive(Clone, Copy)]
struct ComparedWith<'a> {
    parts: &'a [EmbeddingsPart],
    part_rows: u64,
    /// Whether the corpus is read to its end.
    whole: bool,
    context: PassageContext,
}

/// Reads documents along the parts; to the end of the corpus where `whole`, else no further than it takes. None
/// where it was cancelled.
fn compare(
    reader: &mut CorpusReader,
    ComparedWith {
        parts,
        part_rows,
        whole,
        context,
    }: ComparedWith<'_>,
    cancel: &dyn Cancel,
) -> Result<Option<ResumedParts>, JobError> {
    let mut compared = ResumedParts::default();
    let (mut digest, mut contexts) = (SourceDigest::default(), SourceDigest::default());
    // Only the last part of a set may be short: it cannot stay where documents were added after it.
    let short = parts.last().is_some_and(|last| last.rows < part_rows);
    let mut changed = false;
    while whole || (!changed && (compared.kept < parts.len() || short)) {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let Some(document) = reader.next().transpose()? else {
            break;
        };
        let document = document.value;
        compared.new += 1;
        compared.key_bytes += document.key.len() as u64;
        match parts.get(compared.kept) {
            Some(part) if !changed => {
                digest.add(&document);
                contexts.add_context(context, &document);
                if compared.new == part.rows {
                    let digest_of_contexts = std::mem::take(&mut contexts).hex();
                    changed = std::mem::take(&mut digest).hex() != part.source_digest
                        || !context.is_default() && part.context_digest != Some(digest_of_contexts);
                    if !changed {
                        compared.kept += 1;
                        compared.documents += std::mem::take(&mut compared.new);
                        compared.key_bytes = 0;
                    }
                }
            }
            None if short && !changed => {
                changed = true;
                compared.kept -= 1;
                let rows = parts.last().map_or(0, |last| last.rows);
                compared.documents -= rows;
                compared.new += rows;
            }
            _ => {}
        }
    }
    Ok(Some(compared))
}
