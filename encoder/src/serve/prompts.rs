//! Prompts of requests: how the model is prompted with each, kept for the requests to come.
//!
//! A prompt is tokenized to be measured, and decides the fingerprint; with it a request is embedded as by a model that
//! was opened with that prompt. The ones that were used last are kept, within bounds of number and bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::EncodeError;
use crate::config::Tower;
use crate::model::PromptedModel;
use crate::tokenize::PromptError;

/// Prompts that are kept.
const ENTRIES: usize = 256;
/// Bytes of all that are kept.
const BYTES: usize = 1 << 20;

/// A model with its own prompts, and with those of the last requests.
#[derive(Debug)]
pub(super) struct PromptCache {
    own: Arc<PromptedModel>,
    recent: Mutex<RecentPrompts>,
}

impl PromptCache {
    pub(super) fn new(own: PromptedModel) -> Self {
        Self {
            own: Arc::new(own),
            recent: Mutex::new(RecentPrompts::within(ENTRIES, BYTES)),
        }
    }

    /// The model with the prompts that it was opened with.
    pub(super) fn own(&self) -> &Arc<PromptedModel> {
        &self.own
    }

    /// The model with this text before the texts of a tower; its own prompt where there is none. Tokenizes a prompt
    /// that is not kept, which is no work for the threads of a runtime.
    pub(super) fn with(&self, tower: Tower, prompt: Option<&str>) -> Result<Arc<PromptedModel>, EncodeError> {
        let own = &self.own.tokenizer().prompt(tower).text;
        let Some(prompt) = prompt.filter(|prompt| prompt != own) else {
            return Ok(Arc::clone(&self.own));
        };
        let lock = || self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = lock().get(tower, prompt) {
            return Ok(kept);
        }
        // Not under the lock: two requests that bring one prompt may both measure it.
        let prompted = self.own.with_prompt(tower, prompt).map_err(|error| match error {
            PromptError::TooLong { tokens, limit } => EncodeError::PromptTooLong { tokens, limit },
            PromptError::Failed(error) => EncodeError::Model(Arc::new(error)),
        })?;
        let prompted = Arc::new(prompted);
        lock().keep(tower, prompt, &prompted);
        Ok(prompted)
    }
}

/// The last prompts of requests, by tower and text.
#[derive(Debug)]
struct RecentPrompts {
    kept: [HashMap<String, RecentPrompt>; 2],
    entries: usize,
    bytes: usize,
    /// Bytes of the texts that are kept.
    held: usize,
    /// Counts uses.
    now: u64,
}

#[derive(Debug)]
struct RecentPrompt {
    prompted: Arc<PromptedModel>,
    used: u64,
}

impl RecentPrompts {
    /// Keeps as many prompts, with as many bytes in all.
    fn within(entries: usize, bytes: usize) -> Self {
        Self {
            kept: Default::default(),
            entries,
            bytes,
            held: 0,
            now: 0,
        }
    }

    fn get(&mut self, tower: Tower, prompt: &str) -> Option<Arc<PromptedModel>> {
        self.now += 1;
        let entry = self.kept[tower.index()].get_mut(prompt)?;
        entry.used = self.now;
        Some(Arc::clone(&entry.prompted))
    }

    fn keep(&mut self, tower: Tower, prompt: &str, prompted: &Arc<PromptedModel>) {
        if prompt.len() > self.bytes {
            return;
        }
        self.now += 1;
        let entry = RecentPrompt {
            prompted: Arc::clone(prompted),
            used: self.now,
        };
        if self.kept[tower.index()].insert(prompt.to_owned(), entry).is_none() {
            self.held += prompt.len();
        }
        while self.kept.iter().map(HashMap::len).sum::<usize>() > self.entries || self.held > self.bytes {
            self.remove_oldest();
        }
    }

    /// Removes the one whose last use is longest ago.
    fn remove_oldest(&mut self) {
        let all = Tower::BOTH.into_iter().flat_map(|tower| {
            let of_tower = self.kept[tower.index()].iter();
            of_tower.map(move |(prompt, entry)| (entry.used, tower, prompt))
        });
        let Some((_, tower, prompt)) = all.min_by_key(|(used, ..)| *used) else {
            return;
        };
        let prompt = prompt.clone();
        self.kept[tower.index()].remove(&prompt);
        self.held -= prompt.len();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::device::Compute;
    use crate::model::Model;

    fn prompted() -> PromptedModel {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny/classic-prompt-left-out");
        Model::open(&directory, &Compute::default()).unwrap().prompted().clone()
    }

    #[test]
    fn the_prompts_that_were_used_last_are_kept_within_both_bounds() {
        let model = Arc::new(prompted());
        let mut recent = RecentPrompts::within(3, 10);
        let kept = |recent: &RecentPrompts, prompt: &str| {
            Tower::BOTH.map(|tower| recent.kept[tower.index()].contains_key(prompt))
        };
        recent.keep(Tower::Question, "aa", &model);
        recent.keep(Tower::Answer, "aa", &model);
        recent.keep(Tower::Question, "bb", &model);
        assert!(recent.get(Tower::Question, "aa").is_some() && recent.get(Tower::Answer, "bb").is_none());
        recent.keep(Tower::Question, "cc", &model);
        assert_eq!(kept(&recent, "aa"), [true, false], "three entries");
        recent.keep(Tower::Question, "cc", &model);
        assert_eq!(
            (recent.held, kept(&recent, "bb")),
            (6, [true, false]),
            "kept again, it counts once"
        );
        recent.keep(Tower::Question, "eight ch", &model);
        assert_eq!((recent.held, kept(&recent, "cc")), (10, [true, false]), "ten bytes");
        assert_eq!((kept(&recent, "aa"), kept(&recent, "bb")), ([false; 2], [false; 2]));
        recent.keep(Tower::Question, "eleven char", &model);
        assert_eq!(recent.held, 10, "what can never be kept takes nothing's place");
    }

    #[test]
    fn a_prompt_is_measured_once_and_the_models_own_is_the_model_itself() {
        let cache = PromptCache::new(prompted());
        let own = |prompt| Arc::ptr_eq(&cache.with(Tower::Question, prompt).unwrap(), cache.own());
        assert!(own(None) && own(Some("query: ")) && !own(Some("passage: ")) && !own(Some("")));
        let with = |prompt| cache.with(Tower::Question, Some(prompt)).unwrap();
        assert!(Arc::ptr_eq(&with("river "), &with("river ")));
        assert_eq!(
            (with("").skipped_tokens(Tower::Question), with("").fingerprint().len()),
            (0, 64)
        );
        assert!(with("river ").skipped_tokens(Tower::Question) > 0);
        // The model reads 24 tokens.
        let long = cache.with(Tower::Question, Some(&"river ".repeat(22))).unwrap_err();
        assert!(
            matches!(long, EncodeError::PromptTooLong { tokens: 24, limit: 24 }),
            "{long:?}"
        );
        assert!(cache.with(Tower::Question, Some(&"river ".repeat(21))).is_ok());
    }
}
