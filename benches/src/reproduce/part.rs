//! A share of some examples, to train on or to choose settings by. An example goes by the text of its positives (the
//! smallest one), so that, whatever the order, two shares have no answer in common where each example has one positive;
//! a question that is asked twice, with different answers, may be in both.
//!
//! ```text
//! OUT/parts/NAME.jsonl    Tevatron's form
//!           NAME/         of a part that is `judged`: a BEIR folder, whose documents are the positives of all examples
//! ```

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;

use dyad_corpus::examples::{ExampleOptions, ExampleReader, Passage, TrainingExample, to_tevatron};
use dyad_files::AtomicFile;
use serde_json::json;
use xxhash_rust::xxh3::xxh3_64;

use super::table::{ExamplePart, TablePlaces};
use crate::error::BenchError;

impl ExamplePart {
    /// Whether it has an example.
    fn has(&self, example: &TrainingExample) -> bool {
        let answer = example.positives.iter().map(Passage::passage).min().unwrap_or_default();
        // The 53 upper bits, as a number below 1.
        let place = (xxh3_64(answer.as_bytes()) >> 11) as f64 / (1_u64 << 53) as f64;
        (self.from..self.to).contains(&place)
    }

    /// Makes it; keeps what is there, and refuses what is of another part.
    pub(super) fn make(&self, places: &TablePlaces) -> anyhow::Result<()> {
        let folder = places.parts();
        fs_err::create_dir_all(&folder)?;
        let record = folder.join(format!("{}.json", self.name));
        let now = json!(self).to_string();
        if record.is_file() {
            if fs_err::read_to_string(&record)? == now {
                return Ok(());
            }
            return Err(BenchError::kept(&record, "the part was made by other settings").into());
        }
        let of = places.fill(&self.of, 0);
        let mut options = ExampleOptions::default();
        if let Some(split) = &self.split {
            if !Path::new(&of).is_dir() {
                let message = format!("part `{}`: `split` is of a BEIR folder, and `{of}` is none", self.name);
                return Err(BenchError::Refused(message).into());
            }
            options.split.clone_from(split);
        }
        let examples = ExampleReader::open(Path::new(&of), &options)?;
        if self.judged {
            self.judge(examples, &folder.join(&self.name))?;
        } else {
            let mut file = AtomicFile::create(&folder.join(format!("{}.jsonl", self.name)))?;
            for example in examples {
                let example = example?;
                if self.has(&example) {
                    writeln!(file, "{}", to_tevatron(&example))?;
                }
            }
            file.commit()?;
        }
        dyad_files::write_atomic(&record, now.as_bytes())?;
        Ok(())
    }

    /// Writes a BEIR folder: each passage and each question once.
    fn judge(&self, examples: ExampleReader, folder: &Path) -> anyhow::Result<()> {
        fs_err::create_dir_all(folder.join("qrels"))?;
        let create = |name: &str| AtomicFile::create(&folder.join(name));
        let (mut corpus, mut queries) = (create("corpus.jsonl")?, create("queries.jsonl")?);
        let mut qrels = create("qrels/test.tsv")?;
        writeln!(qrels, "query-id\tcorpus-id\tscore")?;
        let (mut documents, mut questions) = (HashMap::new(), HashMap::new());
        for example in examples {
            let example = example?;
            let mut own = Vec::new();
            for passage in &example.positives {
                let next = documents.len();
                let number = *documents.entry(passage.passage().into_owned()).or_insert_with(|| next);
                if number == next {
                    let line = json!({ "_id": format!("d{number}"), "title": passage.title, "text": passage.text });
                    writeln!(corpus, "{line}")?;
                }
                own.push(number);
            }
            if self.has(&example) {
                let next = questions.len();
                let number = *questions.entry(example.question.clone()).or_insert_with(|| next);
                if number == next {
                    writeln!(
                        queries,
                        "{}",
                        json!({ "_id": format!("q{number}"), "text": example.question })
                    )?;
                }
                for document in own {
                    writeln!(qrels, "q{number}\td{document}\t1")?;
                }
            }
        }
        for file in [corpus, queries, qrels] {
            file.commit()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dyad_corpus::BeirFolder;

    use super::*;

    #[test]
    fn parts_share_no_answer_and_are_all_together() {
        let dir = tempfile::tempdir().unwrap();
        let pairs = dir.path().join("pairs.jsonl");
        // Two questions for each answer.
        let line = |number: usize| {
            json!({ "question": format!("question {number}"), "answer": format!("answer {}", number / 2) }).to_string()
        };
        fs_err::write(&pairs, (0..400).map(line).collect::<Vec<_>>().join("\n")).unwrap();
        let places = TablePlaces {
            data: dir.path().into(),
            model: "/m".into(),
            out: dir.path().join("out"),
        };
        let part = |name: &str, from: f64, to: f64, judged: bool| ExamplePart {
            name: name.to_owned(),
            of: "$DATA/pairs.jsonl".to_owned(),
            split: None,
            from,
            to,
            judged,
        };
        let (train, dev) = (part("train", 0.0, 0.8, false), part("dev", 0.8, 1.0, true));
        for part in [&train, &dev, &train] {
            part.make(&places).unwrap();
        }
        let trained = ExampleReader::open(&places.parts().join("train.jsonl"), &ExampleOptions::default()).unwrap();
        let trained: Vec<String> = trained.map(|example| example.unwrap().question).collect();
        assert!((260..380).contains(&trained.len()), "{}", trained.len());
        let folder = places.parts().join("dev");
        let beir = BeirFolder::open(&folder).unwrap();
        let asked = dyad_corpus::queries::read(&beir.queries().unwrap()).unwrap();
        let judged = dyad_corpus::qrels::read(&beir.qrels("test").unwrap()).unwrap();
        assert_eq!((asked.len() + trained.len(), judged.len()), (400, asked.len()));
        let number = |question: &str| question.rsplit(' ').next().unwrap().parse::<usize>().unwrap() / 2;
        let answers: std::collections::HashSet<usize> = trained.iter().map(|question| number(question)).collect();
        assert!(asked.iter().all(|question| !answers.contains(&number(&question.text))));
        let documents = fs_err::read_to_string(folder.join("corpus.jsonl")).unwrap();
        assert_eq!(documents.lines().count(), 200);
        // A document is the answer of the question that it is judged for.
        let text = |key: &str| documents.lines().nth(key[1..].parse().unwrap()).unwrap().to_owned();
        for question in &asked {
            let document = judged[&question.key].keys().next().unwrap();
            assert!(
                text(document).contains(&format!("answer {}\"", number(&question.text))),
                "{document}"
            );
        }
        let message = part("dev", 0.7, 1.0, true).make(&places).unwrap_err().to_string();
        assert!(message.contains("other settings"), "{message}");
    }
}
