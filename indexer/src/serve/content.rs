//! A hash of all that a call brings.

use dyad_proto::v1;
use xxhash_rust::xxh3::Xxh3;

use super::gathered::WantedChange;

/// Texts and numbers one after another, of which the hash tells where each ends.
struct ContentHash(Xxh3);

impl ContentHash {
    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.update(text.as_bytes());
    }

    fn count(&mut self, count: usize) {
        self.0.update(&(count as u64).to_le_bytes());
    }

    fn documents(&mut self, documents: &[v1::Document]) {
        self.count(documents.len());
        for document in documents {
            for text in [&document.key, &document.title, &document.text, &document.metadata_json] {
                self.text(text);
            }
        }
    }
}

/// The hash of what a call changes and of what it expects, however it was divided into messages.
pub(super) fn content_of(change: &WantedChange, expected: &[v1::ExpectedDocument]) -> String {
    let mut hash = ContentHash(Xxh3::new());
    match change {
        WantedChange::Upsert(documents) => {
            hash.text("upsert");
            hash.documents(documents);
        }
        WantedChange::UpsertVectors {
            origin,
            documents,
            vectors,
        } => {
            hash.text("upsert with vectors");
            hash.text(&origin.fingerprint);
            hash.text(&origin.context);
            hash.documents(documents);
            for vector in vectors {
                hash.count(vector.len());
                for value in vector {
                    hash.0.update(&value.to_le_bytes());
                }
            }
        }
        WantedChange::Delete(keys) => {
            hash.text("delete");
            hash.count(keys.len());
            for key in keys {
                hash.text(key);
            }
        }
        WantedChange::DeleteMatching(filter) => {
            hash.text("delete by a filter");
            hash.text(&format!("{filter:?}"));
        }
    }
    for document in expected {
        hash.text(&document.key);
        hash.text(&document.etag);
    }
    format!("{:032x}", hash.0.digest128())
}
