//! Examples that a trained variant makes from others: with negatives that it mines, or with its scores, as a teacher's.
//!
//! ```text
//! OUT/examples-seedN/NAME.jsonl    Tevatron's form
//!                    NAME.json     what made it: model, options, and what made the examples that it was made from
//! ```

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use dyad_corpus::examples::{ExampleOptions, ExampleReader};
use dyad_encoder::data::{DataError, MiningEncoder, NegativeCandidates, mine_file, score_file};
use dyad_encoder::tokenize::Budget;
use dyad_encoder::train::Config;
use dyad_encoder::{CrossEncoder, Model};
use dyad_files::{Cancel, write_atomic};
use serde_json::{Value, json};

use super::table::{DerivedExamples, TablePlaces, TableReference};
use crate::error::{BenchError, BenchResult};

impl DerivedExamples {
    /// Makes the file by settings of a variant that is trained on it; keeps what is there, and refuses what another
    /// model or other options have made.
    pub(super) fn make(
        &self,
        places: &TablePlaces,
        config: &Config,
        note: &dyn Fn(&str),
        cancel: &dyn Cancel,
    ) -> anyhow::Result<()> {
        let Self { name, by, mine, .. } = self;
        let (seed, compute) = (config.seed, config.compute());
        let model = places.model_of(by, seed);
        if !model.is_dir() {
            let model = model.display();
            return Err(BenchError::Refused(format!(
                "examples `{name}` are made by variant `{by}`, which is not trained yet (no folder `{model}`): run it too"
            ))
            .into());
        }
        let (of, out) = (places.fill(&self.of, seed), places.examples(name, seed));
        let open = || Ok(ExampleReader::open(Path::new(&of), &ExampleOptions::default())?);
        let budget = Budget::of(compute.device, compute.dtype);
        let made = if let Some(mine) = mine {
            let model = Model::open(&model, &compute)?;
            if self.is_made(places, seed, &model.info().fingerprint)? {
                return Ok(());
            }
            note(&format!("examples {name}, seed {seed}: mining by {by}"));
            let corpus = mine
                .corpus
                .as_ref()
                .map(|corpus| PathBuf::from(places.fill(&corpus.to_string_lossy(), seed)));
            let candidates = corpus
                .as_deref()
                .map_or(NegativeCandidates::Positives, NegativeCandidates::Corpus);
            let encoder = MiningEncoder {
                model: &model,
                budget,
                titles: true,
                context: None,
            };
            mine_file(
                encoder,
                &|| Ok(vec![open()?]),
                candidates,
                &mine.options(seed),
                &out,
                cancel,
            )
            .map(|_| ())
        } else {
            let model = CrossEncoder::open(&model, &compute)?;
            if self.is_made(places, seed, &model.info().fingerprint)? {
                return Ok(());
            }
            note(&format!("examples {name}, seed {seed}: scoring by {by}"));
            open()
                .and_then(|examples| score_file(&model, examples, budget, &out, cancel))
                .map(|_| ())
        };
        match made {
            Err(DataError::Interrupted) => Err(BenchError::Interrupted.into()),
            made => made.with_context(|| format!("making examples `{name}`")),
        }
    }

    /// Whether the file is there, made as it would be now; else notes how it is going to be made.
    fn is_made(&self, places: &TablePlaces, seed: u64, fingerprint: &str) -> BenchResult<bool> {
        let out = places.examples(&self.name, seed);
        let record = out.with_extension("json");
        let read = |path: &Path| -> BenchResult<Value> {
            serde_json::from_slice(&fs_err::read(path)?).map_err(|error| BenchError::kept(path, error))
        };
        let of = match TableReference::parse(&self.of) {
            Some(TableReference::Examples(of)) => read(&places.examples(of, seed).with_extension("json"))?,
            _ => Value::String(self.of.clone()),
        };
        let now = json!({ "of": of, "mine": self.mine, "model": fingerprint });
        if out.is_file() {
            let other = "other options, another model or other examples made it";
            return if read(&record)? == now {
                Ok(true)
            } else {
                Err(BenchError::kept(&out, other))
            };
        }
        if let Some(folder) = out.parent() {
            fs_err::create_dir_all(folder)?;
        }
        write_atomic(&record, format!("{now:#}\n").as_bytes())?;
        Ok(false)
    }
}
