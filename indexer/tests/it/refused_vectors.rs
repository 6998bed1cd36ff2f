//! Vectors that are refused: of other texts, of another length, or that cannot be compared.

use dyad_corpus::Document;

use crate::fixture::{DIM, Fixture, documents, header};
use crate::hash_source::HashSource;
use crate::refusals::{assert_names, refused};

/// The same with vectors made on the spot.
fn refused_rows(make: impl Fn(usize, &mut Vec<f32>) + 'static) -> String {
    let fixture = Fixture::new(90);
    fixture.build().unwrap();
    let before = fixture.files();
    let mut source = HashSource::default();
    source.change = Box::new(make);
    let error = fixture.build_from(&mut source).unwrap_err();
    assert!(fixture.files() == before, "{error}");
    error.to_string()
}

#[test]
fn rows_that_cannot_be_compared() {
    let error = refused_rows(|number, row| row[3] = if number == 70 { f32::NAN } else { row[3] });
    assert_names(
        &error,
        &["document `doc-0070` (row 71): value 4 (from 1) is not a finite number"],
    );
    let error = refused_rows(|number, row| row.truncate(DIM - usize::from(number == 5)));
    assert_names(&error, &["document `doc-0005` (row 6): expected 24 values, got 23"]);
    let error = refused_rows(|number, row| {
        for value in row.iter_mut() {
            *value *= f32::from(u8::from(number != 8));
        }
    });
    assert_names(&error, &["document `doc-0008` (row 9) is zero"]);
    let error = refused_rows(|_, row| row.iter_mut().for_each(|value| *value *= 2.0));
    assert_names(
        &error,
        &["document `doc-0000` (row 1) has length 2", "cosine needs unit vectors"],
    );
}

#[test]
fn embeddings_that_are_not_the_corpus() {
    let rewrite = |fixture: &Fixture, documents: &[Document]| {
        fs_err::remove_dir_all(fixture.path("embeddings")).unwrap();
        fixture.write_embeddings("embeddings", header(), documents);
    };
    let error = refused(|fixture| {
        let mut swapped = documents(90);
        swapped.swap(40, 41);
        rewrite(fixture, &swapped);
    });
    assert_names(
        &error,
        &[
            "do not match the corpus at row 41",
            "expected key `doc-0040` (corpus line 41), got `doc-0041`",
        ],
    );
    let error = refused(|fixture| rewrite(fixture, &documents(80)));
    assert_names(&error, &["end before row 81, document `doc-0080`"]);
    let error = refused(|fixture| rewrite(fixture, &documents(91)));
    assert_names(&error, &["continue beyond the corpus: row 91, key `doc-0090`"]);
}

#[test]
fn embeddings_that_cannot_be_used() {
    let error = refused(|fixture| {
        let path = fixture.path("embeddings/embeddings.json");
        let text = fs_err::read_to_string(&path)
            .unwrap()
            .replace("\"complete\": true", "\"complete\": false");
        fs_err::write(path, text).unwrap();
    });
    assert_names(&error, &["the set is not complete: 90 rows so far"]);
    let error = refused(|fixture| {
        let path = fixture.path("embeddings/part-000001.npy");
        let mut bytes = fs_err::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs_err::write(path, bytes).unwrap();
    });
    assert_names(&error, &["part-000001.npy", "checksum"]);
    let error = refused(|fixture| {
        fs_err::remove_dir_all(fixture.path("embeddings")).unwrap();
        let mut questions = header();
        questions.tower = "question".into();
        fixture.write_embeddings("embeddings", questions, &documents(90));
    });
    assert_names(&error, &["expected tower `answer`, got `question`"]);
    let error = refused(|fixture| {
        fs_err::remove_dir_all(fixture.path("embeddings")).unwrap();
        let mut dot = header();
        dot.model.metric = "dot".into();
        fixture.write_embeddings("embeddings", dot, &documents(90));
    });
    assert_names(&error, &["model `hash`", "got `dot`"]);
}

#[test]
fn vectors_of_other_texts_under_the_same_keys_are_refused() {
    let fixture = Fixture::new(150);
    fixture.build().unwrap();
    let before = fixture.files();
    let mut documents = documents(150);
    documents[100].text.push_str(" and one word more");
    fixture.write_corpus(&documents);
    let error = fixture.build().unwrap_err().to_string();
    // Parts have 64 rows: the changed document is in the second one.
    assert_names(
        &error,
        &[
            "part-000001.npy",
            "texts of the corpus have changed",
            "Run `dyad-encoder embed` again",
        ],
    );
    assert!(fixture.files() == before);
}
