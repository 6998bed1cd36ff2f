//! Exports for other programs.

use std::collections::BTreeMap;

use crate::command_line::{build, dyad_indexer, text};
use crate::fixture::{DIM, Fixture, row_of};

#[test]
fn the_projector_gets_a_sample_of_vectors_with_their_documents() {
    let fixture = Fixture::new(70);
    assert_eq!(build(&fixture, &["--shards", "2"]).status.code(), Some(0));
    let export = |out: &str, more: &[&str]| {
        let mut command = dyad_indexer();
        command
            .args(["export", "projector", "--index"])
            .arg(fixture.index())
            .arg("--out")
            .arg(fixture.path(out));
        command.args(more).output().unwrap()
    };
    let read = |out: &str, file: &str| fs_err::read_to_string(fixture.path(out).join(file)).unwrap();
    let done = export("all", &[]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(
        text(&done.stdout).starts_with("70 of 70 documents of generation 1: `"),
        "{}",
        text(&done.stdout)
    );
    let (vectors, metadata) = (read("all", "vectors.tsv"), read("all", "metadata.tsv"));
    let mut lines = metadata.lines();
    assert_eq!(lines.next(), Some("key\ttitle\ttext\tnumber\tsource"));
    assert_eq!((vectors.lines().count(), lines.clone().count()), (70, 70));
    let mut all = BTreeMap::new();
    for (vector, line) in vectors.lines().zip(lines) {
        let cells: Vec<&str> = line.split('\t').collect();
        let vector: Vec<f32> = vector.split('\t').map(|value| value.parse().unwrap()).collect();
        assert_eq!((cells.len(), vector.len()), (5, DIM), "{line}");
        let number: usize = cells[0].trim_start_matches("doc-").parse().unwrap();
        let embedded = if cells[1].is_empty() {
            cells[2].to_owned()
        } else {
            format!("{} {}", cells[1], cells[2])
        };
        for (got, expected) in vector.iter().zip(row_of(&embedded)) {
            assert!((got - expected).abs() < 1e-3, "{line}");
        }
        let expected = if number.is_multiple_of(3) {
            (number.to_string(), "tests")
        } else {
            (String::new(), "")
        };
        assert_eq!((cells[3].to_owned(), cells[4]), expected);
        all.insert(number, line.to_owned());
    }
    assert_eq!(all.len(), 70);

    assert_eq!(export("some", &["--limit", "9", "--seed", "4"]).status.code(), Some(0));
    assert_eq!(export("same", &["--limit", "9", "--seed", "4"]).status.code(), Some(0));
    assert_eq!(export("other", &["--limit", "9", "--seed", "5"]).status.code(), Some(0));
    assert_eq!(read("some", "vectors.tsv").lines().count(), 9);
    assert_eq!(read("some", "metadata.tsv"), read("same", "metadata.tsv"));
    assert_ne!(read("some", "metadata.tsv"), read("other", "metadata.tsv"));
    let refused = export("some", &[]);
    assert!(
        refused.status.code() == Some(1) && text(&refused.stderr).contains("exists"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn what_would_end_a_cell_or_a_line_becomes_a_space() {
    let fixture = Fixture::new(1);
    let document = serde_json::json!({
        "_id": "k", "title": "a\tb", "text": "one\r\ntwo\u{85}three ".repeat(100), "metadata": {"x\ty": "u\nv", "deep": {"z": 1}},
    });
    fs_err::write(fixture.path("one.jsonl"), format!("{document}\n")).unwrap();
    fs_err::write(fixture.path("one.npy"), {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend(format!("{header:<117}\n").bytes());
        bytes.extend([3.0_f32, 4.0].iter().flat_map(|value| value.to_le_bytes()));
        bytes
    })
    .unwrap();
    let mut command = dyad_indexer();
    command
        .arg("build")
        .arg("--corpus")
        .arg(fixture.path("one.jsonl"))
        .arg("--index")
        .arg(fixture.path("one"));
    command
        .arg("--vectors")
        .arg(fixture.path("one.npy"))
        .args(["--model-name", "m", "--vector-type", "f32"]);
    let built = command.output().unwrap();
    assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
    let mut command = dyad_indexer();
    command
        .args(["export", "projector", "--index"])
        .arg(fixture.path("one"))
        .arg("--out")
        .arg(fixture.path("out"));
    assert_eq!(command.output().unwrap().status.code(), Some(0));
    let metadata = fs_err::read_to_string(fixture.path("out").join("metadata.tsv")).unwrap();
    let lines: Vec<&str> = metadata.split('\n').collect();
    assert_eq!((lines.len(), lines[0]), (3, "key\ttitle\ttext\tx y"));
    let cells: Vec<&str> = lines[1].split('\t').collect();
    assert_eq!((cells.len(), cells[1], cells[3]), (4, "a b", "u v"));
    assert!(
        cells[2].starts_with("one  two three one") && cells[2].len() == 200,
        "{}",
        cells[2]
    );
    assert_eq!(
        fs_err::read_to_string(fixture.path("out").join("vectors.tsv")).unwrap(),
        "0.6\t0.8\n"
    );
}
