//! The job: resume, embed, finish.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use dyad_command::JobCancellation;
use dyad_corpus::embeddings::{EmbeddingsHeader, EmbeddingsModel, EmbeddingsWriter};
use dyad_corpus::logit_scale::NO_LOGIT_SCALE;
use dyad_corpus::{CorpusReader, ReadOptions, is_stream};

use super::job::{EmbedJob, EmbedOutcome, EmbedReport, JobError};
use super::logit_scale::{LogitScale, measure};
use super::progress::Progress;
use super::resume::{Resumed, resume};
use super::windows::{ReadWindow, WindowSource, read_ahead};
use crate::config::Tower;
use crate::model::Model;
use crate::tokenize::{Tokens, add_contexts};

/// How often the job looks whether it was interrupted while the reader has nothing.
const LOOK: Duration = Duration::from_millis(100);

impl EmbedJob {
    /// Runs until the corpus ends, an error, or `cancel`. What whole parts hold is kept in any case.
    pub fn run(&self, encoder: &Model, cancel: &JobCancellation) -> Result<EmbedOutcome, JobError> {
        self.check_corpus()?;
        if self.context.late_weight().is_some() && !encoder.pools_means(self.tower) {
            return Err(JobError::NoMeans { context: self.context });
        }
        let mut writer = self.open_writer(encoder)?;
        let was_complete = writer.is_complete();
        let Resumed {
            reader,
            documents: kept,
            parts_dropped,
            earlier,
        } = match resume(self, &mut writer, cancel) {
            Ok(resumed) => resumed,
            Err(error) => {
                writer.discard();
                return Err(error);
            }
        };
        self.check_kept(encoder, &writer)?;
        if parts_dropped > 0 {
            tracing::info!(
                parts = parts_dropped,
                "documents have changed since the earlier run: embedding these, reusing the vectors of all others"
            );
        } else if kept > 0 && !was_complete {
            tracing::info!(documents = kept, "going on after the parts of an earlier run");
        }
        self.warn_of_unknown_dtype(encoder, &writer);
        let mut progress = Progress::new(reader.total_bytes(), reader.bytes_read(), kept);
        let (mut truncated, mut stored, mut reused) = (0, 0, 0);
        let (tower, context) = (self.tower, self.context);
        let source = WindowSource {
            reader,
            earlier,
            tokenizer: encoder.tokenizer(),
            tower,
            context,
        };
        let windows = read_ahead(source, is_stream(&self.corpus))?;
        loop {
            if cancel.is_cancelled() {
                return Err(self.interrupted(&writer));
            }
            let window = match windows.recv_timeout(LOOK) {
                Ok(window) => window?,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(JobError::ReaderLost),
            };
            let Some(window) = window else { break };
            self.check_length(encoder, &window)?;
            let new = window
                .truncated
                .iter()
                .zip(&window.earlier)
                .filter(|(_, earlier)| earlier.is_none());
            truncated += new.filter(|(truncated, _)| **truncated).count() as u64;
            stored += window.documents.len() as u64;
            reused += window.earlier.iter().flatten().count() as u64;
            if !self.embed(encoder, &window, &mut writer, &mut progress, cancel)? {
                return Err(self.interrupted(&writer));
            }
        }
        let (tokens, elapsed) = (progress.tokens(), progress.elapsed());
        // Also of a complete set of an earlier release, which knew of none.
        self.measure_logit_scale(encoder, &mut writer, cancel)?;
        if stored == 0 && was_complete && parts_dropped == 0 {
            return Ok(EmbedOutcome::NothingToDo { documents: kept });
        }
        let summary = writer.finish()?;
        Ok(EmbedOutcome::Embedded(EmbedReport {
            summary,
            documents_kept: kept,
            documents_reused: reused,
            tokens,
            documents_truncated: truncated,
            elapsed,
        }))
    }

    /// Opens the output; parts of which it is not known what is truncated are made again where that is refused.
    fn open_writer(&self, encoder: &Model) -> Result<EmbeddingsWriter, JobError> {
        let mut writer = EmbeddingsWriter::open(&self.out, self.header(encoder))?;
        if self.refuse_long
            && let Some(first) = writer.finished_parts().iter().position(|part| part.truncated.is_none())
        {
            // Of an earlier release, which did not note what is truncated: looked at again.
            writer.set_aside(first)?;
        }
        Ok(writer)
    }

    /// Refuses truncated documents among those that an earlier run has embedded.
    fn check_kept(&self, encoder: &Model, writer: &EmbeddingsWriter) -> Result<(), JobError> {
        let documents = writer.finished_parts().iter().filter_map(|part| part.truncated).sum();
        if self.refuse_long && documents > 0 {
            return Err(JobError::LongKept {
                out: self.out.clone(),
                documents,
                max_tokens: encoder.info().max_tokens,
            });
        }
        Ok(())
    }

    /// Refuses truncated documents of a window.
    fn check_length(&self, encoder: &Model, window: &ReadWindow) -> Result<(), JobError> {
        let mut documents = window.documents.iter().zip(&window.truncated);
        match documents.find(|(_, truncated)| **truncated) {
            Some((document, _)) if self.refuse_long => Err(JobError::LongText {
                key: document.key.clone(),
                max_tokens: encoder.info().max_tokens,
            }),
            _ => Ok(()),
        }
    }

    fn warn_of_unknown_dtype(&self, encoder: &Model, writer: &EmbeddingsWriter) {
        if writer.header().dtype.is_none() {
            tracing::warn!(
                "`{}` does not say in which dtype its vectors were computed, since an earlier release began it; these stay. \
                 Choose another `--out` to embed all of them in {}",
                self.out.display(),
                encoder.info().dtype
            );
        }
    }

    /// Opens the corpus, which shows whether it is there and of which form; a stream can be opened only once.
    pub fn check_corpus(&self) -> Result<(), JobError> {
        if !is_stream(&self.corpus) {
            CorpusReader::open(
                &self.corpus,
                &ReadOptions {
                    rejects: None,
                    documents: None,
                    ..self.read.clone()
                },
            )?;
        }
        Ok(())
    }

    /// Embeds and stores a window; false where a signal came in between.
    fn embed(
        &self,
        encoder: &Model,
        window: &ReadWindow,
        writer: &mut EmbeddingsWriter,
        progress: &mut Progress,
        cancel: &JobCancellation,
    ) -> Result<bool, JobError> {
        let tokens = window
            .tokens
            .iter()
            .chain(&window.contexts)
            .map(|tokens| tokens.ids.len())
            .sum();
        progress.begin(window.bytes_read, window.documents.len(), tokens);
        let mut embed = |texts: &[Tokens]| {
            encoder.embed_with_progress(self.tower, texts, self.budget, cancel, &mut |tokens| {
                progress.batch(tokens);
            })
        };
        let dim = encoder.info().dim;
        let Some(mut vectors) = embed(&window.tokens)? else {
            return Ok(false);
        };
        if let Some(weight) = self.context.late_weight() {
            let Some(late) = embed(&window.contexts)? else {
                return Ok(false);
            };
            add_contexts(&mut vectors, &late, &window.context_rows, dim, weight);
        }
        let mut new = vectors.chunks_exact(dim);
        for (number, document) in window.documents.iter().enumerate() {
            let earlier = window.earlier.get(number).and_then(Option::as_deref);
            let Some(row) = earlier.or_else(|| new.next()) else {
                break;
            };
            let truncated = window.truncated.get(number).copied().unwrap_or_default();
            writer.push(document, row, truncated)?;
        }
        progress.stored();
        Ok(true)
    }

    /// Measures the model's logit scale where the set does not have it yet.
    fn measure_logit_scale(
        &self,
        encoder: &Model,
        writer: &mut EmbeddingsWriter,
        cancel: &JobCancellation,
    ) -> Result<(), JobError> {
        if writer.header().logit_scale.is_some() || self.tower != Tower::Answer {
            return Ok(());
        }
        writer.flush()?;
        match measure(encoder, self.budget, cancel)? {
            LogitScale::Measured(Some(scale)) => writer.set_logit_scale(scale)?,
            LogitScale::Measured(None) => tracing::info!("{NO_LOGIT_SCALE}"),
            LogitScale::Interrupted => return Err(self.interrupted(writer)),
        }
        Ok(())
    }

    pub(super) fn interrupted(&self, writer: &EmbeddingsWriter) -> JobError {
        let rows = writer.finished_parts().iter().map(|part| part.rows).sum();
        JobError::Interrupted {
            rows,
            out: self.out.clone(),
        }
    }

    fn header(&self, encoder: &Model) -> EmbeddingsHeader {
        let info = encoder.info();
        let model = EmbeddingsModel {
            name: info.name.clone(),
            fingerprint: info.fingerprint.clone(),
            dim: info.dim,
            metric: "cosine".into(),
            max_tokens: info.max_tokens,
        };
        let dtype = Some(info.dtype.to_string());
        EmbeddingsHeader {
            model,
            tower: self.tower.name().into(),
            vectors: self.vectors,
            part_rows: self.part_rows,
            dtype,
            two_towers: Some(info.has_two_towers),
            logit_scale: None,
            context: self.context,
        }
    }
}
