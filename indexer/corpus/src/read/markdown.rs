//! Markdown (`CommonMark` with GitHub's tables and strikethrough, and footnotes) as the text that its reader sees.
//!
//! Blocks stand between empty lines; items of lists and rows of tables are lines. Headings are lines of their own, code
//! is kept as it stands, links are their texts and images their alternative texts. Tags and comments of HTML, marks of
//! items and addresses of links are left out.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::markdown_html::{text_of_html, text_of_inline_tag};
use super::text_blocks::{ShownText, TextBlocks};

/// The text of a source whose lines end with `\n`, without its front matter.
pub(super) fn text_of_markdown(source: &str, title: Option<String>) -> ShownText {
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
    let mut renderer = MarkdownRenderer {
        blocks: TextBlocks::new(title),
    };
    for event in Parser::new_ext(source, options) {
        renderer.take(event);
    }
    renderer.blocks.finish()
}

/// Writes the text of a source, event by event.
struct MarkdownRenderer {
    blocks: TextBlocks,
}

impl MarkdownRenderer {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Code(text) | Event::Html(text) => self.blocks.block.push_str(&text),
            Event::InlineHtml(tag) => self.blocks.block.push_str(text_of_inline_tag(&tag)),
            Event::SoftBreak | Event::HardBreak => self.blocks.block.push('\n'),
            Event::Rule => self.blocks.end_block(),
            // The number of a footnote; the others are of extensions that are not enabled.
            Event::FootnoteReference(_) | Event::TaskListMarker(_) | Event::InlineMath(_) | Event::DisplayMath(_) => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            // Parts of a line.
            Tag::Emphasis
            | Tag::Strong
            | Tag::Strikethrough
            | Tag::Superscript
            | Tag::Subscript
            | Tag::Link { .. }
            | Tag::Image { .. }
            | Tag::TableCell => {}
            Tag::CodeBlock(_) => self.blocks.begin_code(),
            Tag::List(_) => self.blocks.begin_list(),
            Tag::BlockQuote(_) | Tag::FootnoteDefinition(_) => self.blocks.begin_container(),
            Tag::Table(_) => self.blocks.begin_table(),
            _ => self.blocks.end_block(),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::Link
            | TagEnd::Image => {}
            TagEnd::Heading(level) => self.blocks.end_heading(level as u8),
            TagEnd::HtmlBlock => {
                self.blocks.block = text_of_html(&self.blocks.block);
                self.blocks.end_block();
            }
            TagEnd::List(_) => self.blocks.end_list(),
            TagEnd::BlockQuote(_) | TagEnd::FootnoteDefinition => self.blocks.end_container(),
            TagEnd::TableCell => self.blocks.end_cell(),
            TagEnd::TableHead | TagEnd::TableRow => self.blocks.end_row(),
            TagEnd::Table => self.blocks.end_table(),
            _ => self.blocks.end_block(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::read::sections::Section;

    fn text(source: &str) -> String {
        text_of_markdown(source, None).text
    }

    fn headings(source: &str) -> Vec<(u8, String)> {
        let found = text_of_markdown(source, None);
        let heading = |section: Section| {
            let shown = &found.text[section.begin..section.heading_end];
            assert!(shown == section.heading || shown.is_empty(), "{shown}");
            (section.level, section.heading)
        };
        found.sections.into_iter().map(heading).collect()
    }

    #[test]
    fn markup_is_left_out_and_what_is_read_stays() {
        for (source, expected) in [
            (
                "A *b* **c** `d` ~~e~~ [f](g \"h\") <http://i>\n",
                "A b c d e f http://i",
            ),
            ("![a *cat*](c.png) and [![badge](b.svg)](x)", "a cat and badge"),
            ("one\ntwo  \nthree\\\nfour<br>five", "one\ntwo\nthree\nfour\nfive"),
            ("a\n\n- b\n- c\n  - d\n\n    e\n- f\n\ng", "a\n\nb\nc\nd\ne\nf\n\ng"),
            ("3. a\n4. b\n\n* c", "a\nb\n\nc"),
            ("- [ ] open\n- [x] done", "[ ] open\n[x] done"),
            ("> quoted\n> > twice\n\nb", "quoted\n\ntwice\n\nb"),
            (
                "| a | b |\n|---|---|\n| 1 | `x\\|y` |\n| | |\n| | 2 |\n\nc",
                "a | b\n1 | x|y\n| 2\n\nc",
            ),
            (
                "```rust\n\n  let a = 1; // *x*\n\n# no heading\n```\nb",
                "  let a = 1; // *x*\n\n# no heading\n\nb",
            ),
            ("a\n\n    indented\n      more\n\nb", "a\n\nindented\n  more\n\nb"),
            ("- a\n\n  ```\n  x\n\n  y\n  ```\n- b", "a\nx\n\ny\nb"),
            ("<!-- a\n\nb -->\n\nc <!-- d --> <b>e</b>", "c  e"),
            ("<div align=center>\n<p>a &amp; b</p>\n</div>\n\n*c*", "a & b\n\nc"),
            ("a[^1] b\n\n[^1]: The note.\n", "a b\n\nThe note."),
            ("[a]\n\n[a]: http://b 'c'", "a"),
            ("a &amp; &copy; \\*b\\*", "a & © *b*"),
            ("a\n***\nb\n\n---\n", "a\n\nb"),
            ("price $1 and $2, H~2~O, x^2^", "price $1 and $2, H~2~O, x^2^"),
            (" \n\t\n", ""),
        ] {
            assert_eq!(text(source), expected, "{source:?}");
        }
    }

    #[test]
    fn headings_are_lines_and_sections() {
        let source = "intro\n\nTitle *one*\nmore\n=====\n\n## A `b` [c](d) ##\na\n\n```\n# code\n```\n\n    # code\n\nB\n---\nb\n\n- # item\n\n> ## quoted\n\n# Second\n#\n#none\n";
        let found = text_of_markdown(source, None);
        assert_eq!(found.title.as_deref(), Some("Title one more"));
        assert_eq!(
            found.text,
            "intro\n\nA b c\n\na\n\n# code\n\n# code\n\nB\n\nb\n\nitem\n\nquoted\n\nSecond\n\n#none"
        );
        let expected = [(1, "Title one more"), (2, "A b c"), (2, "B"), (1, "Second")];
        assert_eq!(
            headings(source),
            expected.map(|(level, heading)| (level, heading.to_owned()))
        );
    }

    #[test]
    fn the_heading_that_is_the_title_is_not_repeated() {
        let of = |title: Option<&str>| {
            let found = text_of_markdown("# A  b\n\ntext\n\n# A b\n", title.map(str::to_owned));
            (found.title.unwrap(), found.text, found.sections.len())
        };
        assert_eq!(of(None), ("A b".into(), "text\n\nA b".into(), 2));
        assert_eq!(of(Some("A b")), ("A b".into(), "text\n\nA b".into(), 2));
        assert_eq!(of(Some("Other")), ("Other".into(), "A b\n\ntext\n\nA b".into(), 2));
        assert_eq!(text_of_markdown("## A\n", None).title, None);
    }

    #[test]
    fn many_marks_take_a_time_that_grows_with_their_length() {
        for mark in [
            "[", "![a](", "*a_b ", "`", "> ", "- ", "a | b\n", "<a ", "<!-- ", "~~", "[^a]", "# a\n", "a\n=\n", "&a;",
        ] {
            let source = mark.repeat(1 << 15);
            assert!(text(&source).len() <= 2 * source.len(), "{mark}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        /// Whatever the source, headings are where sections say, one after another, and words of plain letters are in
        /// the text.
        #[test]
        fn any_source_has_a_text(source in "([a-z]{1,3}|[#>*_`~=|\\[\\]()!<>&;:^-]{1,3}|\\n|\\n\\n|    |<!--|-->|</?p>|```|é| |\\t|\\u{0}){0,60}") {
            let found = text_of_markdown(&source, None);
            let mut end = 0;
            for section in &found.sections {
                prop_assert!(section.begin >= end && section.heading_end >= section.begin);
                let shown = found.text.get(section.begin..section.heading_end);
                prop_assert!(shown == Some(section.heading.as_str()) || shown == Some(""));
                end = section.heading_end;
            }
            prop_assert!(found.text.len() >= end);
        }

        /// Prose without marks stays as it is.
        #[test]
        fn prose_is_its_own_text(paragraphs in prop::collection::vec("[A-Za-z]+([ \\n][A-Za-z]+){0,5}[.]", 1..6)) {
            let source = paragraphs.join("\n\n");
            prop_assert_eq!(text(&source), source);
        }
    }
}
