//! The file of a vocabulary: `tokenizer.json`, or BERT's word list `vocab.txt`, one token per line with ids from 0.

use std::path::{Path, PathBuf};

use dyad_files::is_lfs_pointer;
use serde_json::{Map, Value, json};
use tokenizers::models::wordpiece::WordPiece;

use crate::config::{JsonFile, sha256};
use crate::error::Error;

/// Files of tokenizers that are not read, though `tokenizer.json` can be made of them.
const OTHERS: [&str; 3] = ["spiece.model", "sentencepiece.bpe.model", "vocab.json"];

/// The special tokens that a word list of BERT may have.
const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// The content of a `tokenizer.json`.
#[derive(Debug)]
pub(super) struct TokenizerFile {
    pub(super) fields: Map<String, Value>,
    /// Digest of the word list, where the content was made of one.
    pub(super) word_list: Option<String>,
    /// The file of the vocabulary.
    pub(super) path: PathBuf,
}

impl TokenizerFile {
    pub(super) fn of_json(path: PathBuf, value: Value) -> Result<Self, Error> {
        let fields = JsonFile::new(path.clone(), value)?.into_fields();
        Ok(Self {
            fields,
            word_list: None,
            path,
        })
    }

    /// `vocab.txt` in `folder`, with what BERT's tokenizer makes of it.
    pub(super) fn of_word_list(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("vocab.txt");
        if !path.is_file() {
            let fix = if OTHERS.iter().any(|name| folder.join(name).is_file()) {
                "The tokenizer that is there (SentencePiece's `.model`, or `vocab.json`) is not read. Load the model in Python and save it: `SentenceTransformer(NAME).save_pretrained(DIR)` writes `tokenizer.json`"
            } else {
                "The model needs `tokenizer.json`, or `vocab.txt` for WordPiece. Fetch the whole model directory again"
            };
            return Err(Error::MissingFile {
                path: folder.join("tokenizer.json"),
                fix,
            });
        }
        let bytes = fs_err::read(&path)?;
        if is_lfs_pointer(&bytes) {
            return Err(Error::LfsPointer { path });
        }
        let vocabulary = WordPiece::read_bytes(&bytes).map_err(|error| Error::Tokenizer {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        let mut special: Vec<(u32, &str)> = SPECIAL
            .iter()
            .filter_map(|token| Some((*vocabulary.get(*token)?, *token)))
            .collect();
        special.sort_unstable();
        let added: Vec<Value> = special
            .into_iter()
            .map(|(id, token)| special_token(id, token))
            .collect();
        let vocabulary: Map<String, Value> = vocabulary.into_iter().map(|(token, id)| (token, json!(id))).collect();
        let frame = |name: &str| json!([name, vocabulary.get(name).cloned().unwrap_or(json!(0))]);
        let post_processor = json!({"type": "BertProcessing", "sep": frame("[SEP]"), "cls": frame("[CLS]")});
        let model = json!({
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        });
        let fields = [
            ("version", json!("1.0")),
            ("added_tokens", json!(added)),
            ("pre_tokenizer", json!({"type": "BertPreTokenizer"})),
            ("post_processor", post_processor),
            ("model", model),
        ];
        let fields = fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        Ok(Self {
            fields,
            word_list: Some(sha256(&bytes)),
            path,
        })
    }
}

fn special_token(id: u32, content: &str) -> Value {
    json!({
        "id": id,
        "content": content,
        "single_word": false,
        "lstrip": false,
        "rstrip": false,
        "normalized": false,
        "special": true,
    })
}
