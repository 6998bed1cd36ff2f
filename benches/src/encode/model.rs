//! The model directory: its sizes, the work that a text is, and a view of it that reads longer texts.

use std::path::{Path, PathBuf};

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{BenchError, BenchResult};

/// Settings of the tokenizer.
const TOKENIZER: &str = "tokenizer_config.json";

/// Sizes of a transformer, as far as its work goes by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModelSize {
    layers: u64,
    /// Weights in the matrices of one layer: attention and feed-forward.
    linear_weights: u64,
    /// Values of all heads together.
    attention_width: u64,
    window: Option<AttentionWindow>,
}

/// Layers in which a token reads its neighbours alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AttentionWindow {
    layers: u64,
    /// Tokens that a token reads.
    tokens: u64,
}

impl ModelSize {
    /// Floating-point operations of one text of `tokens` tokens: two per linear weight and token, and 4 s w h per layer
    /// for attention's two products, where a token reads w of s tokens. Embedding, norms, softmax and what follows
    /// pooling are left out.
    pub(super) fn flops(&self, tokens: u64) -> f64 {
        let linear = 2.0 * (self.layers * self.linear_weights * tokens) as f64;
        let AttentionWindow { layers, tokens: width } = self.window.unwrap_or(AttentionWindow { layers: 0, tokens });
        let read = (self.layers - layers) * tokens + layers * tokens.min(width);
        linear + 4.0 * (tokens * read) as f64 * self.attention_width as f64
    }

    /// Reads the `config.json` of an encoder that dyad opens.
    fn read(path: &Path) -> BenchResult<Self> {
        let config = json(path)?;
        let number = |names| number(&config, path, names);
        let hidden = number(&["hidden_size", "dim", "d_model", "n_embd"])?;
        let layers = number(&["num_hidden_layers", "n_layers", "num_layers", "n_layer"])?;
        let inner = number(&["intermediate_size", "hidden_dim", "d_ff", "n_inner"])?;
        let heads = || number(&["num_attention_heads", "num_heads", "n_heads", "n_head"]);
        // Heads may be wider or narrower together than the vectors, and share keys and values.
        let head = number(&["head_dim", "d_kv"]).ok();
        let width = match head {
            Some(head) => head * heads()?,
            None => hidden,
        };
        let keys = match number(&["num_key_value_heads"]) {
            Ok(keys) => width / heads()? * keys,
            Err(_) => width,
        };
        let matrices = if has_gate(&config) { 3 } else { 2 };
        Ok(Self {
            layers,
            linear_weights: 2 * hidden * (width + keys) + matrices * hidden * inner,
            attention_width: width,
            window: window(&config, layers),
        })
    }
}

/// Whether a feed-forward block multiplies two maps of its input.
fn has_gate(config: &Value) -> bool {
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    let families = ["modernbert", "gte", "new", "nomic_bert", "qwen3", "gemma3_text"];
    text("feed_forward_proj").starts_with("gated") || families.contains(&text("model_type"))
}

/// Layers with a window, as transformers 5 names them.
fn window(config: &Value, layers: u64) -> Option<AttentionWindow> {
    let tokens = ["sliding_window", "local_attention"]
        .iter()
        .find_map(|name| config.get(name)?.as_u64())?;
    let kinds = config.get("layer_types")?.as_array()?;
    let windowed = kinds.iter().filter(|kind| *kind == "sliding_attention").count() as u64;
    Some(AttentionWindow {
        layers: windowed.min(layers),
        tokens,
    })
}

/// A model directory as far as the harness knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelFolder {
    /// The absolute path of the model's directory.
    pub(super) dir: PathBuf,
    pub(super) size: ModelSize,
    /// Longest input by its own settings.
    pub(super) max_tokens: usize,
    /// What stands before a document.
    pub(super) prompt: String,
}

impl ModelFolder {
    /// Reads the settings of a sentence-transformers or plain Hugging Face directory with one tower.
    pub(super) fn read(dir: &Path) -> BenchResult<Self> {
        let dir = fs_err::canonicalize(dir)?;
        let path = dir.join("config.json");
        let size = ModelSize::read(&path)?;
        let tokenizer = json(&dir.join(TOKENIZER))?;
        let mut max_tokens = count(&tokenizer, "model_max_length");
        for settings in settings_files(&dir)?.iter().rev() {
            max_tokens = count(&json(settings)?, "max_seq_length").or(max_tokens);
        }
        let max_tokens = max_tokens.unwrap_or(usize::MAX).min(positions(&json(&path)?));
        let settings = json(&dir.join("config_sentence_transformers.json"))?;
        let prompts = settings.get("prompts").unwrap_or(&Value::Null);
        let named = |name: &str| prompts.get(name).and_then(Value::as_str);
        let default = settings
            .get("default_prompt_name")
            .and_then(Value::as_str)
            .and_then(named);
        let prompt = ["document", "passage", "corpus"]
            .into_iter()
            .find_map(named)
            .or(default)
            .unwrap_or_default();
        Ok(Self {
            size,
            max_tokens,
            prompt: prompt.to_owned(),
            dir,
        })
    }

    /// The same model reading up to `tokens` tokens: itself where it does, else a folder of links to its files under
    /// `cache`, with other settings.
    pub(super) fn reading(&self, tokens: usize, cache: &Path) -> BenchResult<PathBuf> {
        if tokens <= self.max_tokens {
            return Ok(self.dir.clone());
        }
        let config = self.dir.join("config.json");
        let most = positions(&json(&config)?);
        if tokens > most {
            let expected = format!("at least {tokens} for this shape");
            return Err(BenchError::malformed(
                &config,
                "`max_position_embeddings`",
                expected,
                most,
            ));
        }
        let key = xxh3_64(self.dir.as_os_str().as_encoded_bytes());
        let view = cache.join(format!("model-{key:016x}-{tokens}"));
        if view.exists() {
            fs_err::remove_dir_all(&view)?;
        }
        fs_err::create_dir_all(&view)?;
        for entry in fs_err::read_dir(&self.dir)? {
            let entry = entry?;
            fs_err::os::unix::fs::symlink(entry.path(), view.join(entry.file_name()))?;
        }
        for settings in settings_files(&self.dir)? {
            if let Some(name) = settings.file_name() {
                self.write_changed(&view.join(name), "max_seq_length", tokens)?;
            }
        }
        self.write_changed(&view.join(TOKENIZER), "model_max_length", tokens)?;
        Ok(fs_err::canonicalize(view)?)
    }

    /// Writes a file of settings in place of a link to the model's, with another value of a field: where the file has
    /// that field, or is the tokenizer's.
    fn write_changed(&self, path: &Path, field: &str, tokens: usize) -> BenchResult<()> {
        let name = path.file_name().unwrap_or_default();
        let Value::Object(mut fields) = json(&self.dir.join(name))? else {
            return Ok(());
        };
        if name == TOKENIZER || fields.contains_key(field) {
            fields.insert(field.to_owned(), tokens.into());
            fs_err::remove_file(path)?;
            fs_err::write(path, format!("{:#}\n", Value::Object(fields)))?;
        }
        Ok(())
    }
}

/// The first of some fields that is a whole number above 0.
fn number(config: &Value, path: &Path, names: &[&str]) -> BenchResult<u64> {
    let found = names
        .iter()
        .find_map(|name| config.get(name)?.as_u64())
        .filter(|&value| value > 0);
    found.ok_or_else(|| BenchError::malformed(path, format!("`{}`", names[0]), "a whole number above 0", "none"))
}

/// `sentence_bert_config.json` and its like, by name.
fn settings_files(dir: &Path) -> BenchResult<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(dir)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        if text.starts_with("sentence_") && text.ends_with("_config.json") {
            found.push(dir.join(&name));
        }
    }
    found.sort();
    Ok(found)
}

/// Rows of the position table that texts can use; no end where positions are relative.
fn positions(config: &Value) -> usize {
    let Some(rows) = count(config, "max_position_embeddings") else {
        return usize::MAX;
    };
    // Their positions begin after the padding id.
    let after_padding = ["roberta", "xlm-roberta", "camembert", "mpnet"].map(Value::from);
    let after_padding = config
        .get("model_type")
        .is_some_and(|family| after_padding.contains(family));
    if after_padding {
        rows.saturating_sub(count(config, "pad_token_id").unwrap_or(1) + 1)
    } else {
        rows
    }
}

/// A whole number; transformers writes 1e30 for "no limit".
fn count(file: &Value, field: &str) -> Option<usize> {
    file.get(field)?
        .as_u64()
        .map(|value| usize::try_from(value).unwrap_or(usize::MAX))
}

/// A JSON file; `null` where it is not there.
fn json(path: &Path) -> BenchResult<Value> {
    if !path.is_file() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&fs_err::read(path)?)
        .map_err(|error| BenchError::file(path, format!("expected JSON, got: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn size(config: &Value) -> BenchResult<ModelSize> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        fs_err::write(&path, config.to_string()).unwrap();
        ModelSize::read(&path)
    }

    #[test]
    fn work_is_what_the_sizes_say() {
        // all-MiniLM-L6-v2: 6 layers of 4 x 384^2 + 2 x 384 x 1536 weights.
        let mini = size(&json!({"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536})).unwrap();
        assert_eq!(
            mini,
            ModelSize {
                layers: 6,
                linear_weights: 1_769_472,
                attention_width: 384,
                window: None
            }
        );
        let expected = 6.0 * (2.0 * 1_769_472.0 * 100.0 + 4.0 * 10_000.0 * 384.0);
        assert!((mini.flops(100) - expected).abs() < 1e-6);
        let distil = json!({"dim": 8, "n_layers": 2, "hidden_dim": 10});
        assert_eq!(
            size(&distil).unwrap(),
            ModelSize {
                layers: 2,
                linear_weights: 256 + 160,
                attention_width: 8,
                window: None
            }
        );
        let t5 = json!({"d_model": 8, "d_kv": 3, "num_heads": 2, "d_ff": 10, "num_layers": 4, "feed_forward_proj": "gated-gelu"});
        assert_eq!(
            size(&t5).unwrap(),
            ModelSize {
                layers: 4,
                linear_weights: 4 * 48 + 3 * 80,
                attention_width: 6,
                window: None
            }
        );
        // Gates, heads that share keys, and windows.
        let gemma = json!({
            "model_type": "gemma3_text", "hidden_size": 8, "num_hidden_layers": 3, "intermediate_size": 10, "head_dim": 4,
            "num_attention_heads": 4, "num_key_value_heads": 1, "sliding_window": 5,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]
        });
        let gemma = size(&gemma).unwrap();
        assert_eq!(gemma.linear_weights, 2 * 8 * 16 + 2 * 8 * 4 + 3 * 8 * 10);
        let attention = 4.0 * 16.0 * 100.0 * (100.0 + 2.0 * 5.0);
        let expected = 3.0 * 2.0 * gemma.linear_weights as f64 * 100.0 + attention;
        assert!((gemma.flops(100) - expected).abs() < 1e-6);
        assert_eq!(
            size(&json!({"model_type": "nomic_bert", "n_embd": 8, "n_layer": 1, "n_inner": 10}))
                .unwrap()
                .linear_weights,
            256 + 240
        );
        let error = size(&json!({"hidden_size": 384, "num_hidden_layers": 6}))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`intermediate_size`: expected a whole number above 0"),
            "{error}"
        );
    }

    fn write(dir: &Path, name: &str, value: &Value) {
        fs_err::write(dir.join(name), value.to_string()).unwrap();
    }

    #[test]
    fn a_view_reads_longer_texts_and_leaves_the_model_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let model = dir.path().join("model");
        fs_err::create_dir_all(model.join("1_Pooling")).unwrap();
        let config =
            json!({"hidden_size": 4, "num_hidden_layers": 1, "intermediate_size": 4, "max_position_embeddings": 64});
        write(&model, "config.json", &config);
        write(
            &model,
            "sentence_bert_config.json",
            &json!({"max_seq_length": 16, "do_lower_case": false}),
        );
        write(&model, "tokenizer_config.json", &json!({"model_max_length": 32}));
        write(
            &model,
            "config_sentence_transformers.json",
            &json!({"prompts": {"query": "q: ", "passage": "p: "}}),
        );
        let read = ModelFolder::read(&model).unwrap();
        assert_eq!((read.max_tokens, read.prompt.as_str()), (16, "p: "));
        let cache = dir.path().join("cache");
        assert_eq!(read.reading(16, &cache).unwrap(), read.dir);
        for _ in 0..2 {
            let view = read.reading(40, &cache).unwrap();
            assert_eq!(ModelFolder::read(&view).unwrap().max_tokens, 40);
            assert!(view.join("1_Pooling").is_dir());
        }
        assert_eq!(ModelFolder::read(&model).unwrap().max_tokens, 16);
        let error = read.reading(65, &cache).unwrap_err().to_string();
        assert!(error.contains("expected at least 65 for this shape, got 64"), "{error}");
    }
}
