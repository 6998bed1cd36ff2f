//! Files of HTML: in folders, alone, as passages under their headings, and what is refused.

use super::passages::split;
use super::texts::{folder, shown, usual};
use super::*;

const PAGE: &str = "\u{feff}<!DOCTYPE html>\r\n<html><head><title>The caf&eacute;</title><style>p {}</style></head>\r\n\
    <body><nav><a href=\"/\">Home</a></nav>\r\n<h1>Caf&eacute;</h1>\r\n<p>Open\r\n  daily.</p>\r\n\
    <h2>Menu</h2><p>Tea and cake.</p><h3>Tea</h3><p>Green or black.</p><script>let x = '<p>no</p>';</script></body></html>";

#[test]
fn pages_are_documents_in_a_folder_and_alone() {
    let folder = folder(&[
        ("a/page.html", PAGE.as_bytes()),
        ("b.HTM.gz", &gzip("<p>Without a title")),
        ("c.md", b"# M\n\nm"),
        ("d.xhtml", b"no"),
    ]);
    let mut reader = CorpusReader::open(folder.path(), &usual()).unwrap();
    let found: Vec<(u64, Document)> = reader
        .by_ref()
        .map(|item| item.map(|found| (found.line, found.value)).unwrap())
        .collect();
    let text = "Café\n\nOpen daily.\n\nMenu\n\nTea and cake.\n\nTea\n\nGreen or black.";
    assert_eq!(
        shown(&found),
        [
            ("a/page.html", "The café", text, r#"{"path":"a/page.html"}"#),
            ("b.HTM.gz", "b", "Without a title", r#"{"path":"b.HTM.gz"}"#),
            ("c.md", "M", "m", r#"{"path":"c.md"}"#),
        ]
    );
    assert_eq!(
        reader.warnings(),
        ["files that are no Markdown, HTML or text are left out: 1 .xhtml"]
    );
    let alone = read_with(&folder.path().join("a/page.html"), &usual()).unwrap();
    assert_eq!(
        shown(&alone),
        [("page.html", "The café", text, r#"{"path":"page.html"}"#)]
    );
    let as_html = ReadOptions {
        format: CorpusFormat::Html,
        ..usual()
    };
    let forced = read_with(&folder.path().join("d.xhtml"), &as_html).unwrap();
    assert_eq!(shown(&forced), [("d.xhtml", "d", "no", r#"{"path":"d.xhtml"}"#)]);
    assert_eq!(read_with(folder.path(), &as_html).unwrap().len(), 3);
}

#[test]
fn headings_begin_passages() {
    let (_folder, path) = file("page.html", PAGE);
    let found = read_with(&path, &split(50)).unwrap();
    let passages: Vec<(String, Option<String>)> = found
        .into_iter()
        .map(|(_, found)| {
            let heading = found.metadata.as_ref().and_then(|metadata| metadata.text("heading"));
            (found.text, heading)
        })
        .collect();
    assert_eq!(
        passages,
        [
            ("Café\n\nOpen daily.".to_owned(), None),
            ("Menu\n\nTea and cake.".to_owned(), Some("Menu".to_owned())),
            ("Tea\n\nGreen or black.".to_owned(), Some("Menu > Tea".to_owned())),
        ]
    );
}

#[test]
fn pages_without_text_and_of_other_encodings_are_refused() {
    // A title alone is a document, as in Markdown.
    let found = read("x.html", "<title>T</title><script>x</script>").unwrap();
    assert_eq!(shown(&found), [("x.html", "T", "", r#"{"path":"x.html"}"#)]);
    assert_eq!(
        refusal("x.html", b"<p>\ncaf\xe9"),
        "x.html:2: not valid UTF-8 at byte 3 of the line. Convert the file to UTF-8"
    );
    assert!(refusal("x.html", "<nav>only</nav>").contains("x.html:1: the text of key `x.html` is empty"));
    let error = CorpusReader::open(
        Path::new("-"),
        &ReadOptions {
            format: CorpusFormat::Html,
            ..usual()
        },
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("with `--format markdown, html or text`"), "{error}");
}
