//! Static models: a table of token vectors whose mean is the vector of a text, without a network over it.
//!
//! | made by | weights | tokenizer | settings |
//! |---|---|---|---|
//! | sentence-transformers (`StaticEmbedding`) | `embedding.weight` `[vocabulary, dim]` | `tokenizer.json`, cut as it says | `modules.json` |
//! | Model2Vec (`StaticModel`) | `embeddings` `[rows, dim]`, `mapping` `[vocabulary]`, `weights` `[vocabulary]` | `tokenizer.json`, unknown tokens dropped | `config.json` |
//! | WordLlama | `NAME_DIM.safetensors` with `embedding.weight` | `NAME_tokenizer_config.json`, never cut | none |
//!
//! None of them puts special tokens around a text. The vector of token `i` is `embeddings[mapping[i]] * weights[i]`
//! where a Model2Vec table has both (vocabulary quantisation, model2vec 0.6 and later).

use std::path::Path;

use fs_err::File;
use safetensors::tensor::Metadata;
use serde_json::{Value, json};

use super::TensorSpec;
use super::weights_header::weights_header;
use crate::error::Error;

const TABLE: &str = "embedding.weight";
/// Names that Model2Vec gives to its tensors.
pub(super) const MODEL2VEC_TABLE: &str = "embeddings";
const MAPPING: &str = "mapping";
const TOKEN_WEIGHTS: &str = "weights";
/// The library that a static model is from, which says how texts become tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StaticLibrary {
    SentenceTransformers,
    Model2Vec,
    WordLlama,
}

impl StaticLibrary {
    fn name(self) -> &'static str {
        match self {
            Self::SentenceTransformers => "sentence-transformers",
            Self::Model2Vec => "model2vec",
            Self::WordLlama => "wordllama",
        }
    }
}

/// A table of token vectors: its sizes, and the file that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StaticConfig {
    pub(super) library: StaticLibrary,
    /// Tokens that have a vector.
    pub(crate) vocab_size: usize,
    /// Values of a token vector.
    pub(crate) hidden_size: usize,
    /// Rows of the table in the file: fewer than tokens where several tokens have the same one.
    stored_rows: usize,
    /// Whether a tensor says which row a token has.
    has_mapping: bool,
    /// Whether a tensor says what the row of a token is multiplied by.
    has_weights: bool,
    /// Whether the table is of whole numbers, to which a training step adds nothing.
    is_rounded: bool,
    /// Name of the file of the tensors.
    pub(crate) weights_file: String,
}

/// How the tokenizer of a static model is used: its file as it is, without special tokens around a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StaticTokenizer {
    /// Name of the file.
    pub(crate) file: String,
    /// Model2Vec's way: unknown tokens are dropped after the cut, and texts are first cut at as many characters as the
    /// longest input has tokens, times the median length of a token of the vocabulary.
    pub(crate) is_model2vec: bool,
}

impl StaticConfig {
    /// Name of the table.
    pub(crate) fn table(&self) -> &'static str {
        match self.library {
            StaticLibrary::Model2Vec => MODEL2VEC_TABLE,
            StaticLibrary::SentenceTransformers | StaticLibrary::WordLlama => TABLE,
        }
    }

    /// Shape of the table in the file.
    pub(crate) fn table_shape(&self) -> [usize; 2] {
        [self.stored_rows, self.hidden_size]
    }

    /// Name and shape of the tensor with the row of each token.
    pub(crate) fn mapping(&self) -> Option<(&'static str, [usize; 1])> {
        self.has_mapping.then_some((MAPPING, [self.vocab_size]))
    }

    /// Name and shape of the tensor with what the row of each token is multiplied by.
    pub(crate) fn weights(&self) -> Option<(&'static str, [usize; 1])> {
        self.has_weights.then_some((TOKEN_WEIGHTS, [self.vocab_size]))
    }

    /// What keeps the table from being trained.
    pub(crate) fn untrainable(&self) -> Option<&'static str> {
        if self.has_mapping || self.has_weights {
            Some("one with `mapping` or `weights`")
        } else if self.is_rounded {
            Some("one of whole numbers")
        } else {
            None
        }
    }

    /// Whether the name of a stored tensor is among those that may be whole numbers or `f64`.
    pub(crate) fn takes_any_number(&self, name: &str) -> bool {
        self.library == StaticLibrary::Model2Vec && [MODEL2VEC_TABLE, MAPPING, TOKEN_WEIGHTS].contains(&name)
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = TensorSpec> + '_ {
        let table = (self.table().to_owned(), self.table_shape().to_vec());
        let others = self.mapping().into_iter().chain(self.weights());
        std::iter::once(table).chain(others.map(|(name, shape)| (name.to_owned(), shape.to_vec())))
    }

    /// For the fingerprint, and for people.
    pub(crate) fn fact(&self) -> Value {
        json!({
            "model_type": "static",
            "library": self.library.name(),
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
        })
    }

    /// Sizes by the header of the file of weights.
    pub(super) fn of_weights(folder: &Path, weights_file: &str, library: StaticLibrary) -> Result<Self, Error> {
        let path = folder.join(weights_file);
        let header = header(&path)?;
        let shape = |name: &str| header.info(name).map(|info| info.shape.clone());
        let table = if library == StaticLibrary::Model2Vec {
            MODEL2VEC_TABLE
        } else {
            TABLE
        };
        let missing = || Error::MissingTensor {
            path: path.clone(),
            tensor: table.to_owned(),
        };
        let wrong = |tensor: &str, expected: &str, got: &[usize]| Error::TensorShape {
            path: path.clone(),
            tensor: tensor.to_owned(),
            expected: expected.to_owned(),
            got: format!("{got:?}"),
        };
        let (stored_rows, hidden_size) = match shape(table).ok_or_else(missing)?[..] {
            [rows, values] if rows > 0 && values > 0 => (rows, values),
            ref other => return Err(wrong(table, "[rows, values]", other)),
        };
        let is_model2vec = library == StaticLibrary::Model2Vec;
        let of_tokens = |name: &str| shape(name).filter(|_| is_model2vec);
        let [mapping, weights] = [MAPPING, TOKEN_WEIGHTS].map(of_tokens);
        let vocab_size = match mapping.as_deref() {
            None => stored_rows,
            Some([tokens]) => *tokens,
            Some(other) => return Err(wrong(MAPPING, "[tokens]", other)),
        };
        let is_rounded = header.info(table).is_some_and(|info| {
            use safetensors::Dtype::{I8, I16, I32, I64, U8};
            [I8, I16, I32, I64, U8].contains(&info.dtype)
        });
        Ok(Self {
            library,
            vocab_size,
            hidden_size,
            stored_rows,
            has_mapping: mapping.is_some(),
            has_weights: weights.is_some(),
            is_rounded,
            weights_file: weights_file.to_owned(),
        })
    }
}

/// The header of a file of weights, which has to be there.
pub(super) fn header(path: &Path) -> Result<Metadata, Error> {
    if !path.is_file() {
        let fix = "A static model is its table: fetch the whole directory again";
        return Err(Error::MissingFile {
            path: path.to_owned(),
            fix,
        });
    }
    Ok(weights_header(path, &mut File::open(path)?)?.0)
}
