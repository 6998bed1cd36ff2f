//! Lengths of documents: the statistics of some documents are those of an index of these alone, however long they are.

use super::*;
use crate::search::NodeSet;

const WORDS: [&str; 7] = ["river", "ocean", "mountain", "the", "of", "comet", "planets"];

/// A text of a number of words.
fn text(seed: usize, words: usize) -> String {
    (0..words)
        .map(|at| WORDS[(seed * 31 + at * 17 + at / 5) % WORDS.len()])
        .collect::<Vec<_>>()
        .join(" ")
}

fn shard(dir: &std::path::Path, texts: &[&String], within: Option<usize>) -> TextShard {
    let writer = match within {
        None => TextWriter::create(dir, TextLanguage::English),
        Some(bytes) => TextWriter::create_within(dir, TextLanguage::English, bytes),
    };
    let mut writer = writer.unwrap();
    for (number, text) in texts.iter().enumerate() {
        let key = number.to_string();
        writer
            .add(TextDocument {
                key: &key,
                title: "A title",
                text,
                metadata_json: "",
            })
            .unwrap();
    }
    writer.finish().unwrap();
    TextShard::open(dir).unwrap()
}

/// Tokens, and documents that hold `river`.
fn counted(statistics: &CorpusStatistics) -> (u64, u64) {
    let question = AnalyzedQuestion::new(TextLanguage::English, "river");
    let counts = statistics.term_counts(&question, &Never).unwrap().unwrap();
    (counts.tokens, counts.frequencies[0])
}

#[test]
fn statistics_of_some_documents_are_those_of_an_index_of_these_alone() {
    let dir = tempfile::tempdir().unwrap();
    let texts: Vec<String> = (0..60)
        .map(|at| text(at, [3, 41, 80, 500, 2000, 55][at % 6] + at))
        .collect();
    let mine: Vec<&String> = texts.iter().step_by(3).collect();
    let alone = shard(&dir.path().join("alone"), &mine, None);
    let expected = counted(&CorpusStatistics::new([&alone]));
    for (name, within) in [("whole", None), ("merged", Some(1))] {
        let all: Vec<&String> = texts.iter().collect();
        let (first, second) = all.split_at(30);
        let shards = [("0", first), ("1", second)]
            .map(|(number, texts)| shard(&dir.path().join(name).join(number), texts, within));
        let nodes = [(); 2].map(|()| {
            let mut nodes = NodeSet::new(30);
            (0..30).step_by(3).for_each(|node| _ = nodes.insert(node));
            nodes
        });
        let all = CorpusStatistics::new(&shards);
        assert_eq!(counted(&all.within(nodes.to_vec().into()).unwrap()), expected, "{name}");
        let lengths = shards[0].lengths.as_ref().unwrap();
        let total = (0..30).map(|node| lengths.get(node)).sum::<u64>();
        assert_eq!(
            total,
            counted(&CorpusStatistics::new([&shards[0]])).0,
            "those of the whole shard"
        );
    }
}

#[test]
fn short_documents_need_no_file_and_a_damaged_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (short, long) = (text(1, 30), text(2, 90));
    let path = dir.path().join("short");
    assert!(shard(&path, &[&short, &short], None).lengths.is_none() && !path.join("lengths").exists());
    let path = dir.path().join("long");
    assert!(shard(&path, &[&short, &long], None).lengths.is_some());
    for damaged in [&b""[..], b"\x01\0\0\0", b"\x01\0\0\0\x01\0\0\0\x01\0\0\0", b"123456789"] {
        fs_err::write(path.join("lengths"), damaged).unwrap();
        let error = TextShard::open(&path).unwrap_err().to_string();
        assert!(
            error.contains("lengths") && error.contains("8 bytes for 2 documents"),
            "{error}"
        );
    }
    // An index of an earlier release has none.
    fs_err::remove_file(path.join("lengths")).unwrap();
    let shard = TextShard::open(&path).unwrap();
    let mut nodes = NodeSet::new(2);
    nodes.insert(0);
    assert!(counted(&CorpusStatistics::new([&shard]).within(vec![nodes].into()).unwrap()).0 > 0);
}
