//! The name of a model: SHA-256 over everything that decides its vectors.
//!
//! The digest is taken over a text of one line per fact, in this order, each line ended by `\n`:
//!
//! ```text
//! dyad-fingerprint 1
//! architecture {"model_type":"bert","hidden_size":384,...}    fields of `config.json` that the network uses
//! max_tokens 256
//! lower_case false                                            lowercasing before the tokenizer
//! tokenizer <sha256>                                          see `Splitter::open`: truncation and padding left out
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

use serde_json::{Value, json};

use crate::config::{Layout, Module, Tower, sha256};

/// A tensor's part of the fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorRecord {
    /// Name in the architecture.
    pub(crate) name: String,
    /// Stored data type.
    pub(crate) dtype: String,
    /// The lengths of the dimensions, the slowest first.
    pub(crate) shape: Vec<usize>,
    /// Digest of the stored bytes.
    pub(crate) sha256: String,
}

/// The tensors that a module uses: its place, and a record of each, in the order in which it takes them.
pub(crate) type ModuleRecords = (usize, Vec<TensorRecord>);

/// The facts in their order, written as they come.
#[derive(Debug)]
struct Fingerprint(String);

impl Fingerprint {
    fn new() -> Self {
        Self("dyad-fingerprint 1\n".into())
    }

    /// Adds a line; JSON values escape line ends, so no fact can imitate another.
    fn add_fact(&mut self, name: &str, value: &Value) {
        self.0.extend([name, " ", &value.to_string(), "\n"]);
    }

    /// Adds the tensors of one file, sorted by name.
    fn add_tensors(&mut self, file: &str, mut tensors: Vec<TensorRecord>) {
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        for tensor in tensors {
            let lengths: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
            let shape = lengths.join(", ");
            let TensorRecord {
                name, dtype, sha256, ..
            } = tensor;
            self.0.extend([
                "tensor ", file, " ", &name, " ", &dtype, " [", &shape, "] ", &sha256, "\n",
            ]);
        }
    }

    /// The digest in lower-case hexadecimal.
    fn finish(&self) -> String {
        sha256(self.0.as_bytes())
    }
}

/// The name of the model by content; `tokenizers`: the digests of both towers'. A siamese model and its parts are named
/// as they have always been; of two towers every fact says whose it is, and tensors are named by the folder of their
/// module.
pub(crate) fn fingerprint(layout: &Layout, tokenizers: [&str; 2], records: &[ModuleRecords]) -> String {
    let mut facts = Fingerprint::new();
    let siamese = layout.is_siamese();
    let towers: &[Tower] = if siamese { &[Tower::Answer] } else { &Tower::BOTH };
    let named = |tower: Tower, name: &str| {
        if siamese {
            name.to_owned()
        } else {
            format!("{tower} {name}")
        }
    };
    let prompt = |facts: &mut Fingerprint, tower: Tower| {
        facts.add_fact(&format!("prompt {tower}"), &json!(layout.prompts.of(tower)));
    };
    for &tower in towers {
        if let Ok((_, _, config)) = layout.transformer(tower) {
            facts.add_fact(&named(tower, "architecture"), &config.architecture.fact());
            facts.add_fact(&named(tower, "max_tokens"), &json!(config.max_tokens()));
            facts.add_fact(&named(tower, "lower_case"), &json!(config.lower_case));
            facts.add_fact(&named(tower, "tokenizer"), &json!(tokenizers[tower.index()]));
        }
        if siamese {
            prompt(&mut facts, Tower::Question);
        }
        prompt(&mut facts, tower);
        for placed in layout.route(tower) {
            let fact = match &placed.module {
                Module::Transformer(_) if siamese => continue,
                Module::Transformer(_) => json!("transformer"),
                Module::Pooling(pooling) => pooling.fact(),
                Module::MultiHop(multihop) => multihop.fact(),
                Module::Dense(dense) => dense.fact(),
                Module::Normalize => json!("normalize"),
            };
            let fact = if siamese { fact } else { json!([placed.id, fact]) };
            facts.add_fact(&named(tower, "module"), &fact);
        }
    }
    facts.add_fact(
        "truncate_dim",
        &layout.truncate_dim.map_or(Value::Null, |kept| json!(kept)),
    );
    let mut dense = 0;
    for (at, records) in records {
        let placed = layout.modules.get(*at);
        let file = match placed.map(|placed| &placed.module) {
            _ if !siamese => format!("{:?}", placed.map_or("", |placed| &placed.id)),
            Some(Module::Dense(_)) => {
                dense += 1;
                format!("dense-{dense}")
            }
            Some(Module::MultiHop(_)) => "multihop".to_owned(),
            _ => "transformer".to_owned(),
        };
        facts.add_tensors(&file, records.clone());
    }
    facts.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_digest_is_that_of_the_documented_text() {
        let mut facts = Fingerprint::new();
        facts.add_fact("max_tokens", &json!(256));
        let tensor = |name: &str| TensorRecord {
            name: name.into(),
            dtype: "F32".into(),
            shape: vec![2, 3],
            sha256: "00".into(),
        };
        facts.add_tensors("transformer", vec![tensor("b"), tensor("a")]);
        //     printf 'dyad-fingerprint 1\nmax_tokens 256\ntensor transformer a F32 [2, 3] 00\ntensor transformer b F32 [2, 3] 00\n' | sha256sum
        assert_eq!(
            facts.finish(),
            "3627f2d407ad7aa674cc9bbaa2e3e25de180cb1407fc1df3ebc41450ccb23dec"
        );
    }

    #[test]
    fn a_value_cannot_imitate_a_line() {
        let mut one = Fingerprint::new();
        one.add_fact("prompt question", &json!("a\nprompt answer \"b\""));
        let mut two = Fingerprint::new();
        two.add_fact("prompt question", &json!("a"));
        two.add_fact("prompt answer", &json!("b"));
        assert_ne!(one.finish(), two.finish());
    }
}
