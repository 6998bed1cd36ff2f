//! The directories of static models: which library one is from, and how its texts become tokens.

use std::path::Path;

use serde_json::Value;

use super::architecture::Architecture;
use super::json::{JsonFile, read_value};
use super::static_model::{MODEL2VEC_TABLE, StaticConfig, StaticLibrary, StaticTokenizer, header};
use super::transformer::{TokenizerSource, TransformerConfig};
use crate::error::Error;

const WEIGHTS: &str = "model.safetensors";
const TOKENIZER: &str = "tokenizer.json";
/// Longest input where Model2Vec's `config.json` says none.
const MODEL2VEC_TOKENS: usize = 512;
/// The end of the name of WordLlama's tokenizer.
const WORDLLAMA_TOKENIZER: &str = "_tokenizer_config.json";

impl TransformerConfig {
    /// A `StaticEmbedding` module: of sentence-transformers, or of a directory that Model2Vec has written.
    pub(super) fn read_static_embedding(folder: &Path) -> Result<Self, Error> {
        if header(&folder.join(WEIGHTS))?.info(MODEL2VEC_TABLE).is_some() {
            return Self::read_model2vec(folder);
        }
        let architecture = StaticConfig::of_weights(folder, WEIGHTS, StaticLibrary::SentenceTransformers)?;
        let tokenizer = read_value(&folder.join(TOKENIZER))?.unwrap_or_default();
        let longest = tokenizer.get("truncation").and_then(|cut| cut.get("max_length"));
        let longest = longest.and_then(Value::as_u64).map(|tokens| tokens as usize);
        Ok(Self::of_static(architecture, longest, TOKENIZER))
    }

    fn read_model2vec(folder: &Path) -> Result<Self, Error> {
        let architecture = StaticConfig::of_weights(folder, WEIGHTS, StaticLibrary::Model2Vec)?;
        let settings = JsonFile::open_if_present(&folder.join("config.json"))?;
        let longest = match &settings {
            Some(settings) if settings.get("max_length").is_some() => Some(settings.positive("max_length")?),
            // `null` is none, and no word of it the library's own.
            Some(settings) if settings.names().any(|name| name == "max_length") => None,
            _ => Some(MODEL2VEC_TOKENS),
        };
        Ok(Self::of_static(architecture, longest, TOKENIZER))
    }

    fn of_static(architecture: StaticConfig, max_seq_length: Option<usize>, tokenizer: &str) -> Self {
        let tokenizer = StaticTokenizer {
            file: tokenizer.to_owned(),
            is_model2vec: architecture.library == StaticLibrary::Model2Vec,
        };
        Self {
            architecture: Architecture::Static(architecture),
            max_seq_length,
            lower_case: false,
            tokenizer: TokenizerSource {
                of_static: Some(tokenizer),
                ..TokenizerSource::default()
            },
        }
    }
}

/// The static model of a directory without `modules.json`, and whether its vectors are normalised: Model2Vec's, by the
/// name of its table, or WordLlama's, by the names of its files. None where it has a network.
pub(super) fn plain(root: &Path) -> Result<Option<(TransformerConfig, bool)>, Error> {
    let Some(settings) = JsonFile::open_if_present(&root.join("config.json"))? else {
        return Ok(wordllama(root)?.map(|config| (config, false)));
    };
    let is_model2vec = if let Some(kind) = settings.text("model_type")? {
        kind == "model2vec"
    } else {
        let path = root.join(WEIGHTS);
        path.is_file() && header(&path)?.info(MODEL2VEC_TABLE).is_some()
    };
    if !is_model2vec {
        return Ok(None);
    }
    let normalizes = settings.flag("normalize")?.unwrap_or(false);
    Ok(Some((TransformerConfig::read_model2vec(root)?, normalizes)))
}

/// `NAME_DIM.safetensors` and `NAME_tokenizer_config.json` in one folder, as WordLlama's packages hold them in
/// `weights/` and `tokenizers/`.
fn wordllama(root: &Path) -> Result<Option<TransformerConfig>, Error> {
    let (mut weights, mut tokenizers) = (Vec::new(), Vec::new());
    for entry in fs_err::read_dir(root)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(WORDLLAMA_TOKENIZER) {
            tokenizers.push(name);
        } else if name.ends_with(".safetensors") {
            weights.push(name);
        }
    }
    weights.sort();
    let [tokenizer] = &tokenizers[..] else { return Ok(None) };
    let refused = |supported: &'static str, got: String| Error::Unsupported {
        path: root.to_owned(),
        what: "WordLlama directory",
        supported,
        got,
    };
    let [file] = &weights[..] else {
        return Err(refused(
            "one with one file of weights, `NAME_DIM.safetensors`, next to the tokenizer",
            format!("{} of them: `{}`", weights.len(), weights.join("`, `")),
        ));
    };
    if file.ends_with("_binary.safetensors") {
        let supported =
            "weights of floating-point vectors (those for `binary=True` were trained to be rounded to bits)";
        return Err(refused(supported, file.clone()));
    }
    let architecture = StaticConfig::of_weights(root, file, StaticLibrary::WordLlama)?;
    Ok(Some(TransformerConfig::of_static(architecture, None, tokenizer)))
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::TensorView;
    use safetensors::{Dtype, serialize_to_file};

    use super::*;

    fn write(folder: &Path, name: &str, tensors: &[(&str, Dtype, &[usize])]) {
        let bytes = vec![0_u8; 4096];
        let view = |(name, dtype, shape): &(&str, Dtype, &[usize])| {
            let size = shape.iter().product::<usize>() * dtype.bitsize() / 8;
            let view = TensorView::new(*dtype, shape.to_vec(), &bytes[..size]).unwrap();
            ((*name).to_owned(), view)
        };
        serialize_to_file(tensors.iter().map(view), None, &folder.join(name)).unwrap();
    }

    fn static_of(config: &TransformerConfig) -> &StaticConfig {
        match &config.architecture {
            Architecture::Static(config) => config,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_directory_is_known_by_its_table() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(plain(root).unwrap(), None);
        let quantised: [(&str, Dtype, &[usize]); 3] = [
            ("embeddings", Dtype::I8, &[3, 4]),
            ("mapping", Dtype::I64, &[7]),
            ("weights", Dtype::F32, &[7]),
        ];
        write(root, WEIGHTS, &quantised);
        fs_err::write(root.join("config.json"), r#"{"normalize": true}"#).unwrap();
        let (config, normalizes) = plain(root).unwrap().unwrap();
        let table = static_of(&config);
        assert_eq!((table.vocab_size, table.hidden_size, normalizes), (7, 4, true));
        assert_eq!((table.table_shape(), config.max_seq_length), ([3, 4], Some(512)));
        assert!(table.untrainable().is_some() && table.tensors().count() == 3);
        fs_err::write(
            root.join("config.json"),
            r#"{"model_type": "model2vec", "max_length": null}"#,
        )
        .unwrap();
        let (config, normalizes) = plain(root).unwrap().unwrap();
        assert_eq!((config.max_seq_length, normalizes), (None, false));
        fs_err::write(root.join("config.json"), r#"{"model_type": "bert"}"#).unwrap();
        assert_eq!(plain(root).unwrap(), None);
    }

    #[test]
    fn wordllama_has_one_file_of_weights_and_its_tokenizer() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs_err::write(root.join("l2_tokenizer_config.json"), "{}").unwrap();
        let message = plain(root).unwrap_err().to_string();
        assert!(message.contains("0 of them"), "{message}");
        write(root, "l2_4.safetensors", &[("embedding.weight", Dtype::F16, &[5, 4])]);
        let (config, normalizes) = plain(root).unwrap().unwrap();
        let table = static_of(&config);
        assert_eq!((table.vocab_size, table.hidden_size, normalizes), (5, 4, false));
        assert_eq!(
            (table.weights_file.as_str(), table.untrainable()),
            ("l2_4.safetensors", None)
        );
        write(root, "l2_8.safetensors", &[("embedding.weight", Dtype::F16, &[5, 8])]);
        let message = plain(root).unwrap_err().to_string();
        assert!(message.contains("l2_4.safetensors`, `l2_8.safetensors"), "{message}");
    }
}
