//! What a model cannot be opened for: number types that an architecture cannot run in, and training of a table that no
//! step can change.

use super::load::OpenMode;
use crate::config::{Architecture, Layout, Module, Placed, StaticConfig};
use crate::device::Dtype;
use crate::error::Error;

/// What T5 and Gemma run in.
pub(super) const WITHOUT_F16: &str = "`f32` and `bf16` for T5 and Gemma, whose activations exceed the range of f16";

/// The number types that a module can run in, where `dtype` is none of them.
fn supported_dtypes(module: &Module, dtype: Dtype) -> Option<&'static str> {
    match (module, dtype) {
        (Module::Transformer(config), Dtype::F16) if config.architecture.refuses_f16() => Some(WITHOUT_F16),
        (Module::Transformer(config), Dtype::Int8) if matches!(config.architecture, Architecture::Recurrent(_)) => {
            Some("`f32`, `bf16` and `f16` for recurrent encoders; `int8` rounds the maps of transformers")
        }
        _ => None,
    }
}

/// Refuses a table that no step can change, and int8 where there is nothing to multiply.
pub(super) fn check_static(layout: &Layout, dtype: Dtype, mode: OpenMode) -> Result<(), Error> {
    let tables = layout.modules.iter().filter_map(|placed| match &placed.module {
        Module::Transformer(config) => Some((placed, config.static_table())),
        _ => None,
    });
    let tables: Vec<(&Placed, Option<&StaticConfig>)> = tables.collect();
    let refused = |placed: &Placed, what, supported, got: String| Error::Unsupported {
        path: placed.folder.clone(),
        what,
        supported,
        got,
    };
    for (placed, table) in &tables {
        if mode == OpenMode::Training
            && let Some(reason) = table.and_then(StaticConfig::untrainable)
        {
            let supported = "one with a row for each token (in Python: `StaticEmbedding.from_model2vec(DIR)` folds it, `SentenceTransformer(modules=[..]).save_pretrained(TO)`)";
            return Err(refused(
                placed,
                "training of a Model2Vec table",
                supported,
                reason.to_owned(),
            ));
        }
    }
    match &tables[..] {
        [(placed, Some(_)), others @ ..] if dtype == Dtype::Int8 && others.iter().all(|(_, table)| table.is_some()) => {
            let supported = "`f32`, `bf16` and `f16` for a static model; `int8` rounds the maps of transformers";
            Err(refused(placed, "dtype", supported, dtype.to_string()))
        }
        _ => Ok(()),
    }
}

/// Refuses number types that an architecture cannot run in.
pub(super) fn check_dtype(layout: &Layout, dtype: Dtype) -> Result<(), Error> {
    match layout
        .modules
        .iter()
        .find_map(|placed| Some((placed, supported_dtypes(&placed.module, dtype)?)))
    {
        Some((placed, supported)) => {
            let (path, got) = (placed.folder.join("config.json"), dtype.to_string());
            Err(Error::Unsupported {
                path,
                what: "dtype",
                supported,
                got,
            })
        }
        None => Ok(()),
    }
}
