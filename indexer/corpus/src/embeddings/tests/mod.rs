//! Written, read back, resumed, and damaged.

mod again;

use std::path::Path;

use super::*;
use crate::document::Document;
use crate::error::Error;

fn header(vectors: VectorType) -> EmbeddingsHeader {
    let model = EmbeddingsModel {
        name: "m".into(),
        fingerprint: "f00d".into(),
        dim: 3,
        metric: "cosine".into(),
        max_tokens: 8,
    };
    EmbeddingsHeader {
        model,
        tower: "answer".into(),
        vectors,
        part_rows: 4,
        dtype: Some("f32".into()),
        two_towers: None,
        logit_scale: None,
        context: crate::PassageContext::default(),
    }
}

fn document(i: usize) -> Document {
    Document {
        key: format!("k\"{i}\n"),
        title: String::new(),
        text: format!("text {i}"),
        metadata: None,
        place: None,
    }
}

fn row(i: usize) -> Vec<f32> {
    vec![i as f32, -0.5, 0.25]
}

fn push(writer: &mut EmbeddingsWriter, range: std::ops::Range<usize>) {
    for i in range {
        let document = document(i);
        writer.push(&document, &row(i), i.is_multiple_of(3)).unwrap();
    }
}

fn rows(dir: &Path) -> Result<Vec<(String, Vec<f32>)>, Error> {
    EmbeddingsReader::open(dir)?.collect()
}

fn written(vectors: VectorType) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = EmbeddingsWriter::open(dir.path(), header(vectors)).unwrap();
    push(&mut writer, 0..10);
    let summary = writer.finish().unwrap();
    assert_eq!((summary.rows, summary.parts), (10, 3));
    dir
}

#[test]
fn a_logit_scale_is_added_to_a_complete_set_and_read_within_its_bounds() {
    let dir = written(VectorType::F32);
    assert_eq!(EmbeddingsReader::open(dir.path()).unwrap().logit_scale(), None);
    let mut writer = EmbeddingsWriter::open(dir.path(), header(VectorType::F32)).unwrap();
    writer.set_logit_scale(22.5).unwrap();
    drop(writer);
    let reader = EmbeddingsReader::open(dir.path()).unwrap();
    assert_eq!((reader.logit_scale(), reader.rows()), (Some(22.5), 10));
    let record = dir.path().join("embeddings.json");
    let text = fs_err::read_to_string(&record).unwrap();
    for scale in ["0.0", "-22.5", "1e300"] {
        fs_err::write(&record, text.replace("22.5", scale)).unwrap();
        let refused = EmbeddingsReader::open(dir.path()).unwrap_err().to_string();
        assert!(
            refused.contains("`logit_scale`: expected 5.65 to 113, got "),
            "{refused}"
        );
    }
}

#[test]
fn rows_and_keys_come_back_in_order() {
    for vectors in [VectorType::F32, VectorType::F16] {
        let dir = written(vectors);
        let expected: Vec<_> = (0..10).map(|i| (document(i).key, row(i))).collect();
        assert_eq!(rows(dir.path()).unwrap(), expected);
        let reader = EmbeddingsReader::open(dir.path()).unwrap();
        assert_eq!((reader.rows(), reader.dim(), reader.tower()), (10, 3, "answer"));
        assert_eq!(reader.truncated(), Some(4), "0, 3, 6 and 9");
    }
}

#[test]
fn vectors_in_fewer_bits_come_back_as_unit_vectors() {
    for (vectors, least, width) in [
        (VectorType::Int8, 0.9999, 3),
        (VectorType::Uint8, 0.9999, 3),
        (VectorType::Binary, 0.5, 1),
        (VectorType::Ubinary, 0.5, 1),
    ] {
        let dir = written(vectors);
        for (i, (key, got)) in rows(dir.path()).unwrap().into_iter().enumerate() {
            assert_eq!(key, document(i).key);
            let inner = |a: &[f32], b: &[f32]| -> f32 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
            let expected = row(i);
            assert!((inner(&got, &got) - 1.0).abs() < 1e-5);
            let cosine = inner(&got, &expected) / inner(&expected, &expected).sqrt();
            assert!(cosine > least, "{vectors:?} {i}: {cosine}");
        }
        let part = fs_err::read(dir.path().join("part-000000.npy")).unwrap();
        assert_eq!(part.len(), 128 + 4 * width);
        let record = fs_err::read_to_string(dir.path().join("embeddings.json")).unwrap();
        assert!(
            record.contains("\"format_version\": 3"),
            "earlier releases refuse it: {record}"
        );
    }
}

#[test]
fn vectors_in_fewer_bits_are_refused_where_their_length_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut dot = header(VectorType::Int8);
    dot.model.metric = "dot".into();
    let error = EmbeddingsWriter::open(&dir.path().join("dot"), dot)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`vectors`: expected f32 or f16 for the metric dot"),
        "{error}"
    );
    let mut writer = EmbeddingsWriter::open(&dir.path().join("zero"), header(VectorType::Int8)).unwrap();
    let error = writer.push(&document(0), &[0.0; 3], false).unwrap_err().to_string();
    assert!(error.contains("holds only zeros, which int8 cannot hold"), "{error}");
}

// python3 -c "import numpy,io; b=io.BytesIO(); numpy.save(b, numpy.zeros((4,3),'<f4')); print(b.getvalue()[:128])"
#[test]
fn parts_are_what_numpy_writes() {
    let dir = written(VectorType::F32);
    let bytes = fs_err::read(dir.path().join("part-000000.npy")).unwrap();
    let dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }";
    let expected = [b"\x93NUMPY\x01\x00\x76\x00", format!("{dictionary:<117}\n").as_bytes()].concat();
    assert_eq!((bytes.len(), &bytes[..128]), (128 + 4 * 3 * 4, expected.as_slice()));
}

#[test]
fn a_job_that_was_ended_goes_on_after_its_last_whole_part() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = EmbeddingsWriter::open(dir.path(), header(VectorType::F32)).unwrap();
    push(&mut writer, 0..7);
    drop(writer);
    let error = rows(dir.path()).unwrap_err().to_string();
    assert!(error.contains("not complete: 4 rows so far"), "{error}");

    let mut writer = EmbeddingsWriter::open(dir.path(), header(VectorType::F32)).unwrap();
    let mut digest = SourceDigest::default();
    for i in 0..4 {
        digest.add(&document(i));
    }
    assert_eq!(writer.finished_parts().len(), 1);
    assert_eq!(writer.finished_parts()[0].source_digest, digest.hex());
    push(&mut writer, 4..10);
    writer.finish().unwrap();
    let again = written(VectorType::F32);
    assert_eq!(rows(dir.path()).unwrap(), rows(again.path()).unwrap());

    let mut writer = EmbeddingsWriter::open(dir.path(), header(VectorType::F32)).unwrap();
    assert!(writer.is_complete());
    writer.set_aside(1).unwrap();
    push(&mut writer, 4..6);
    writer.finish().unwrap();
    assert_eq!(rows(dir.path()).unwrap().len(), 6);
}

#[test]
fn a_set_of_something_else_is_not_continued() {
    let dir = written(VectorType::F32);
    let refuse = |change: fn(&mut EmbeddingsHeader)| {
        let mut header = header(VectorType::F32);
        change(&mut header);
        EmbeddingsWriter::open(dir.path(), header).unwrap_err().to_string()
    };
    assert!(
        refuse(|h| h.model.fingerprint = "beef".into())
            .contains("another model (fingerprint): expected beef, got f00d")
    );
    assert!(refuse(|h| h.tower = "question".into()).contains("another tower"));
    assert!(refuse(|h| h.vectors = VectorType::F16).contains("expected f16, got f32"));
    assert!(refuse(|h| h.part_rows = 5).contains("part size"));
    assert!(refuse(|h| h.dtype = Some("int8".into())).contains(
        "it was made with another dtype: expected int8, got f32. Choose another `--out`, or remove the directory"
    ));
    let held = EmbeddingsWriter::open(dir.path(), header(VectorType::F32)).unwrap();
    assert!(refuse(|_| ()).contains("another process"));
    drop(held);
}

#[test]
fn vectors_that_cannot_be_used_are_refused_with_their_key() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = EmbeddingsWriter::open(dir.path(), header(VectorType::F32)).unwrap();
    let document = Document {
        key: "a".into(),
        ..document(0)
    };
    let error = writer
        .push(&document, &[1.0, f32::NAN, 0.0], false)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("row 0 (key `a`) holds a value that is not finite at position 1"),
        "{error}"
    );
    let error = writer.push(&document, &[1.0], false).unwrap_err().to_string();
    assert!(error.contains("has 1 values, expected 3"), "{error}");
    writer.push(&document, &[70_000.0, 0.0, 0.0], false).unwrap();

    let dir = tempfile::tempdir().unwrap();
    let mut writer = EmbeddingsWriter::open(dir.path(), header(VectorType::F16)).unwrap();
    let error = writer
        .push(&document, &[0.0, 70_000.0, 0.0], false)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("holds a value that f16 cannot hold at position 1"),
        "{error}"
    );
}

/// Every byte of every part is flipped in turn: reading must say so.
#[test]
fn a_flipped_byte_anywhere_is_found() {
    let dir = written(VectorType::F32);
    for name in ["part-000001.npy", "part-000002.keys"] {
        let path = dir.path().join(name);
        let intact = fs_err::read(&path).unwrap();
        for at in 0..intact.len() {
            let mut bytes = intact.clone();
            bytes[at] ^= 0x20;
            fs_err::write(&path, bytes).unwrap();
            let error = rows(dir.path()).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("checksum"), "{error}");
        }
        fs_err::write(&path, &intact[1..]).unwrap();
        assert!(rows(dir.path()).unwrap_err().to_string().contains("length"));
        fs_err::write(&path, intact).unwrap();
    }
    let record = dir.path().join("embeddings.json");
    let intact = fs_err::read_to_string(&record).unwrap();
    for (from, to, expected) in [
        ("\"format_version\": 1", "\"format_version\": 4", "format version 4"),
        (
            "\"format_version\": 1",
            "\"format_version\": 2",
            "is not that of its `context`",
        ),
        (
            "\"format_version\": 1",
            "\"format_version\": 3",
            "is not that of its `context` and its `vectors`",
        ),
        ("part-000001.npy", "../../secret", "not a plain name"),
        ("\"rows\": 10", "\"rows\": 11", "not the sum"),
        ("\"rows\": 4", "\"rows\": 18446744073709551615", "not the sum"),
        ("\"dim\": 3", "\"dim\": 9223372036854775807", "larger than any file"),
        ("{", "[", "damaged"),
    ] {
        fs_err::write(&record, intact.replacen(from, to, 1)).unwrap();
        let error = rows(dir.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
