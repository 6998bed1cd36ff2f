//! The name of a model: SHA-256 over everything that decides its vectors.
//!
//! The digest is taken over a text of one line per fact, in this order, each line ended by `\n`:
//!
//! ```text
//! dyad-fingerprint 1
//! architecture {"model_type":"bert","hidden_size":384,...}    fields of `config.json` that the network uses
//! max_tokens 256
//! lower_case false                                            lowercasing before the tokenizer
//! tokenizer <sha256>                                          see `Tokenizer::open`: truncation and padding left out
//! prompt question "query: "                                   JSON string
//! prompt answer ""
//! module {"pooling":["mean"],"include_prompt":true}           one line per module, in order
//! module {"dense":{"bias":true,...}}
//! module "normalize"
//! truncate_dim null
//! tensor transformer embeddings.LayerNorm.bias F32 [384] <sha256 of the stored bytes>
//! ...                                                         every tensor used, by file, then by name
//! ```
//!
//! Device and computing dtype are left out: they change vectors by rounding only. Tensors that no module uses
//! (an old pooler, position counters) are left out too.

use std::fmt;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Bytes printed as lower-case hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hex(pub(crate) [u8; 32]);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What the fingerprint says about one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorRecord {
    /// As the architecture names it.
    pub(crate) name: String,
    /// As stored.
    pub(crate) dtype: String,
    /// Row-major.
    pub(crate) shape: Vec<usize>,
    /// Of the stored bytes.
    pub(crate) sha256: String,
}

/// The facts in their order, written as they come.
#[derive(Debug)]
pub(crate) struct Fingerprint(String);

impl Fingerprint {
    pub(crate) fn new() -> Self {
        Self("dyad-fingerprint 1\n".into())
    }

    /// Adds a line; JSON values escape line ends, so no fact can imitate another.
    pub(crate) fn fact(&mut self, name: &str, value: &Value) {
        self.0.extend([name, " ", &value.to_string(), "\n"]);
    }

    /// Adds the tensors of one file, sorted by name.
    pub(crate) fn tensors(&mut self, file: &str, mut tensors: Vec<TensorRecord>) {
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        for tensor in tensors {
            let lengths: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
            let shape = lengths.join(", ");
            let TensorRecord { name, dtype, sha256, .. } = tensor;
            self.0.extend(["tensor ", file, " ", &name, " ", &dtype, " [", &shape, "] ", &sha256, "\n"]);
        }
    }

    /// The digest in lower-case hexadecimal.
    pub(crate) fn finish(&self) -> String {
        Hex(Sha256::digest(self.0.as_bytes()).into()).to_string()
    }
}

/// The same JSON with the keys of every object sorted, so that rewriting a file does not rename a model.
pub(crate) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut entries: Vec<_> = fields.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_digest_is_that_of_the_documented_text() {
        let mut facts = Fingerprint::new();
        facts.fact("max_tokens", &json!(256));
        let tensor = |name: &str| TensorRecord {
            name: name.into(),
            dtype: "F32".into(),
            shape: vec![2, 3],
            sha256: "00".into(),
        };
        facts.tensors("transformer", vec![tensor("b"), tensor("a")]);
        // printf 'dyad-fingerprint 1\nmax_tokens 256\ntensor transformer a F32 [2, 3] 00\ntensor transformer b F32 [2, 3] 00\n' | sha256sum
        assert_eq!(facts.finish(), "3627f2d407ad7aa674cc9bbaa2e3e25de180cb1407fc1df3ebc41450ccb23dec");
    }

    #[test]
    fn key_order_does_not_matter_and_array_order_does() {
        let parse = |text: &str| sorted(&serde_json::from_str(text).unwrap()).to_string();
        assert_eq!(parse(r#"{"b":1,"a":{"d":2,"c":3}}"#), parse(r#"{"a":{"c":3,"d":2},"b":1}"#));
        assert_ne!(parse("[1,2]"), parse("[2,1]"));
    }

    #[test]
    fn a_value_cannot_imitate_a_line() {
        let mut one = Fingerprint::new();
        one.fact("prompt question", &json!("a\nprompt answer \"b\""));
        let mut two = Fingerprint::new();
        two.fact("prompt question", &json!("a"));
        two.fact("prompt answer", &json!("b"));
        assert_ne!(one.finish(), two.finish());
    }
}
