//! Real texts: read, chosen evenly over a file, or joined and cut to passages of one length.

use std::path::Path;

use dyad_corpus::{CorpusReader, ReadOptions};

use super::tokens::Counter;
use super::workload::{Shape, TextSource};
use crate::harness::{Error, Result, evenly};

/// Characters joined before passages are cut, at least: a few of the longest passages.
const JOINED: usize = 20_000;

/// The texts of one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Texts {
    pub(super) texts: Vec<String>,
    /// Tokens of each, as a model reads them that takes at most what the shape was prepared for.
    pub(super) lengths: Vec<usize>,
}

impl Texts {
    /// Reads the texts of a shape for a model that takes at most `most` tokens.
    pub(super) fn read(shape: &Shape, counter: &Counter, most: usize) -> Result<Self> {
        let mut texts = Vec::new();
        for source in &shape.texts {
            let found = match shape.tokens {
                None => evenly(read(&source.path)?, source.count),
                Some(tokens) => passages(source, counter, tokens)?,
            };
            if found.len() < source.count {
                return Err(Error::Workload {
                    path: source.path.clone(),
                    problem: format!(
                        "`shape.{}.texts.count`: expected at most the {} that the file gives, got {}",
                        shape.name,
                        found.len(),
                        source.count
                    ),
                });
            }
            texts.extend(found);
        }
        // Long and short, and texts of one source, are spread, as they would come.
        let texts = scattered(texts);
        let lengths = texts.iter().map(|text| counter.count(text, most)).collect::<Result<_>>()?;
        Ok(Self { texts, lengths })
    }
}

/// Passages of a corpus in file order; empty ones are left out.
fn read(path: &Path) -> Result<Vec<String>> {
    let fail = |error: dyad_corpus::Error| Error::Workload { path: path.to_owned(), problem: error.to_string() };
    let mut texts = Vec::new();
    for document in CorpusReader::open(path, &ReadOptions::default()).map_err(fail)? {
        let document = document.map_err(fail)?.value;
        let text = document.passage();
        if !text.trim().is_empty() {
            texts.push(text.into_owned());
        }
    }
    Ok(texts)
}

/// Documents of a corpus, joined until there is enough to cut, then cut.
fn passages(source: &TextSource, counter: &Counter, tokens: usize) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut joined = String::new();
    let texts = read(&source.path)?;
    let last = texts.len().saturating_sub(1);
    for (at, text) in texts.into_iter().enumerate() {
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(&text);
        if joined.len() < JOINED && at < last {
            continue;
        }
        found.extend(counter.cut(&joined, tokens, source.count - found.len())?);
        joined.clear();
        if found.len() >= source.count {
            break;
        }
    }
    Ok(found)
}

/// The same texts in another order, always the same one: every step of a full cycle whose length has no factor with theirs.
fn scattered(texts: Vec<String>) -> Vec<String> {
    let count = texts.len();
    let golden = (count as f64 * 0.618) as usize;
    let step = (golden.max(1)..=count.max(1)).find(|&step| greatest_common_divisor(step, count) == 1).unwrap_or(1);
    let mut texts: Vec<Option<String>> = texts.into_iter().map(Some).collect();
    (0..count).filter_map(|at| texts.get_mut(at * step % count).and_then(Option::take)).collect()
}

fn greatest_common_divisor(mut left: usize, mut right: usize) -> usize {
    while right > 0 {
        (left, right) = (right, left % right);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: usize) -> Vec<String> {
        (0..count).map(|at| at.to_string()).collect()
    }

    #[test]
    fn scattering_keeps_every_text() {
        for count in [0, 1, 2, 3, 4, 6, 7, 100, 2000] {
            let mut scattered = scattered(words(count));
            if count > 6 {
                assert_ne!(scattered, words(count));
            }
            scattered.sort_by_key(|word| word.parse::<usize>().unwrap());
            assert_eq!(scattered, words(count));
        }
    }
}
