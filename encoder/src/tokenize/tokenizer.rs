//! `tokenizer.json` or `vocab.txt`, prompts, truncation.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::{BertNormalizer, NormalizerWrapper};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::{AddedToken, EncodeInput, PostProcessor, TruncationParams};

use super::Prompt;
use super::cut::Cuts;
use crate::config::{JsonFile, Prompts, Tower, read_value, sha256, sorted};
use crate::error::Error;

/// Files of tokenizers that are not read, though `tokenizer.json` can be made of them.
const OTHERS: [&str; 3] = ["spiece.model", "sentencepiece.bpe.model", "vocab.json"];

/// A text as the network reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Token ids, special tokens included.
    pub ids: Vec<u32>,
    /// Whether the text was truncated.
    pub truncated: bool,
    /// Of a pair whose tokens have types: where those of the second text begin, which are of type 1.
    pub second: Option<usize>,
}

/// The model's settings that a splitter depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SplitterSettings {
    pub(crate) max_tokens: usize,
    pub(crate) lower_case: bool,
    /// Rows of the token table.
    pub(crate) vocab_size: usize,
}

/// One transformer's tokenizer.
#[derive(Debug)]
pub(crate) struct Splitter {
    pub(super) inner: tokenizers::Tokenizer,
    settings: SplitterSettings,
    /// The places where a long text may be split; `None` where it is tokenized as a whole.
    pub(super) cuts: Option<Cuts>,
    /// Tokens that are put around every text.
    special: usize,
    path: PathBuf,
    digest: String,
}

impl Splitter {
    /// Opens `tokenizer.json` in `folder`, or builds WordPiece from `vocab.txt`.
    ///
    /// The digest covers the file with sorted keys, without the truncation and padding that the last user left in it, and
    /// with the normaliser that `tokenizer_config.json` makes of it.
    pub(crate) fn open(folder: &Path, settings: SplitterSettings) -> Result<Self, Error> {
        let overrides = NormalizerOverrides::read(folder)?;
        let path = folder.join("tokenizer.json");
        let (mut inner, mut facts, path) = if let Some(value) = read_value(&path)? {
            (from_json(&path, &value)?, value, path)
        } else {
            let path = folder.join("vocab.txt");
            let (inner, facts) = from_vocabulary(&path)?;
            (inner, facts, path)
        };
        let refuse = |reason: String| Error::Tokenizer { path: path.clone(), reason };
        let normalizer = overrides.apply(&mut inner);
        if let Value::Object(fields) = &mut facts {
            fields.shift_remove("truncation");
            fields.shift_remove("padding");
            if let Some(normalizer) = normalizer {
                fields.insert("normalizer".into(), normalizer);
            }
        }
        let digest = sha256(sorted(&facts).to_string().as_bytes());

        let special = inner.get_post_processor().map_or(0, |processor| processor.added_tokens(false));
        if settings.max_tokens <= special {
            let reason = format!("a longest input of {} tokens leaves none for the text", settings.max_tokens);
            return Err(refuse(reason));
        }
        let largest = inner.get_vocab(true).into_values().max().unwrap_or(0);
        if largest as usize >= settings.vocab_size {
            return Err(refuse(format!(
                "it has token id {largest}, the model's table has {} rows. Fetch both from one place",
                settings.vocab_size
            )));
        }
        let truncation = TruncationParams { max_length: settings.max_tokens, ..TruncationParams::default() };
        inner.with_padding(None).with_truncation(Some(truncation)).map_err(|error| refuse(error.to_string()))?;
        let cuts = Cuts::of(&inner, settings.lower_case);
        Ok(Self { inner, settings, cuts, special, path, digest })
    }

    /// SHA-256 over what decides the tokens.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Of a long text only the necessary part is tokenized.
    pub(super) fn split(&self, text: &str) -> Result<Tokens, Error> {
        let beginnings = self.cuts.iter().flat_map(|cuts| cuts.beginnings(text, self.settings.max_tokens));
        for beginning in beginnings {
            let tokens = self.split_whole(beginning)?;
            if tokens.truncated {
                return Ok(tokens);
            }
        }
        self.split_whole(text)
    }

    pub(super) fn split_whole(&self, text: &str) -> Result<Tokens, Error> {
        let encoding = self.encoding(text)?;
        Ok(tokens_of(&encoding))
    }

    pub(super) fn encoding(&self, text: &str) -> Result<tokenizers::Encoding, Error> {
        self.encoded(self.cased(text))
    }

    /// Two texts as one input, the longer one cut first where both do not fit. Of a long text only the necessary part is tokenized.
    pub(super) fn pair_encoding(&self, [first, second]: [&str; 2]) -> Result<tokenizers::Encoding, Error> {
        // Of a text that fills the longest input alone no more than that is kept next to another one. Where both do, the longer one keeps
        // a token more, and only the whole texts tell which that is.
        let parts = [self.enough(first)?, self.enough(second)?];
        let [first, second] = match parts {
            [Some(first), None] if !self.split_whole(second)?.truncated => [first, second],
            [None, Some(second)] if !self.split_whole(first)?.truncated => [first, second],
            _ => [first, second],
        };
        self.encoded((self.cased(first), self.cased(second)))
    }

    /// The shortest beginning that is known to fill the longest input, where a long text has one.
    fn enough<'a>(&self, text: &'a str) -> Result<Option<&'a str>, Error> {
        for beginning in self.cuts.iter().flat_map(|cuts| cuts.beginnings(text, self.settings.max_tokens)) {
            if self.split_whole(beginning)?.truncated {
                return Ok(Some(beginning));
            }
        }
        Ok(None)
    }

    fn cased<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.settings.lower_case { text.to_lowercase().into() } else { text.into() }
    }

    fn encoded<'a>(&self, input: impl Into<EncodeInput<'a>>) -> Result<tokenizers::Encoding, Error> {
        let failed = |error: tokenizers::Error| Error::Tokenize { reason: error.to_string() };
        self.inner.encode_fast(input, true).map_err(failed)
    }

    /// The prompt of a tower, and how many tokens it takes.
    fn measure(&self, tower: Tower, prompt: &str) -> Result<Prompt, Error> {
        if prompt.is_empty() {
            return Ok(Prompt::default());
        }
        let tokens = self.split(prompt)?;
        let is_special = |id: &u32| {
            let added = self.inner.get_added_vocabulary();
            self.inner.id_to_token(*id).is_some_and(|token| added.is_special_token(&token))
        };
        let trailing = usize::from(tokens.ids.last().is_some_and(is_special));
        let tokens = tokens.ids.len() - trailing;
        if tokens + self.special > self.settings.max_tokens {
            let limit = self.settings.max_tokens;
            let reason = format!("the {tower} prompt fills the longest input of {limit} tokens");
            return Err(Error::Tokenizer { path: self.path.clone(), reason });
        }
        Ok(Prompt { text: prompt.to_owned(), tokens })
    }
}

/// Splits texts of both towers. Shared between threads.
#[derive(Debug)]
pub struct Tokenizer {
    question: Side,
    answer: Side,
}

#[derive(Debug)]
struct Side {
    splitter: Arc<Splitter>,
    prompt: Prompt,
}

impl Tokenizer {
    /// From the splitters of the question tower and the answer tower, which may be one.
    pub(crate) fn new(splitters: [Arc<Splitter>; 2], prompts: &Prompts) -> Result<Self, Error> {
        let side = |tower: Tower, splitter: Arc<Splitter>| -> Result<Side, Error> {
            let prompt = splitter.measure(tower, prompts.of(tower))?;
            Ok(Side { splitter, prompt })
        };
        let [question, answer] = splitters;
        Ok(Self { question: side(Tower::Question, question)?, answer: side(Tower::Answer, answer)? })
    }

    /// Splits one text of a tower: prompt before it, special tokens around it, cut at the tower's longest input.
    pub fn encode(&self, tower: Tower, text: &str) -> Result<Tokens, Error> {
        let Side { splitter, prompt } = self.side(tower);
        if prompt.text.is_empty() { splitter.split(text) } else { splitter.split(&format!("{}{text}", prompt.text)) }
    }

    /// Splits a question and an answer as one input, for a cross encoder.
    pub fn encode_pair(&self, question: &str, answer: &str) -> Result<Tokens, Error> {
        self.answer.splitter.pair_encoding([question, answer]).map(|encoding| tokens_of(&encoding))
    }

    pub(crate) fn prompt(&self, tower: Tower) -> &Prompt {
        &self.side(tower).prompt
    }

    pub(super) fn splitter(&self, tower: Tower) -> &Splitter {
        &self.side(tower).splitter
    }

    fn side(&self, tower: Tower) -> &Side {
        match tower {
            Tower::Question => &self.question,
            Tower::Answer => &self.answer,
        }
    }
}

/// As the network reads it.
pub(super) fn tokens_of(encoding: &tokenizers::Encoding) -> Tokens {
    Tokens {
        ids: encoding.get_ids().to_vec(),
        truncated: !encoding.get_overflowing().is_empty(),
        second: encoding.get_type_ids().iter().position(|&of_token| of_token > 0),
    }
}

fn from_json(path: &Path, value: &Value) -> Result<tokenizers::Tokenizer, Error> {
    // Through a string: the tokenizer's own reader borrows from its input.
    tokenizers::Tokenizer::from_bytes(value.to_string())
        .map_err(|error| Error::Tokenizer { path: path.to_owned(), reason: error.to_string() })
}

/// BERT's tokenizer from its word list: one token per line, ids from 0.
fn from_vocabulary(path: &Path) -> Result<(tokenizers::Tokenizer, Value), Error> {
    if !path.is_file() {
        let fix = if OTHERS.iter().any(|name| path.with_file_name(name).is_file()) {
            "The tokenizer that is there (SentencePiece's `.model`, or `vocab.json`) is not read. Load the model in Python and save it: `SentenceTransformer(NAME).save_pretrained(DIR)` writes `tokenizer.json`"
        } else {
            "The model needs `tokenizer.json`, or `vocab.txt` for WordPiece. Fetch the whole model directory again"
        };
        return Err(Error::MissingFile { path: path.with_file_name("tokenizer.json"), fix });
    }
    let refuse = |reason: String| Error::Tokenizer { path: path.to_owned(), reason };
    let bytes = fs_err::read(path)?;
    let vocabulary = WordPiece::read_bytes(&bytes).map_err(|error| refuse(error.to_string()))?;
    let id = |token: &str| {
        vocabulary
            .get(token)
            .copied()
            .map(|id| (token.to_owned(), id))
            .ok_or_else(|| refuse(format!("a line that reads `{token}` is missing")))
    };
    let (separator, class) = (id("[SEP]")?, id("[CLS]")?);
    for token in ["[PAD]", "[UNK]"] {
        id(token)?;
    }
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(|token| AddedToken::from(token, true));
    let model = WordPiece::builder()
        .vocab(vocabulary)
        .unk_token("[UNK]".into())
        .build()
        .map_err(|error| refuse(error.to_string()))?;
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    tokenizer
        .with_normalizer(Some(BertNormalizer::default()))
        .with_pre_tokenizer(Some(BertPreTokenizer))
        .with_post_processor(Some(BertProcessing::new(separator, class)));
    tokenizer.add_special_tokens(&special);
    Ok((tokenizer, json!({ "vocab.txt": sha256(&bytes) })))
}

/// Settings of BERT's normaliser in `tokenizer_config.json`, which take precedence over `tokenizer.json` as in transformers.
#[derive(Debug, Default)]
struct NormalizerOverrides {
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
    handle_chinese_chars: Option<bool>,
}

impl NormalizerOverrides {
    fn read(folder: &Path) -> Result<Self, Error> {
        let Some(settings) = JsonFile::open_if_present(&folder.join("tokenizer_config.json"))? else {
            return Ok(Self::default());
        };
        Ok(Self {
            lowercase: settings.flag("do_lower_case")?,
            strip_accents: settings.flag("strip_accents")?,
            handle_chinese_chars: settings.flag("tokenize_chinese_chars")?,
        })
    }

    /// Changes the tokenizer, and gives the normaliser that came out of it; nothing where it is not BERT's.
    fn apply(&self, tokenizer: &mut tokenizers::Tokenizer) -> Option<Value> {
        let Some(NormalizerWrapper::BertNormalizer(normalizer)) = tokenizer.get_normalizer() else { return None };
        let mut normalizer = *normalizer;
        normalizer.lowercase = self.lowercase.unwrap_or(normalizer.lowercase);
        normalizer.strip_accents = self.strip_accents.or(normalizer.strip_accents);
        normalizer.handle_chinese_chars = self.handle_chinese_chars.unwrap_or(normalizer.handle_chinese_chars);
        tokenizer.with_normalizer(Some(normalizer));
        Some(json!({
            "type": "BertNormalizer",
            "clean_text": normalizer.clean_text,
            "handle_chinese_chars": normalizer.handle_chinese_chars,
            "strip_accents": normalizer.strip_accents,
            "lowercase": normalizer.lowercase,
        }))
    }
}
