//! What stands around a passage in its document.

use std::collections::HashMap;
use std::sync::Arc;

use dyad_index::Snapshot;
use dyad_index::lexical::{GoneText, StoredPlace};
use dyad_index::search::NodeSet;

use crate::error::Result;

/// A passage's document before and after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surrounding {
    /// What stands before it, of whole words.
    pub before: String,
    /// What stands after it, of whole words.
    pub after: String,
    /// The bytes of the passage in its document.
    pub bytes: std::ops::Range<usize>,
    /// Bytes of the document.
    pub document_bytes: usize,
}

/// Reads what stands around the hits of one reply.
pub(super) struct Surroundings<'a> {
    snapshot: &'a Snapshot,
    /// Most bytes before and after a passage.
    bytes: usize,
    /// By shard, the nodes that exist for the caller, where these are not all: others are left blank.
    scope: Option<Arc<[NodeSet]>>,
    /// By shard, what is left blank in its documents: all but the caller's passages.
    hidden: HashMap<usize, GoneText>,
}

impl<'a> Surroundings<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, bytes: usize, scope: Option<Arc<[NodeSet]>>) -> Self {
        Self { snapshot, bytes, scope, hidden: HashMap::new() }
    }

    /// Around a document of this text; none where it is no passage of another one.
    pub(super) fn of(&mut self, shard: usize, node: u32, text: &str) -> Result<Option<Surrounding>> {
        let Some(StoredPlace { document, bytes }) = self.place(shard, node)? else { return Ok(None) };
        let document = document.as_deref().unwrap_or(text);
        Ok(Some(around(document, bytes, self.bytes)))
    }

    fn place(&mut self, shard: usize, node: u32) -> Result<Option<StoredPlace>> {
        let Some(scope) = &self.scope else { return Ok(self.snapshot.place(shard, node)?) };
        let of = self.snapshot.shards().get(shard);
        let Some((places, allowed)) = of.and_then(|of| of.places.as_ref()).zip(scope.get(shard)) else {
            return Ok(None);
        };
        let nodes = of.map_or(0, |of| of.dense.len() as u32);
        let hide = || places.all_but(nodes, |node| allowed.contains(node));
        let hidden = self.hidden.entry(shard).or_insert_with(hide);
        Ok(places.place(node, hidden)?)
    }
}

/// At most so many bytes around a part of a document: half before and half after, and more on one side where the other one has less.
fn around(document: &str, bytes: std::ops::Range<usize>, most: usize) -> Surrounding {
    let before = document.get(..bytes.start).unwrap_or_default();
    let after = document.get(bytes.end..).unwrap_or_default();
    let half = most / 2;
    let left = most - half.min(after.len());
    let right = most - half.min(before.len());
    Surrounding {
        before: last_words(before, left).to_owned(),
        after: first_words(after, right).to_owned(),
        bytes,
        document_bytes: document.len(),
    }
}

/// The end of a text, from where a word begins; of a single word as much as there is room for.
fn last_words(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let from = text.ceil_char_boundary(text.len() - most);
    let end = text.get(from..).unwrap_or_default();
    if text.get(..from).is_some_and(|before| before.ends_with(char::is_whitespace)) {
        return end;
    }
    let word = end.find(char::is_whitespace).and_then(|at| end.get(at..));
    word.map(str::trim_start).filter(|words| !words.is_empty()).unwrap_or(end)
}

/// The beginning of a text, to where a word ends; of a single word as much as there is room for.
fn first_words(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let (begin, rest) = text.split_at(text.floor_char_boundary(most));
    if rest.starts_with(char::is_whitespace) {
        return begin;
    }
    let words = begin.rfind(char::is_whitespace).and_then(|at| begin.get(..at));
    words.map(str::trim_end).filter(|words| !words.is_empty()).unwrap_or(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_of_whole_words_and_share_the_room() {
        let document = "One two three. Here it is. Four fünf six.";
        let passage = 15..26;
        assert_eq!(&document[passage.clone()], "Here it is.");
        let shown = |most: usize| {
            let Surrounding { before, after, bytes, document_bytes } = around(document, passage.clone(), most);
            assert!(before.len() + after.len() <= most && (bytes, document_bytes) == (passage.clone(), document.len()));
            (before, after)
        };
        let both = |before: &str, after: &str| (before.to_owned(), after.to_owned());
        assert_eq!(shown(1000), both("One two three. ", " Four fünf six."));
        assert_eq!(shown(20), both("three. ", " Four"));
        assert_eq!(shown(0), both("", ""));
        // What one side does not need is for the other one.
        let first = around("Here. One two three.", 0..5, 12);
        assert_eq!((first.before.as_str(), first.after.as_str()), ("", " One two"));
        // No word is longer than its room, and letters stay whole.
        assert_eq!(last_words("aaaß", 2), "ß");
        assert_eq!(first_words("ßaaa", 3), "ßa");
        assert_eq!((last_words("ab cd", 3), last_words("ab cd", 2)), ("cd", "cd"));
        assert_eq!((first_words("ab cd", 2), first_words("ab cd", 3), first_words("ab cd", 4)), ("ab", "ab", "ab"));
    }
}
