//! Sets that are made again after their corpus has changed: unchanged rows come from disk, and the bytes are a fresh
//! set's.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::*;
use crate::document::Document;

fn header() -> EmbeddingsHeader {
    let model = EmbeddingsModel {
        name: "m".into(),
        fingerprint: "f00d".into(),
        dim: 3,
        metric: "cosine".into(),
        max_tokens: 8,
    };
    let dtype = Some("f32".into());
    EmbeddingsHeader {
        model,
        tower: "answer".into(),
        vectors: VectorType::F16,
        part_rows: 4,
        dtype,
        two_towers: None,
        logit_scale: None,
        context: crate::PassageContext::default(),
    }
}

fn document(number: usize) -> Document {
    Document {
        key: format!("k{number}"),
        title: String::new(),
        text: format!("text {number}"),
        metadata: None,
        place: None,
    }
}

/// A vector that f16 holds.
fn row(number: usize) -> Vec<f32> {
    vec![number as f32, -0.5, 0.25]
}

/// None of the first four, and all from the eighth on.
fn is_truncated(number: usize) -> bool {
    number > 7 || number == 5
}

fn open(dir: &Path) -> EmbeddingsWriter {
    EmbeddingsWriter::open(dir, header()).unwrap()
}

fn push(writer: &mut EmbeddingsWriter, numbers: impl IntoIterator<Item = usize>) {
    for number in numbers {
        let document = document(number);
        writer.push(&document, &row(number), is_truncated(number)).unwrap();
    }
}

fn written(numbers: impl IntoIterator<Item = usize>) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path());
    push(&mut writer, numbers);
    writer.finish().unwrap();
    dir
}

/// Every file with its content.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs_err::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs_err::read(entry.path()).unwrap(),
            )
        })
        .collect()
}

/// Goes on with rows from disk where they are, and counts them.
fn go_on(writer: &mut EmbeddingsWriter, numbers: impl IntoIterator<Item = usize>) -> usize {
    let mut earlier = writer.earlier_rows();
    let mut found = 0;
    for number in numbers {
        let document = document(number);
        let kept = earlier.find(text_digest(&document, crate::PassageContext::default()));
        found += usize::from(kept.is_some());
        let truncated = is_truncated(number);
        if let Some(kept) = &kept {
            assert_eq!(kept.vector, row(number), "{number}");
            assert!(kept.truncated.is_none_or(|kept| kept == truncated), "{number}");
        }
        let vector = kept.map_or_else(|| row(number), |kept| kept.vector);
        writer.push(&document, &vector, truncated).unwrap();
    }
    found
}

#[test]
fn rows_are_used_again_wherever_they_stand() {
    for (numbers, expected) in [
        ((0..11).rev().collect::<Vec<usize>>(), 11),
        ((5..11).chain(0..5).collect(), 11),
        ((0..11).filter(|number| number % 3 != 0).collect(), 7),
        (vec![100, 3, 101, 10], 2),
    ] {
        let dir = written(0..11);
        let mut writer = open(dir.path());
        writer.set_aside(0).unwrap();
        assert_eq!(go_on(&mut writer, numbers.iter().copied()), expected);
        writer.finish().unwrap();
        assert_eq!(files(dir.path()), files(written(numbers).path()));
    }
}

#[test]
fn parts_tell_of_their_truncated_texts() {
    let dir = written(0..11);
    assert_eq!(EmbeddingsReader::open(dir.path()).unwrap().truncated(), Some(4));
    let mut writer = open(dir.path());
    writer.set_aside(0).unwrap();
    let mut earlier = writer.earlier_rows();
    let told: Vec<_> = (0..11)
        .map(|number| {
            earlier
                .find(text_digest(&document(number), crate::PassageContext::default()))
                .unwrap()
                .truncated
        })
        .collect();
    let one_of_four = [None; 4];
    assert_eq!(told, [&[Some(false); 4][..], &one_of_four, &[Some(true); 3]].concat());
    drop(writer);

    let dir = written(0..11);
    let path = dir.path().join("embeddings.json");
    let record = fs_err::read_to_string(&path).unwrap();
    assert!(record.contains(r#""truncated": 3"#), "{record}");
    fs_err::write(&path, record.replace(r#""truncated": 3"#, r#""truncated": 4"#)).unwrap();
    let error = EmbeddingsReader::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("`truncated` is larger than the part's rows"), "{error}");
}

#[test]
fn a_process_that_ends_at_any_moment_leaves_every_row() {
    let numbers = || [50].into_iter().chain(0..11);
    let fresh = files(written(numbers()).path());
    let dir = written(0..11);
    let path = |name: &str| dir.path().join(name);
    open(dir.path()).set_aside(1).unwrap();
    // Ended before the last files had their new names.
    for file in ["part-000002.npy", "part-000002.texts", "part-000001.keys"] {
        fs_err::rename(path(&format!("earlier-1-{file}")), path(file)).unwrap();
    }
    let writer = open(dir.path());
    assert_eq!((writer.earlier_rows().rows(), writer.finished_parts().len()), (7, 1));
    assert!(!path("part-000001.keys").exists());
    drop(writer);

    // Killed while a part was written: half of it is there under its own name. And the corpus changes again.
    let mut writer = open(dir.path());
    writer.set_aside(0).unwrap();
    let kept = go_on(&mut writer, numbers().take(7));
    assert_eq!(kept, 6);
    drop(writer);
    fs_err::write(path("part-000001.npy"), "half").unwrap();

    // Ended in the middle of all that, twice.
    for _ in 0..2 {
        let writer = open(dir.path());
        assert_eq!((writer.finished_parts().len(), writer.earlier_rows().rows()), (1, 11));
        assert!(!path("part-000001.npy").exists(), "unreferenced files are removed");
    }
    let mut writer = open(dir.path());
    assert_eq!(go_on(&mut writer, numbers().skip(4)), 8);
    writer.finish().unwrap();
    assert_eq!(files(dir.path()), fresh);

    // Ended after the set was complete and before the last files were gone.
    fs_err::write(path("earlier-1-part-000002.npy"), "old").unwrap();
    fs_err::write(path("part-000009.texts"), "old").unwrap();
    fs_err::write(path("part-1.npy"), "not ours").unwrap();
    drop(open(dir.path()));
    fs_err::remove_file(path("part-1.npy")).unwrap();
    assert_eq!(files(dir.path()), fresh);
}

#[test]
fn rows_that_are_damaged_are_not_used() {
    for (file, lost) in [("npy", 4), ("texts", 4), ("keys", 0)] {
        let dir = written(0..11);
        let mut writer = open(dir.path());
        writer.set_aside(0).unwrap();
        let path = dir.path().join(format!("earlier-1-part-000001.{file}"));
        let mut bytes = fs_err::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs_err::write(&path, bytes).unwrap();
        assert_eq!(go_on(&mut writer, 0..11), 11 - lost, "{file}");
        writer.finish().unwrap();
        assert_eq!(files(dir.path()), files(written(0..11).path()));
    }
    let dir = written(0..11);
    let mut writer = open(dir.path());
    writer.set_aside(0).unwrap();
    fs_err::remove_file(dir.path().join("earlier-1-part-000002.npy")).unwrap();
    assert_eq!(go_on(&mut writer, 0..11), 8);
}

/// `embeddings.json` as it was before it knew dtypes, digests of texts and truncated texts.
fn made_old(dir: &Path) {
    let path = dir.join("embeddings.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    let fields = record.as_object_mut().unwrap();
    fields.remove("dtype").unwrap();
    for part in fields["parts"].as_array_mut().unwrap() {
        let part = part.as_object_mut().unwrap();
        for field in ["texts", "truncated"] {
            part.remove(field).unwrap();
        }
    }
    fs_err::write(path, record.to_string()).unwrap();
}

#[test]
fn sets_of_earlier_releases_are_read_and_continued() {
    let dir = written(0..11);
    made_old(dir.path());
    let reader = EmbeddingsReader::open(dir.path()).unwrap();
    assert_eq!((reader.rows(), reader.dtype(), reader.truncated()), (11, None, None));
    assert_eq!(
        reader.map(|item| item.unwrap().1).collect::<Vec<_>>(),
        (0..11).map(row).collect::<Vec<_>>()
    );

    // Their parts are kept unchanged, and their dtype stays unknown.
    let mut writer = open(dir.path());
    writer.set_aside(2).unwrap();
    assert_eq!(
        (writer.earlier_rows().rows(), writer.header().dtype.as_deref()),
        (0, None)
    );
    push(&mut writer, 8..12);
    writer.finish().unwrap();
    assert_eq!(EmbeddingsReader::open(dir.path()).unwrap().dtype(), None);

    // Where none is kept, the set is a new one.
    let dir = written(0..11);
    made_old(dir.path());
    let mut writer = open(dir.path());
    writer.set_aside(0).unwrap();
    push(&mut writer, 0..11);
    writer.finish().unwrap();
    assert_eq!(EmbeddingsReader::open(dir.path()).unwrap().dtype(), Some("f32"));
}
