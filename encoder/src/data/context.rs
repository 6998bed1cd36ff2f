//! The documents in which passages of examples stand, for vectors that know them (late chunking, Günther et al. 2024,
//! arXiv:2409.04701).

use std::ops::Range;
use std::path::Path;

use dyad_corpus::examples::Passage;
use dyad_corpus::{CorpusReader, PassageContext, PassagePlace, WholeDocuments};

use super::error::DataError;
use crate::config::Tower;
use crate::tokenize::{ContextTokens, Tokenizer, Tokens};

/// Documents that passages were cut from, and how much the tokens in these count in a passage's vector.
#[derive(Debug)]
pub struct ExampleContext {
    documents: WholeDocuments,
    weight: f32,
}

impl ExampleContext {
    /// Reads the documents of a file; nothing where the context does not read documents.
    pub fn open(context: PassageContext, documents: &Path) -> Result<Option<Self>, DataError> {
        let Some(weight) = context.late_weight() else {
            return Ok(None);
        };
        Ok(Some(Self {
            documents: CorpusReader::whole_documents(documents)?,
            weight,
        }))
    }

    /// The weight of the vector of a passage's tokens in its document, next to that of the passage by itself.
    pub fn weight(&self) -> f32 {
        self.weight
    }

    /// The documents of passages as the answer tower reads them, and the place of each passage in these.
    pub(crate) fn tokens(&self, tokenizer: &Tokenizer, passages: &[&Passage]) -> Result<ContextTokens, DataError> {
        let places: Vec<PassagePlace> = passages
            .iter()
            .map(|passage| self.place(passage))
            .collect::<Result<_, _>>()?;
        let places: Vec<&PassagePlace> = places.iter().collect();
        Ok(tokenizer.contexts_of_passages(Tower::Answer, &places)?)
    }

    fn place(&self, passage: &Passage) -> Result<PassagePlace, DataError> {
        let text = || passage.passage().chars().take(60).collect::<String>();
        let Some(span) = &passage.span else {
            return Err(DataError::NoSpan { text: text() });
        };
        let place = self.documents.place_of(span, &passage.text);
        place.map_err(|problem| DataError::Place { text: text(), problem })
    }
}

/// The tokens of a passage in the window of its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContextPlace {
    /// Number of the window among [`ContextTokens::contexts`].
    pub(super) window: usize,
    /// The tokens of the passage in its window.
    pub(super) tokens: Range<usize>,
}

/// The place of each passage.
pub(super) fn context_places(contexts: &ContextTokens) -> Vec<ContextPlace> {
    let mut all = Vec::new();
    for (window, Tokens { spans, .. }) in contexts.contexts.iter().enumerate() {
        all.extend(spans.iter().cloned().map(|tokens| ContextPlace { window, tokens }));
    }
    contexts.rows.iter().filter_map(|row| all.get(*row).cloned()).collect()
}
