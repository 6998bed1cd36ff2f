//! A hash of a document's content, by which writers tell whether it is what they have read.

use xxhash_rust::xxh3::Xxh3;

use super::StoredDocument;

impl StoredDocument {
    /// 32 hexadecimal digits of key, title, text and metadata as they are stored: the same whatever happens to the
    /// shards in which the document is.
    pub fn etag(&self) -> String {
        let Self {
            key,
            title,
            text,
            metadata_json,
        } = self;
        let mut hash = Xxh3::new();
        for part in [key, title, text, metadata_json] {
            // Its length tells where it ends.
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        format!("{:032x}", hash.digest128())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn any_other_content_has_another_etag() {
        let of = |parts: [&str; 4]| {
            let [key, title, text, metadata_json] = parts.map(str::to_owned);
            let document = StoredDocument {
                key,
                title,
                text,
                metadata_json,
            };
            document.etag()
        };
        let parts = [
            ["a", "", "", ""],
            ["", "a", "", ""],
            ["", "", "a", ""],
            ["", "", "", "a"],
            ["ab", "c", "", ""],
            ["a", "bc", "", ""],
            ["", "", "", ""],
        ];
        let etags: BTreeSet<String> = parts.map(of).into();
        assert_eq!(etags.len(), parts.len());
        assert_eq!(of(["k", "T", "x", "{}"]), of(["k", "T", "x", "{}"]));
    }
}
