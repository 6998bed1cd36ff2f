//! DPR's form of BERT as what sentence-transformers runs: a BERT, and its projection as a `Dense` module.

use serde_json::{Value, json};

use crate::checkpoint::{ModuleTensors, TensorData};
use crate::config::{Architecture, TransformerConfig};
use crate::error::Error;

/// DPR's projection in a transformer's own file.
pub(super) const PROJECTION: &str = "encode_proj.";

/// Whether a transformer has DPR's form.
pub(super) fn is_dpr(config: &TransformerConfig) -> bool {
    matches!(&config.architecture, Architecture::Bert(bert) if bert.model_type == "dpr")
}

/// The same without the projection, as a BERT; others as they are.
pub(super) fn as_bert(config: &TransformerConfig) -> TransformerConfig {
    let mut config = config.clone();
    if is_dpr(&config)
        && let Architecture::Bert(bert) = &mut config.architecture
    {
        (bert.model_type, bert.projection) = ("bert".to_owned(), None);
    }
    config
}

/// The `config.json` that goes with [`as_bert`].
pub(super) fn bert_json(mut config: Value) -> Value {
    if let Some(fields) = config
        .as_object_mut()
        .filter(|fields| fields.get("model_type") == Some(&json!("dpr")))
    {
        fields.insert("model_type".to_owned(), json!("bert"));
        fields.insert("architectures".to_owned(), json!(["BertModel"]));
        fields.shift_remove("projection_dim");
    }
    config
}

/// DPR's projection as the tensors of a `Dense` module.
pub(super) fn projection(tensors: &ModuleTensors<'_>) -> Result<Vec<(String, TensorData)>, Error> {
    let part = |part: &str| {
        Ok((
            format!("linear.{part}"),
            tensors.get(&format!("{PROJECTION}{part}"))?.clone(),
        ))
    };
    ["weight", "bias"].into_iter().map(part).collect()
}
