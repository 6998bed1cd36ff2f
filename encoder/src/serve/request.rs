//! Requests: texts, token ids or pairs, and how they are embedded or scored.

use std::time::Instant;

use super::error::EncodeError;
use super::passages::ReadDocument;
use crate::config::NamedPrompts;
use crate::model::ModelKind;

/// Texts or token ids to embed, or pairs to score.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Texts as they are (a document's passage is joined by the caller).
    Texts(Vec<String>),
    /// Texts that the caller has tokenized: ids of the model's own tokenizer, without the prompt and without the
    /// special tokens around a text, which are put there as for a text.
    TokenIds(Vec<Vec<u32>>),
    /// Texts that are passages of documents, each of one of them: the vector of a text is `e + weight * l`, of unit
    /// length, where `e` is that of the text by itself, and `l` the mean of its token vectors in its document, both of
    /// unit length (late chunking, Günther et al. 2024, arXiv:2409.04701).
    Passages {
        /// The texts.
        texts: Vec<String>,
        /// The documents.
        documents: Vec<ReadDocument>,
        /// Weight of the tokens in the documents.
        weight: f32,
    },
    /// Texts that may answer one query, for a cross encoder.
    Pairs {
        /// What is asked.
        query: String,
        /// What may answer it.
        texts: Vec<String>,
    },
}

impl From<Vec<String>> for Input {
    fn from(texts: Vec<String>) -> Self {
        Self::Texts(texts)
    }
}

impl From<Vec<Vec<u32>>> for Input {
    fn from(ids: Vec<Vec<u32>>) -> Self {
        Self::TokenIds(ids)
    }
}

impl Input {
    /// Texts of the request.
    pub fn len(&self) -> usize {
        match self {
            Self::Texts(texts) | Self::Passages { texts, .. } | Self::Pairs { texts, .. } => texts.len(),
            Self::TokenIds(ids) => ids.len(),
        }
    }

    /// The kind of model that it is for.
    pub(crate) fn kind(&self) -> ModelKind {
        match self {
            Self::Texts(_) | Self::TokenIds(_) | Self::Passages { .. } => ModelKind::DualEncoder,
            Self::Pairs { .. } => ModelKind::CrossEncoder,
        }
    }

    /// Whether the request is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Place of the first text without content.
    pub(crate) fn first_empty(&self) -> Option<usize> {
        match self {
            Self::Texts(texts) | Self::Passages { texts, .. } | Self::Pairs { texts, .. } => {
                texts.iter().position(|text| text.trim().is_empty())
            }
            Self::TokenIds(ids) => ids.iter().position(Vec::is_empty),
        }
    }

    /// Tokens that each text can have at most, and what the documents in which they stand are expected to have, where
    /// the model reads `longest` at once; without prompt and special tokens: a token takes at least one byte.
    pub(crate) fn at_most(&self, longest: usize) -> Vec<usize> {
        match self {
            Self::Texts(texts) => texts.iter().map(String::len).collect(),
            Self::TokenIds(ids) => ids.iter().map(Vec::len).collect(),
            Self::Passages { texts, documents, .. } => {
                let windows = documents.iter().flat_map(|document| document.expected(longest));
                texts.iter().map(String::len).chain(windows).collect()
            }
            Self::Pairs { query, texts } => texts.iter().map(|text| query.len() + text.len()).collect(),
        }
    }
}

/// Handling of a text that is longer than the model's maximum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Truncation {
    /// It is truncated and counted.
    #[default]
    Truncate,
    /// The request is refused; the error names the first such text.
    Refuse,
}

/// What stands before each text of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RequestPrompt {
    /// The prompt of the tower.
    #[default]
    OfTower,
    /// One of the prompts that the model has names for.
    Named(String),
    /// A text, as it is; empty for none.
    Text(String),
}

/// How a request is embedded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodeOptions {
    /// The reply is of no use after this.
    pub deadline: Instant,
    /// Handling of texts that are too long.
    pub truncation: Truncation,
    /// Leading values of each vector to keep, brought to unit length again (Matryoshka, Kusupati et al. 2022); `None`
    /// keeps all.
    pub dimensions: Option<usize>,
    /// What stands before each text. The reply has the fingerprint of the model with that prompt.
    pub prompt: RequestPrompt,
}

impl EncodeOptions {
    /// Whole vectors, and texts cut where they are too long.
    pub fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            truncation: Truncation::default(),
            dimensions: None,
            prompt: RequestPrompt::default(),
        }
    }

    /// The text that stands before each text of the request, in place of the tower's prompt; `None` where that is to
    /// stand there.
    pub(crate) fn prompt<'a>(&'a self, named: &'a NamedPrompts) -> Result<Option<&'a str>, EncodeError> {
        match &self.prompt {
            RequestPrompt::OfTower => Ok(None),
            RequestPrompt::Named(name) => Ok(Some(named.get(name)?)),
            RequestPrompt::Text(text) => Ok(Some(text)),
        }
    }

    /// Values per vector that come of a model with `dim`.
    pub(crate) fn dim(&self, dim: usize) -> Result<usize, EncodeError> {
        match self.dimensions {
            None => Ok(dim),
            Some(asked) if (1..=dim).contains(&asked) => Ok(asked),
            Some(asked) => Err(EncodeError::Dimensions { asked, dim }),
        }
    }
}

/// Copies as many leading values of a unit vector as `place` holds, and brings them to unit length again where that is
/// not all.
pub(crate) fn keep_leading(row: &[f32], place: &mut [f32]) {
    let Some(leading) = row.get(..place.len()) else { return };
    if leading.len() == row.len() {
        place.copy_from_slice(row);
        return;
    }
    let length = leading
        .iter()
        .map(|value| f64::from(*value).powi(2))
        .sum::<f64>()
        .sqrt();
    for (place, value) in place.iter_mut().zip(leading) {
        // The floor that sentence-transformers' normalisation has too: no direction is left, and none is invented.
        *place = (f64::from(*value) / length.max(1e-12)) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_values_are_of_unit_length_and_keep_their_direction() {
        let mut place = [0.0; 2];
        keep_leading(&[0.36, 0.48, 0.8], &mut place);
        assert!(
            (place[0] - 0.6).abs() < 1e-6 && (place[1] - 0.8).abs() < 1e-6,
            "{place:?}"
        );
        let mut whole = [0.0; 3];
        keep_leading(&[0.36, 0.48, 0.8], &mut whole);
        assert_eq!(
            whole.map(f32::to_bits),
            [0.36_f32, 0.48, 0.8].map(f32::to_bits),
            "untouched"
        );
        let mut none = [7.0; 1];
        keep_leading(&[0.0, 1.0], &mut none);
        assert_eq!(none.map(f32::to_bits), [0], "no direction, no NaN");
    }

    #[test]
    fn dimensions_are_of_the_model() {
        let options = |dimensions| EncodeOptions {
            dimensions,
            ..EncodeOptions::until(Instant::now())
        };
        assert_eq!(options(None).dim(384).unwrap(), 384);
        assert_eq!(options(Some(384)).dim(384).unwrap(), 384);
        assert_eq!(options(Some(1)).dim(384).unwrap(), 1);
        for wrong in [0, 385, usize::MAX] {
            let message = options(Some(wrong)).dim(384).unwrap_err().to_string();
            assert!(
                message.contains("1 to 384") && message.contains(&wrong.to_string()),
                "{message}"
            );
        }
    }

    #[test]
    fn what_is_empty_is_found() {
        assert_eq!(
            Input::from(vec!["a".to_owned(), " \n".to_owned()]).first_empty(),
            Some(1)
        );
        assert_eq!(Input::from(vec![vec![5], vec![]]).first_empty(), Some(1));
        assert_eq!(Input::from(vec![vec![5], vec![6, 7]]).first_empty(), None);
        assert_eq!(Input::from(vec![vec![5], vec![6, 7]]).at_most(8), [1, 2]);
        let pairs = Input::Pairs {
            query: "who".into(),
            texts: vec!["she".into(), " ".into()],
        };
        assert_eq!((pairs.first_empty(), pairs.at_most(8)), (Some(1), vec![6, 4]));
    }
}
