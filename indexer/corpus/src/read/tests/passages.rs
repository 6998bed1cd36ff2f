//! Passages of Markdown and plain text: cut at headings, with the fields that say where they stand.

use super::texts::{folder, shown, usual};
use super::*;

pub(super) fn split(words: usize) -> ReadOptions {
    ReadOptions {
        split: Some(Split::new(words, 0).unwrap()),
        ..usual()
    }
}

const SECTIONS: &str = "# Manual\n\nIntro one. Intro two.\n\n## Install\n\n### Linux\n\nRun this now. Then that.\n\n### Windows\n\nClick here.\n\n```sh\n## no heading\n```\n\n## Use\n\nOne two three four five six seven.\n";

#[test]
fn passages_begin_at_headings_and_know_them() {
    let folder = folder(&[
        ("m.md", SECTIONS.as_bytes()),
        ("plain.txt", b"One two.\n\n## Three\n\nFour."),
    ]);
    let found = read_with(folder.path(), &split(6)).unwrap();
    let expected = [
        (
            "m.md#0",
            "Manual",
            "Intro one. Intro two.",
            r#"{"path":"m.md","document":"m.md","passage":0}"#,
        ),
        (
            "m.md#1",
            "Manual",
            "Install\n\nLinux\n\nRun this now.",
            r#"{"path":"m.md","document":"m.md","passage":1,"heading":"Install > Linux"}"#,
        ),
        (
            "m.md#2",
            "Manual",
            "Then that.",
            r#"{"path":"m.md","document":"m.md","passage":2,"heading":"Install > Linux"}"#,
        ),
        (
            "m.md#3",
            "Manual",
            "Windows\n\nClick here.\n\n## no heading",
            r#"{"path":"m.md","document":"m.md","passage":3,"heading":"Install > Windows"}"#,
        ),
        // A heading is with what follows it, though the sentence is then too long.
        (
            "m.md#4",
            "Manual",
            "Use\n\nOne two three four five",
            r#"{"path":"m.md","document":"m.md","passage":4,"heading":"Use"}"#,
        ),
        (
            "m.md#5",
            "Manual",
            "six seven.",
            r#"{"path":"m.md","document":"m.md","passage":5,"heading":"Use"}"#,
        ),
        (
            "plain.txt#0",
            "plain",
            "One two.\n\n## Three\n\nFour.",
            r#"{"path":"plain.txt","document":"plain.txt","passage":0}"#,
        ),
    ];
    assert_eq!(shown(&found), expected);
    for found in CorpusReader::open(&folder.path().join("m.md"), &split(6)).unwrap() {
        let passage = found.unwrap().value;
        let place = passage.place.unwrap();
        assert_eq!(place.document()[place.bytes()], passage.text);
    }
}

#[test]
fn fields_of_passages_are_reserved() {
    for (field, is_refused) in [
        ("document", true),
        ("passage", true),
        ("heading", true),
        ("headings", false),
    ] {
        let source = format!("---\n{field}: x\n---\n## H\n\ntext");
        let (_folder, path) = file("a.md", &source);
        let found = read_with(&path, &split(5));
        assert_eq!(found.is_err(), is_refused, "{field}");
        assert!(read_with(&path, &usual()).is_ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// No bytes end in a panic, and all that is read can be stored.
    #[test]
    fn any_file_is_read_or_refused(
        source in "(---\\n)?(title: |[a-z]{1,3}: |[a-z]{1,3}|[#>*_`~=|\\[\\]()!<>&;:{},'\"^%@-]{1,3}|\\r?\\n|\\n\\n|    |---\\n|é|東。| |\\t|\\u{0}|\\u{feff}){0,60}",
        bytes in prop::option::weighted(0.1, (0_usize..100, any::<u8>())),
        words in 1_usize..9,
    ) {
        let mut content = source.into_bytes();
        if let Some((at, byte)) = bytes {
            content.insert(at.min(content.len()), byte);
        }
        let (_folder, path) = file("a.md", &content);
        let options = ReadOptions { max_bad: Some(1), allow_empty: true, ..split(words) };
        for found in CorpusReader::open(&path, &options).into_iter().flatten() {
            prop_assert!(!found.unwrap().value.passage().is_empty());
        }
    }

    /// Passages have each word of the text once, in its order, and none has more than it may.
    #[test]
    fn passages_under_headings_have_all_words(
        blocks in prop::collection::vec(("(# |## |### |#### |)", 1_usize..9), 1..20),
        words in 1_usize..7,
    ) {
        let mut next = 0;
        let mut source = String::new();
        for (mark, count) in &blocks {
            let end = |number: usize| if number.is_multiple_of(3) { "." } else { "" };
            let block: Vec<String> = (next..next + count).map(|number| format!("w{number}{}", end(number))).collect();
            next += count;
            source.extend([mark, block.join(" ").as_str(), "\n\n"]);
        }
        let (_folder, path) = file("a.md", &source);
        let whole = read_with(&path, &usual()).unwrap();
        let passages = read_with(&path, &split(words)).unwrap();
        let texts: Vec<&str> = passages.iter().map(|(_, passage)| passage.text.as_str()).collect();
        let all: Vec<&str> = texts.iter().flat_map(|text| text.split_whitespace()).collect();
        prop_assert_eq!(all, whole[0].1.text.split_whitespace().collect::<Vec<_>>());
        prop_assert!(texts.iter().all(|text| text.split_whitespace().count() <= words));
    }
}
