//! The logit scale of an index's model: measured where documents are embedded, and kept with the vectors that it is of.

use dyad_command::JobCancellation;
use dyad_corpus::embeddings::{EmbeddingsHeader, VectorType};
use dyad_corpus::logit_scale::{LOGIT_SCALES, documents as paired_documents, estimate, questions};
use dyad_index::manifest;
use dyad_indexer::Error;
use dyad_indexer::change::{Operation, merge, reembed};
use dyad_indexer::control::JobControl;
use dyad_indexer::job::build_index;
use dyad_indexer::source::{EmbeddedDocument, FileSource, LocatedDocuments, VectorSource};

use crate::encoder::connect;
use crate::encoder_service::{answer_service, encoder_service, tower_row};
use crate::fixture::{DIM, Fixture, document, documents, header};
use crate::hash_source::HashSource;
use crate::reembed::config;

fn scale_of(fixture: &Fixture) -> Option<f64> {
    manifest::current(&fixture.index()).unwrap().logit_scale
}

#[test]
fn a_service_is_asked_once_and_the_index_keeps_the_answer() {
    let fixture = Fixture::new(60);
    let server = encoder_service();
    fixture.build_from(&mut connect(&server.url).unwrap()).unwrap();
    let rows = |texts: Vec<String>| texts.iter().flat_map(|text| tower_row(text)).collect::<Vec<f32>>();
    let expected = estimate(&rows(questions()), &rows(paired_documents()), DIM);
    assert!(
        expected.is_some_and(|scale| LOGIT_SCALES.contains(&scale)),
        "{expected:?}"
    );
    assert_eq!(scale_of(&fixture), expected);

    fixture
        .upsert(Operation::Append { skip_existing: false }, &[document(700)])
        .unwrap();
    fixture.delete(&[document(3).key]).unwrap();
    merge(&fixture.merge_config(true), JobControl::silent()).unwrap();
    assert_eq!(
        (
            manifest::current(&fixture.index()).unwrap().generation,
            scale_of(&fixture)
        ),
        (4, expected)
    );

    // Another model's is another one.
    reembed(
        &config(&fixture, 1_000),
        &mut HashSource::with_fingerprint("beef"),
        JobControl::silent(),
    )
    .unwrap();
    assert_eq!(scale_of(&fixture), None);
}

#[test]
fn a_set_of_embeddings_says_it() {
    let fixture = Fixture::empty();
    fixture.write_corpus(&documents(40));
    fixture.write_embeddings(
        "embeddings",
        EmbeddingsHeader {
            logit_scale: Some(31.5),
            ..header()
        },
        &documents(40),
    );
    fixture.build().unwrap();
    assert_eq!(scale_of(&fixture), Some(31.5));

    let record = fixture.path("embeddings/embeddings.json");
    let text = fs_err::read_to_string(&record).unwrap();
    fs_err::write(&record, text.replace("31.5", "315.0")).unwrap();
    let refused = FileSource::open(&fixture.path("embeddings")).unwrap_err().to_string();
    assert!(
        refused.contains("`logit_scale`: expected 5.65 to 113, got 315"),
        "{refused}"
    );
}

/// Cosines of rounded vectors lie where those of whole ones do, those of bits do not.
#[test]
fn it_is_not_that_of_vectors_of_bits() {
    for (vectors, expected) in [(VectorType::Int8, Some(31.5)), (VectorType::Binary, None)] {
        let fixture = Fixture::empty();
        fixture.write_corpus(&documents(40));
        let said = EmbeddingsHeader {
            logit_scale: Some(31.5),
            vectors,
            ..header()
        };
        fixture.write_embeddings("embeddings", said, &documents(40));
        fixture.build().unwrap();
        assert_eq!(scale_of(&fixture), expected, "{vectors:?}");
    }
}

#[test]
fn a_service_without_a_question_tower_builds_all_the_same() {
    let fixture = Fixture::new(40);
    let server = answer_service();
    fixture.build_from(&mut connect(&server.url).unwrap()).unwrap();
    assert_eq!(scale_of(&fixture), None);
}

/// Counts how often the scale of its model is measured.
#[derive(Default)]
struct CountedSource {
    inner: HashSource,
    measured: usize,
}

impl VectorSource for CountedSource {
    fn model(&self) -> &dyad_index::ModelRecord {
        self.inner.model()
    }

    fn is_in_step(&self) -> bool {
        self.inner.is_in_step()
    }

    fn documents(&self) -> Option<u64> {
        self.inner.documents()
    }

    fn pull(
        &mut self,
        corpus: &mut LocatedDocuments<'_>,
        cancel: &JobCancellation,
    ) -> Result<Option<EmbeddedDocument>, Error> {
        self.inner.pull(corpus, cancel)
    }

    fn logit_scale(&mut self, _dimensions: usize, _cancel: &JobCancellation) -> Result<Option<f64>, Error> {
        self.measured += 1;
        Ok(None)
    }
}

#[test]
fn nothing_is_measured_for_a_corpus_without_a_document() {
    let fixture = Fixture::empty();
    let mut source = CountedSource::default();
    for text in [
        "",
        "{\"_id\": \"a\", \"body\": \"x\"}\n{\"_id\": \"b\", \"body\": \"y\"}\n",
    ] {
        fs_err::write(fixture.path("corpus.jsonl"), text).unwrap();
        let built = build_index(&fixture.config(), &mut source, JobControl::silent());
        assert!(built.is_err(), "{text}");
        assert_eq!((source.measured, fixture.index().exists()), (0, false), "{text}");
    }
    fixture.write_corpus(&documents(3));
    build_index(&fixture.config(), &mut source, JobControl::silent()).unwrap();
    assert_eq!((source.measured, source.inner.embedded), (1, 3));
}
