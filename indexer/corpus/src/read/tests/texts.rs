//! Markdown and plain text: folders, patterns, single files, passages under headings, and what is refused.

use super::passages::split;
use super::*;

/// A folder of files.
pub(super) fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, content).unwrap();
    }
    folder
}

/// Key, title, text and metadata.
pub(super) fn shown(documents: &[(u64, Document)]) -> Vec<(&str, &str, &str, &str)> {
    documents
        .iter()
        .map(|(_, document)| {
            let metadata = document.metadata.as_ref().map_or("", |metadata| metadata.as_json());
            (
                document.key.as_str(),
                document.title.as_str(),
                document.text.as_str(),
                metadata,
            )
        })
        .collect()
}

pub(super) fn usual() -> ReadOptions {
    ReadOptions::default()
}

fn with_format(format: CorpusFormat) -> ReadOptions {
    ReadOptions { format, ..usual() }
}

const GUIDE: &str = "---\ntitle: The guide\ntags: [a, b]\nversion: 1.10\n---\n# Guide\n\nIntro *text*.\n";

#[test]
fn a_folder_is_walked_in_order_and_the_rest_is_told() {
    let folder = folder(&[
        ("b/guide.md", GUIDE.as_bytes()),
        ("a.md", b"\xef\xbb\xbf# A\r\n\r\nOne\r\ntwo.\r\n"),
        ("b/c/plain.TXT", b"\r\n*as* it\tis\r\n\r\n"),
        ("b/c/packed.markdown.gz", &gzip("No heading")),
        ("z.md.zst", &zstd("Setext\n===\n\nx")),
        ("b/.hidden.md", b"no"),
        (".git/config.md", b"no"),
        ("image.png", b"no"),
        ("b/two.png", b"no"),
        ("Makefile", b"no"),
    ]);
    let mut reader = CorpusReader::open(folder.path(), &usual()).unwrap();
    let found: Vec<(u64, Document)> = reader
        .by_ref()
        .map(|item| item.map(|it| (it.line, it.value)).unwrap())
        .collect();
    assert_eq!(
        shown(&found),
        [
            ("a.md", "A", "One\ntwo.", r#"{"path":"a.md"}"#),
            (
                "b/c/packed.markdown.gz",
                "packed",
                "No heading",
                r#"{"path":"b/c/packed.markdown.gz"}"#
            ),
            ("b/c/plain.TXT", "plain", "*as* it\tis", r#"{"path":"b/c/plain.TXT"}"#),
            (
                "b/guide.md",
                "The guide",
                "Guide\n\nIntro text.",
                r#"{"tags":["a","b"],"version":1.10,"path":"b/guide.md"}"#
            ),
            ("z.md.zst", "Setext", "x", r#"{"path":"z.md.zst"}"#),
        ]
    );
    assert_eq!(
        reader.warnings(),
        ["files that are no Markdown, HTML or text are left out: 2 .png, 1 without an ending"]
    );
    assert_eq!(Some(reader.bytes_read()), reader.total_bytes());
}

#[test]
fn a_file_a_pattern_and_a_folder_have_the_same_documents() {
    let folder = folder(&[
        ("docs/a/guide.md", GUIDE.as_bytes()),
        ("docs/b.md", b"# B\n\nb"),
        ("docs/x.rst", b"x"),
    ]);
    let docs = folder.path().join("docs");
    let whole = read_with(&docs, &usual()).unwrap();
    assert_eq!(
        whole
            .iter()
            .map(|(_, document)| document.key.as_str())
            .collect::<Vec<_>>(),
        ["a/guide.md", "b.md"]
    );
    assert_eq!(read_with(&docs.join("**/*.md"), &usual()).unwrap(), whole);
    // A pattern may find folders, and no file is read twice.
    assert_eq!(read_with(&docs.join("[ab]*"), &usual()).unwrap(), whole);
    assert_eq!(read_with(&docs.join("**/[ab]*"), &usual()).unwrap(), whole);
    assert_eq!(read_with(&docs.join("b.md"), &usual()).unwrap(), whole[1..]);
    let alone = read_with(&docs.join("a/guide.md"), &usual()).unwrap();
    assert_eq!(alone, read_with(&docs.join("a"), &usual()).unwrap());
    assert_eq!(alone[0].1.key, "guide.md");
    assert_eq!(
        (&alone[0].1.title, &alone[0].1.text),
        (&whole[0].1.title, &whole[0].1.text)
    );
}

#[test]
fn formats_can_be_forced() {
    let folder = folder(&[
        ("a.md", b"# *A*\n"),
        ("b.txt", b"k\t*v*\n"),
        ("c.rst", b"*c*\n"),
        ("d.txt", b"prose\n"),
    ]);
    let of = |name: &str, format| {
        let found = read_with(&folder.path().join(name), &with_format(format)).unwrap();
        found
            .into_iter()
            .map(|(_, document)| format!("{}|{}", document.title, document.text))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("", CorpusFormat::Text), ["a|# *A*", "b|k\t*v*", "d|prose"]);
    assert_eq!(of("", CorpusFormat::Markdown), ["A|", "b|k\tv", "d|prose"]);
    assert_eq!(of("*.rst", CorpusFormat::Text), ["c|*c*"]);
    assert_eq!(of("c.rst", CorpusFormat::Markdown), ["c|c"]);
    // By its name alone, a file .txt has columns, as ever.
    assert_eq!(of("b.txt", CorpusFormat::Auto), ["|*v*"]);
    let error = read_with(&folder.path().join("d.txt"), &usual())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("got 1. If each file is a document, use `--format text`"),
        "{error}"
    );
    for format in [CorpusFormat::Markdown, CorpusFormat::Text] {
        assert_eq!(format.to_string().parse::<CorpusFormat>().unwrap(), format);
        let error = CorpusReader::open(Path::new("-"), &with_format(format))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("`-` is a stream, and has no name"), "{error}");
    }
}

#[test]
fn a_beir_folder_is_one_and_part_of_one_is_no_folder_of_texts() {
    let beir = folder(&[("corpus.jsonl", TWO.as_bytes()), ("README.md", b"# About")]);
    assert_eq!(read_with(beir.path(), &usual()).unwrap(), two());
    assert_eq!(
        read_with(beir.path(), &with_format(CorpusFormat::Markdown)).unwrap()[0]
            .1
            .key,
        "README.md"
    );
    let part = folder(&[("queries.jsonl", b""), ("README.md", b"# About")]);
    assert!(
        read_with(part.path(), &usual())
            .unwrap_err()
            .to_string()
            .contains("has no corpus.jsonl: expected")
    );
}

#[test]
fn flawed_files_are_told_and_may_be_skipped() {
    let folder = folder(&[
        ("bad.md", b"# A\nb\xff"),
        ("empty.md", b" \n"),
        ("front.md", b"---\na: 1\n---\n"),
        ("good.md", b"good"),
        ("nothing.txt", b""),
        ("title.md", b"# Only a title"),
        ("utf16.md", b"# x"),
    ]);
    let error = read_with(
        folder.path(),
        &ReadOptions {
            max_bad: Some(1),
            ..usual()
        },
    )
    .unwrap_err()
    .to_string();
    let error = error.replace(&format!("{}/", folder.path().display()), "");
    for told in [
        "4 bad records in `",
        "bad.md:2: not valid UTF-8 at byte 1 of the line. Convert the file to UTF-8",
        "empty.md:1: the text of key `empty.md` is empty. Remove the record or give it a text",
        "front.md:1: the text of key `front.md` is empty",
        "nothing.txt:1: the text of key `nothing.txt` is empty",
    ] {
        assert!(error.contains(told), "{error}");
    }
    let found = read_with(
        folder.path(),
        &ReadOptions {
            max_bad: Some(4),
            ..usual()
        },
    )
    .unwrap();
    assert_eq!(
        found.iter().map(|(_, it)| it.key.as_str()).collect::<Vec<_>>(),
        ["good.md", "title.md", "utf16.md"]
    );
    fs_err::write(folder.path().join("utf16.md"), b"\xff\xfea\0b\0").unwrap();
    let error = read_with(&folder.path().join("utf16.md"), &usual())
        .unwrap_err()
        .to_string();
    assert!(error.contains("utf16.md:1: not a record of this format: `"), "{error}");
    assert!(error.contains("UTF-16, not UTF-8"), "{error}");
    let found = read_with(
        folder.path(),
        &ReadOptions {
            max_bad: Some(5),
            ..usual()
        },
    )
    .unwrap();
    assert_eq!(
        found.iter().map(|(_, it)| it.key.as_str()).collect::<Vec<_>>(),
        ["good.md", "title.md"]
    );
    fs_err::write(folder.path().join("good.md"), "x".repeat((1 << 20) + 1)).unwrap();
    let error = read_with(&folder.path().join("good.md"), &usual())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("good.md:1: the text of key `good.md` is too long"),
        "{error}"
    );
    fs_err::write(folder.path().join("good.md"), "x ".repeat((8 << 20) + 1)).unwrap();
    let error = read_with(&folder.path().join("good.md"), &split(5))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("good.md:1: the file is larger than 16777216 bytes"),
        "{error}"
    );
}

#[test]
fn a_folder_without_texts_is_refused() {
    let none = folder(&[("a.pdf", b"x"), ("b/.c.md", b"x")]);
    let error = read_with(none.path(), &usual()).unwrap_err().to_string();
    assert!(
        error.contains("has no documents: expected corpus.jsonl (a BEIR folder)")
            && error.contains(".md, .markdown, .html, .htm or .txt")
            && error.contains("got 1 .pdf"),
        "{error}"
    );
    let empty = folder(&[]);
    assert!(
        read_with(empty.path(), &usual())
            .unwrap_err()
            .to_string()
            .contains("got none")
    );
}

#[test]
fn front_matter_that_is_not_understood_is_told() {
    let folder = folder(&[
        ("a.md", b"---\nx: 1\ntitle: A: b\n---\n# H\n\ntext"),
        ("b.md", b"---\nx: 1\ny: *x\npath: own\n---\ntext"),
        ("c.md", b"---\n\na\n---\nb"),
    ]);
    let mut reader = CorpusReader::open(folder.path(), &usual()).unwrap();
    let found: Vec<(u64, Document)> = reader
        .by_ref()
        .map(|item| item.map(|it| (it.line, it.value)).unwrap())
        .collect();
    assert_eq!(
        shown(&found),
        [
            ("a.md", "H", "text", r#"{"x":1,"path":"a.md"}"#),
            ("b.md", "b", "text", r#"{"x":1,"path":"b.md"}"#),
            ("c.md", "c", "a\n\nb", r#"{"path":"c.md"}"#),
        ]
    );
    let warnings = reader.warnings();
    let expected = format!(
        "front matter of 2 files is not all understood, and what is not is left out; the first: `{}`, line 3: no YAML",
        folder.path().join("a.md").display()
    );
    assert!(
        warnings.len() == 1 && warnings[0].starts_with(&expected),
        "{warnings:?}"
    );
}

#[cfg(unix)]
#[test]
fn links_to_folders_are_not_followed() {
    let folder = folder(&[("a/b.md", b"b"), ("c.md", b"c")]);
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(folder.path().join(to), folder.path().join(name));
    link("", "a/loop").unwrap();
    link("a", "again").unwrap();
    link("nowhere.md", "nowhere.md").unwrap();
    link("c.md", "link.md").unwrap();
    let mut reader = CorpusReader::open(folder.path(), &usual()).unwrap();
    let keys: Vec<String> = reader.by_ref().map(|item| item.unwrap().value.key).collect();
    assert_eq!(keys, ["a/b.md", "c.md", "link.md"]);
    let expected = "files that are no Markdown, HTML or text are left out: 3 symbolic links to folders or to nothing";
    assert_eq!(reader.warnings(), [expected]);
    // The folder itself may be a link.
    assert_eq!(
        read_with(&folder.path().join("again"), &usual()).unwrap()[0].1.key,
        "b.md"
    );
}
