//! Documents of HTML: what is text in them.

use proptest::prelude::*;

use super::*;
use crate::read::sections::Section;

fn text(source: &str) -> String {
    text_of_html_file(source).text
}

#[test]
fn markup_is_left_out_and_what_is_read_stays() {
    for (source, expected) in [
        ("<p>Some <b>bold</b>\n  text</p>", "Some bold text"),
        ("a<b> b</b> <i> c</i>", "a b c"),
        ("<p>one<p>two<br>three <br/> four", "one\n\ntwo\nthree\nfour"),
        ("<ul><li>one<li>two <ol><li>x</ol></ul>z", "one\ntwo\nx\n\nz"),
        ("<dl><dt>a<dd>b</dl>", "a\nb"),
        (
            "&lt;a&gt; &amp;amp; &eacute;&#x1F600;&nbsp;x&copy;",
            "<a> &amp; é😀\u{a0}x©",
        ),
        ("a <!-- b > <i> --> c <!DOCTYPE x>d<?php x ?>e", "a c de"),
        ("<script>if (a < b) {'</p>'}</script><style>p {}</STYLE >x", "x"),
        ("<nav><ul><li><a href=x>Home</a></ul><nav>b</nav></nav>x", "x"),
        ("<nav>never closed<main>x</main>", "x"),
        ("<nav>never closed</body>", ""),
        (
            "a<svg><title/><text>no</text></svg>b <svg/>c<textarea><p></textarea>d",
            "ab cd",
        ),
        ("<noscript><style>x</style>on</noscript>y<template>z</template>", "y"),
        (
            "<table><thead><tr><th>a<th>b<tbody><tr><td>1<td><p>2</p><p>3</p></tr><tr><td><td></table>c",
            "a | b\n1 | 2 3\n\nc",
        ),
        ("<table><tr><td>menu<td><h2>H</h2><p>a<p>b</table>", "menu\nH\na\nb"),
        (
            "<pre>\n  let a = 1;\n\n  <b>x</b> &lt;\n</pre>y",
            "  let a = 1;\n\n  x <\n\ny",
        ),
        ("<blockquote><p>a</p><p>b</p></blockquote>c", "a\n\nb\n\nc"),
        ("x <img alt=\"a -> b\"> y <img src=z>", "x a -> b y"),
        ("<div><div>a</div>b</div>c", "a\n\nb\n\nc"),
        ("1 < 2 & 3 > 2 </ x>", "1 < 2 & 3 > 2"),
        ("</ul></table></td></nav></blockquote>a\u{0}b", "ab"),
        ("", ""),
    ] {
        assert_eq!(text(source), expected, "{source}");
    }
}

#[test]
fn titles_and_headings_are_those_of_the_page() {
    let page = "<!doctype html><html><head><meta charset=utf-8><title> The\n guide </title></head>\
        <body><header><h1>Guide</h1></header><p>Intro.<h2>A <i>b</i></h2>text<h3></h3><ul><li><h2>item</h2></ul></body></html>";
    let found = text_of_html_file(page);
    assert_eq!(found.title.as_deref(), Some("The guide"));
    assert_eq!(found.text, "Guide\n\nIntro.\n\nA b\n\ntext\n\nitem");
    let shown = |section: &Section| (section.level, section.heading.clone());
    assert_eq!(
        found.sections.iter().map(shown).collect::<Vec<_>>(),
        [(1, "Guide".to_owned()), (2, "A b".to_owned())]
    );
    let same = text_of_html_file("<title>A</title><h1>A</h1>x<h1>A</h1>");
    assert_eq!((same.title.as_deref(), same.text.as_str()), (Some("A"), "x\n\nA"));
    let heading = text_of_html_file("<title> </title><h2>B</h2><h1>A</h1>x");
    assert_eq!((heading.title.as_deref(), heading.text.as_str()), (Some("A"), "B\n\nx"));
    assert_eq!(text_of_html_file("<p>x").title, None);
}

#[test]
fn many_tags_take_a_time_that_grows_with_their_length() {
    for open in [
        "<",
        "<a",
        "<a b='",
        "<!--",
        "<script>",
        "<nav>",
        "<div>",
        "<ul><li>",
        "<table><tr><td>",
        "<br>",
        " <b> ",
        "&",
        "&amp",
        "<h1>",
        "</p>",
    ] {
        let source = open.repeat(1 << 15);
        assert!(text(&source).len() <= 2 * source.len(), "{open}");
    }
}

proptest! {
    /// Whatever the source, headings are where sections say, one after another.
    #[test]
    fn any_source_has_a_text(source in "([a-z ]{1,3}|</?(p|h1|h2|b|li|ul|td|tr|table|pre|nav|svg|title|script|body)/?>|[<>&;\"'/!-]|\\n|\\u{0}|é){0,40}") {
        let found = text_of_html_file(&source);
        let mut end = 0;
        for section in &found.sections {
            prop_assert!(section.begin >= end && section.heading_end >= section.begin);
            let shown = found.text.get(section.begin..section.heading_end);
            prop_assert!(shown == Some(section.heading.as_str()) || shown == Some(""));
            end = section.heading_end;
        }
        prop_assert!(found.text.len() >= end);
    }

    /// Text whose special characters are entities comes back.
    #[test]
    fn escaped_text_is_its_own_text(words in prop::collection::vec("[a-z<>&\"'é;#]{1,6}", 1..8)) {
        let prose = words.join(" ");
        let escaped = prose.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        prop_assert_eq!(text(&format!("<p>{escaped}</p>")), prose);
    }
}
