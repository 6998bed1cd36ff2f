//! Documents that are longer than the model reads: refused, truncated, or split into passages that it reads whole.

use dyad_command::Cancellation;
use dyad_corpus::Document;
use dyad_index::{ModelRecord, Snapshot};
use dyad_indexer::Error;
use dyad_indexer::control::JobControl;
use dyad_indexer::job::build_index;
use dyad_indexer::source::{Documents, Embedded, LongTexts, OnLong, VectorSource};

use crate::fixture::{Fixture, HashSource};

/// Reads as many words as the model of fixtures says tokens, but of words of more than ten letters none.
struct Words(HashSource);

impl VectorSource for Words {
    fn model(&self) -> &ModelRecord {
        self.0.model()
    }

    fn is_in_step(&self) -> bool {
        false
    }

    fn documents(&self) -> Option<u64> {
        None
    }

    fn truncated(&self) -> Option<u64> {
        Some(0)
    }

    fn pull(&mut self, corpus: &mut Documents<'_>, cancel: &Cancellation) -> Result<Option<Embedded>, Error> {
        let Some(embedded) = self.0.pull(corpus, cancel)? else { return Ok(None) };
        let passage = embedded.document.passage().into_owned();
        let tokens: usize = passage.split_whitespace().map(|word| if word.len() > 10 { 40 } else { 1 }).sum();
        Ok(Some(Embedded { truncated: Some(tokens > self.model().max_tokens), ..embedded }))
    }
}

fn document(key: &str, words: usize, word: &str) -> Document {
    let sentences: Vec<String> = (0..words / 5).map(|_| format!("{}.", [word; 5].join(" "))).collect();
    Document { key: key.to_owned(), text: sentences.join(" "), ..Document::default() }
}

#[test]
fn long_documents_are_what_was_asked_for() {
    let all = [document("short", 20, "one"), document("long", 100, "Two"), document("dear", 30, "unpronounceable")];
    let fixture = Fixture::empty();
    fixture.write_corpus(&all);
    let build = |on_long: OnLong| {
        let passages = Some(Words(HashSource::default()));
        let mut source = LongTexts::new(Words(HashSource::default()), on_long, passages);
        build_index(&fixture.config(), &mut source, JobControl::silent())
    };
    let refused = build(OnLong::Error).unwrap_err().to_string();
    assert!(
        refused.starts_with("document `long` has more than the 64 tokens") && refused.contains("--on-long split"),
        "{refused}"
    );
    assert_eq!(build(OnLong::Truncate).unwrap().manifest.documents(), 3);
    let manifest = build(OnLong::Split).unwrap().manifest;
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let text = |key: &str| {
        let found = snapshot.find(key).unwrap();
        found.map(|(shard, node)| snapshot.document(shard, node).unwrap().text)
    };
    assert_eq!(text("short").as_deref(), Some(all[0].text.as_str()), "whole as it is");
    assert!(text("long").is_none() && text("dear").is_none());
    // Half of 64 words, in whole sentences of five; of the others, that many words are still too long: 32, 16, 8, 4, 2, 1 of 40 tokens each.
    let long: Vec<String> = (0..).map_while(|number| text(&format!("long#{number}"))).collect();
    assert_eq!(long.iter().map(|text| text.split(' ').count()).collect::<Vec<_>>(), [30, 30, 30, 10]);
    assert_eq!(long.join(" "), all[1].text);
    assert_eq!((0..).map_while(|number| text(&format!("dear#{number}"))).count(), 30);
    assert_eq!(manifest.documents(), 1 + 4 + 30);
    // Each is read whole; of the source's own two, which were truncated, none is left.
    assert_eq!(manifest.change.unwrap().truncated, Some(0));
}

#[test]
fn a_source_that_does_not_say_is_refused() {
    let fixture = Fixture::new(3);
    let mut source = LongTexts::new(HashSource::default(), OnLong::Error, None::<HashSource>);
    let refused = build_index(&fixture.config(), &mut source, JobControl::silent()).unwrap_err().to_string();
    assert!(refused.contains("does not say which texts it truncates"), "{refused}");
}
