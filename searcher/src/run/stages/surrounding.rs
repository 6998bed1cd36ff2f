//! What stands around a passage in its document.

use std::ops::Range;
use std::sync::Arc;

use dyad_index::Snapshot;
use dyad_index::lexical::PlaceInDocument;
use dyad_index::search::NodeSet;
use dyad_proto::v1;

use crate::error::Result;

/// Reads what stands around the hits of one reply.
pub(in crate::run) struct Surroundings<'a> {
    snapshot: &'a Snapshot,
    /// Most bytes before and after a passage.
    bytes: usize,
    /// The nodes of each shard that exist for the caller, where these are not all: the rest of documents is left blank.
    scope: Option<Arc<[NodeSet]>>,
    /// The document that was read last, by its shard and number: passages of one document often come together.
    last: Option<((usize, u32), String)>,
}

impl<'a> Surroundings<'a> {
    pub(in crate::run) fn new(snapshot: &'a Snapshot, bytes: usize, scope: Option<Arc<[NodeSet]>>) -> Self {
        Self {
            snapshot,
            bytes,
            scope,
            last: None,
        }
    }

    /// Around a document of this text; none where it is no passage of another one.
    pub(in crate::run) fn read(&mut self, shard: usize, node: u32, text: &str) -> Result<Option<v1::Surrounding>> {
        let Some(of) = self.snapshot.shards().get(shard) else {
            return Ok(None);
        };
        let Some(places) = &of.places else { return Ok(None) };
        let Some(PlaceInDocument { document, bytes }) = places.get(node) else {
            return Ok(None);
        };
        let Some(document) = document else {
            return Ok(Some(around(text, bytes, self.bytes)));
        };
        if self.last.as_ref().is_none_or(|(last, _)| *last != (shard, document)) {
            let all = Range {
                start: 0,
                end: usize::MAX,
            };
            let allowed = self.scope.as_ref().map(|scope| scope.get(shard));
            let shown = match allowed {
                None => places.text_without(document, &|node| of.is_live(node), &[])?,
                Some(allowed) => {
                    let is_allowed = |node| allowed.is_some_and(|nodes| nodes.contains(node));
                    places.text_without(document, &is_allowed, std::slice::from_ref(&all))?
                }
            };
            self.last = Some(((shard, document), shown));
        }
        Ok(self
            .last
            .as_ref()
            .map(|(_, document)| around(document, bytes, self.bytes)))
    }
}

/// At most `most` bytes around a part of a document: half before and half after, and more on one side where the other
/// one has less.
fn around(document: &str, bytes: Range<usize>, most: usize) -> v1::Surrounding {
    let before = document.get(..bytes.start).unwrap_or_default();
    let after = document.get(bytes.end..).unwrap_or_default();
    let half = most / 2;
    let left = most - half.min(after.len());
    let right = most - half.min(before.len());
    v1::Surrounding {
        before: last_words(before, left).to_owned(),
        after: first_words(after, right).to_owned(),
        start: bytes.start as u32,
        end: bytes.end as u32,
        document_bytes: document.len() as u32,
    }
}

/// The end of a text, from where a word begins; of a single word as much as there is room for.
fn last_words(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let from = text.ceil_char_boundary(text.len() - most);
    let end = text.get(from..).unwrap_or_default();
    if text
        .get(..from)
        .is_some_and(|before| before.ends_with(char::is_whitespace))
    {
        return end;
    }
    let word = end.find(char::is_whitespace).and_then(|at| end.get(at..));
    word.map(str::trim_start)
        .filter(|words| !words.is_empty())
        .unwrap_or(end)
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
    words
        .map(str::trim_end)
        .filter(|words| !words.is_empty())
        .unwrap_or(begin)
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
            let v1::Surrounding {
                before,
                after,
                start,
                end,
                document_bytes,
            } = around(document, passage.clone(), most);
            assert!(before.len() + after.len() <= most);
            assert_eq!((start, end, document_bytes as usize), (15, 26, document.len()));
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
        assert_eq!(
            (
                first_words("ab cd", 2),
                first_words("ab cd", 3),
                first_words("ab cd", 4)
            ),
            ("ab", "ab", "ab")
        );
    }
}
