//! A cache of the towers' question vectors, by tower and text. One tower has one fingerprint.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// What the tower said of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedQuestion {
    /// The vector.
    pub values: Vec<f32>,
    /// Tokens that were read of it.
    pub tokens: u32,
    /// Whether it has more.
    pub truncated: bool,
}

/// The number of the tower, and the question's text.
type QuestionCacheKey = (usize, String);

/// Counts the bytes of text and vector.
#[derive(Debug, Clone)]
struct QuestionBytes;

/// Bytes of an entry beyond text and vector, about.
const OVERHEAD: usize = 128;

impl Weighter<QuestionCacheKey, Arc<CachedQuestion>> for QuestionBytes {
    fn weight(&self, key: &QuestionCacheKey, question: &Arc<CachedQuestion>) -> u64 {
        let (_, text) = key;
        (text.len() + size_of_val(question.values.as_slice()) + OVERHEAD) as u64
    }
}

/// The vectors of the questions that were asked last and most often, within a number of bytes.
pub struct QuestionCache {
    cache: Cache<QuestionCacheKey, Arc<CachedQuestion>, QuestionBytes>,
}

impl std::fmt::Debug for QuestionCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (bytes, capacity) = (self.cache.weight(), self.cache.capacity());
        f.debug_struct("QuestionCache")
            .field("bytes", &bytes)
            .field("capacity", &capacity)
            .finish_non_exhaustive()
    }
}

impl QuestionCache {
    /// For vectors of `dim` values or more; none where `bytes` is 0.
    pub fn new(bytes: usize, dim: usize) -> Option<Self> {
        let expected = bytes / (dim * size_of::<f32>() + 2 * OVERHEAD);
        (bytes > 0).then(|| Self {
            cache: Cache::with_weighter(expected, bytes as u64, QuestionBytes),
        })
    }

    /// What is known of a question.
    pub fn get(&self, tower: usize, text: &str) -> Option<Arc<CachedQuestion>> {
        self.cache.get(&(tower, text.to_owned()))
    }

    /// Keeps what the tower said, in place of others.
    pub fn insert(&self, tower: usize, text: &str, question: CachedQuestion) {
        self.cache.insert((tower, text.to_owned()), Arc::new(question));
    }

    /// Bytes that are taken.
    pub fn bytes(&self) -> u64 {
        self.cache.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(value: f32) -> CachedQuestion {
        CachedQuestion {
            values: vec![value; 96],
            tokens: 4,
            truncated: false,
        }
    }

    #[test]
    fn the_cache_stays_within_its_bytes_whatever_comes() {
        assert!(QuestionCache::new(0, 96).is_none());
        let cache = QuestionCache::new(64 << 10, 96).unwrap();
        for number in 0..10_000 {
            let text = format!("{number} {}", "long ".repeat(number % 50));
            cache.insert(number % 2, &text, question(number as f32));
            assert!(cache.bytes() <= 64 << 10);
        }
        assert!(cache.bytes() > 32 << 10);
        // Larger than all of it: not kept, and nothing breaks.
        cache.insert(0, &"x".repeat(1 << 20), question(0.0));
        assert!(cache.bytes() <= 64 << 10);
    }

    #[test]
    fn what_is_kept_is_what_was_given() {
        let cache = QuestionCache::new(1 << 20, 96).unwrap();
        cache.insert(0, "a", question(1.0));
        cache.insert(0, "a", question(2.0));
        assert_eq!(*cache.get(0, "a").unwrap(), question(2.0));
        assert_eq!((cache.get(0, "A"), cache.get(1, "a")), (None, None));
    }
}
