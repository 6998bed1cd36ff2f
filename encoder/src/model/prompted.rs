//! A model with other prompts: its tokens, and its fingerprint. The network is the same, and is not looked at.

use std::sync::Arc;

use crate::checkpoint::{ModuleRecords, fingerprint};
use crate::config::{Layout, Prompts, Tower};
use crate::error::Error;
use crate::tokenize::{PromptError, Splitter, Tokenizer};

/// What a model's fingerprint is made of, but for its prompts.
#[derive(Debug)]
struct ModelFacts {
    layout: Layout,
    splitters: [Arc<Splitter>; 2],
    records: Vec<ModuleRecords>,
}

impl ModelFacts {
    fn fingerprint(&self, prompts: &Prompts) -> Arc<str> {
        let layout = Layout {
            prompts: prompts.clone(),
            ..self.layout.clone()
        };
        let digests = self.splitters.each_ref().map(|splitter| splitter.digest());
        fingerprint(&layout, digests, &self.records).into()
    }
}

/// What prompts decide of a model: how texts become tokens, and the model's fingerprint.
#[derive(Debug, Clone)]
pub(crate) struct PromptedModel {
    facts: Arc<ModelFacts>,
    prompts: Prompts,
    tokenizer: Arc<Tokenizer>,
    fingerprint: Arc<str>,
}

impl PromptedModel {
    /// With the prompts of the model's files.
    pub(super) fn new(
        layout: &Layout,
        splitters: [Arc<Splitter>; 2],
        records: Vec<ModuleRecords>,
    ) -> Result<Self, Error> {
        let facts = Arc::new(ModelFacts {
            layout: layout.clone(),
            splitters,
            records,
        });
        Self::of(facts, layout.prompts.clone())
    }

    fn of(facts: Arc<ModelFacts>, prompts: Prompts) -> Result<Self, Error> {
        Ok(Self {
            tokenizer: Arc::new(Tokenizer::new(facts.splitters.clone(), &prompts)?),
            fingerprint: facts.fingerprint(&prompts),
            facts,
            prompts,
        })
    }

    /// With these prompts instead.
    pub(super) fn with_prompts(&self, prompts: Prompts) -> Result<Self, Error> {
        Self::of(Arc::clone(&self.facts), prompts)
    }

    /// The same model with this text before the texts of a tower, as one that was opened with that prompt.
    pub(crate) fn with_prompt(&self, tower: Tower, text: &str) -> Result<Self, PromptError> {
        let tokenizer = Arc::new(self.tokenizer.with_prompt(tower, text)?);
        let prompts = self.prompts.clone().with(tower, text);
        Ok(Self {
            fingerprint: self.facts.fingerprint(&prompts),
            facts: Arc::clone(&self.facts),
            prompts,
            tokenizer,
        })
    }

    pub(super) fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    pub(crate) fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    pub(crate) fn fingerprint(&self) -> &Arc<str> {
        &self.fingerprint
    }

    /// Tokens at the beginning of every text of a tower that its pooling leaves out: those of the prompt, where it does
    /// so.
    pub(crate) fn skipped_tokens(&self, tower: Tower) -> usize {
        if self.facts.layout.leaves_prompt_out(tower) {
            self.tokenizer.prompt(tower).tokens
        } else {
            0
        }
    }
}
