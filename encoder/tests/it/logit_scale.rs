//! The logit scale that the embedding job measures.

use dyad_command::JobCancellation;
use dyad_corpus::embeddings::{EmbeddingsReader, VectorType};
use dyad_corpus::{PassageContext, ReadOptions};
use dyad_encoder::Tower;
use dyad_encoder::embed::{EmbedJob, EmbedOutcome};
use dyad_encoder::tokenize::Budget;
use dyad_files::space::boundless;

use crate::fixture::{open, real_model, tiny};

fn job(root: &std::path::Path, tower: Tower) -> EmbedJob {
    fs_err::write(root.join("corpus.tsv"), "a\tthe river\nb\tthe king\nc\tthe mountain\n").unwrap();
    EmbedJob {
        corpus: root.join("corpus.tsv"),
        read: ReadOptions::default(),
        tower,
        context: PassageContext::default(),
        budget: Budget {
            tokens: 4_096,
            rows: 64,
        },
        out: root.join(tower.name()),
        vectors: VectorType::F32,
        part_rows: 2,
        refuse_long: false,
        free_space: boundless,
    }
}

/// Offline, by the same pairs, it was 22.6 for all-MiniLM-L6-v2.
#[test]
fn that_of_the_real_model_is_known_and_added_to_a_set_without_it() {
    let Some(model) = real_model("that_of_the_real_model_is_known_and_added_to_a_set_without_it") else {
        return;
    };
    let (root, encoder) = (tempfile::tempdir().unwrap(), open(&model));
    let job = job(root.path(), Tower::Answer);
    let run = || job.run(&encoder, &JobCancellation::new()).unwrap();
    let scale = || EmbeddingsReader::open(&job.out).unwrap().logit_scale();
    assert!(matches!(run(), EmbedOutcome::Embedded(_)));
    let measured = scale().unwrap();
    assert!((21.0..24.5).contains(&measured), "{measured}");

    // As an earlier release has left it.
    let record = job.out.join("embeddings.json");
    let mut earlier: serde_json::Value = serde_json::from_slice(&fs_err::read(&record).unwrap()).unwrap();
    assert!(earlier.as_object_mut().unwrap().remove("logit_scale").is_some());
    fs_err::write(&record, earlier.to_string()).unwrap();
    assert_eq!(scale(), None);
    assert_eq!(run(), EmbedOutcome::NothingToDo { documents: 3 });
    assert_eq!(scale(), Some(measured));
}

#[test]
fn questions_and_models_that_know_nothing_have_none() {
    let (root, encoder) = (tempfile::tempdir().unwrap(), open(&tiny("newer-dense")));
    for tower in [Tower::Question, Tower::Answer] {
        let job = job(root.path(), tower);
        job.run(&encoder, &JobCancellation::new()).unwrap();
        assert_eq!(EmbeddingsReader::open(&job.out).unwrap().logit_scale(), None);
    }
}
