//! Markdown (`CommonMark` with GitHub's tables and strikethrough, and footnotes) as the text that its reader sees.
//!
//! Blocks stand between empty lines; items of lists and rows of tables are lines. Headings are lines of their own, code
//! is kept as it stands, links are their texts and images their alternative texts. Tags and comments of HTML, marks of
//! items and addresses of links are left out.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::html::{text_of_html, text_of_inline_tag};
use super::sections::Section;

/// Stands between blocks.
const EMPTY_LINE: &str = "\n\n";
/// Stands between the cells of a row.
const CELL_SEPARATOR: &str = " | ";

/// What a Markdown file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MarkdownText {
    /// The title that was given, or else the first heading of level 1.
    pub(super) title: Option<String>,
    /// Without the heading that is the title.
    pub(super) text: String,
    /// In the order of their headings; a heading within a list or a quotation begins none.
    pub(super) sections: Vec<Section>,
}

impl MarkdownText {
    /// Reads a source whose lines end with `\n`, without its front matter.
    pub(super) fn parse(source: &str, title: Option<String>) -> Self {
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
        let mut renderer = MarkdownRenderer::new(title);
        for event in Parser::new_ext(source, options) {
            renderer.take(event);
        }
        renderer.end_block();
        renderer.done
    }
}

/// Writes the text of a source, event by event.
struct MarkdownRenderer {
    done: MarkdownText,
    /// Whether the title was in the text, or is not looked for there.
    has_title: bool,
    /// The text of the block that is being read.
    block: String,
    /// Whether that is code.
    is_code: bool,
    /// What stands before the next block.
    gap: &'static str,
    /// Cells of the row that is being read.
    cells: Vec<String>,
    is_in_table: bool,
    /// Lists that are open.
    lists: usize,
    /// Lists, quotations and footnotes that are open.
    containers: usize,
}

impl MarkdownRenderer {
    fn new(title: Option<String>) -> Self {
        Self {
            done: MarkdownText {
                title,
                ..MarkdownText::default()
            },
            has_title: false,
            block: String::new(),
            is_code: false,
            gap: EMPTY_LINE,
            cells: Vec::new(),
            is_in_table: false,
            lists: 0,
            containers: 0,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Code(text) | Event::Html(text) => self.block.push_str(&text),
            Event::InlineHtml(tag) => self.block.push_str(text_of_inline_tag(&tag)),
            Event::SoftBreak | Event::HardBreak => self.block.push('\n'),
            Event::Rule => self.end_block(),
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
            Tag::CodeBlock(_) => {
                self.end_block();
                self.is_code = true;
            }
            Tag::List(_) => {
                self.end_block();
                self.lists += 1;
                self.containers += 1;
            }
            Tag::BlockQuote(_) | Tag::FootnoteDefinition(_) => {
                self.end_block();
                self.containers += 1;
            }
            Tag::Table(_) => {
                self.end_block();
                self.is_in_table = true;
            }
            _ => self.end_block(),
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
            TagEnd::Heading(level) => self.end_heading(level),
            TagEnd::HtmlBlock => {
                self.block = text_of_html(&self.block);
                self.end_block();
            }
            TagEnd::List(_) => {
                self.end_block();
                self.lists = self.lists.saturating_sub(1);
                self.containers = self.containers.saturating_sub(1);
                self.gap = self.gap_within();
            }
            TagEnd::BlockQuote(_) | TagEnd::FootnoteDefinition => {
                self.end_block();
                self.containers = self.containers.saturating_sub(1);
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.block);
                self.cells.push(in_one_line(&cell));
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                let cells = std::mem::take(&mut self.cells);
                if cells.iter().any(|cell| !cell.is_empty()) {
                    self.block = cells.join(CELL_SEPARATOR);
                }
                self.end_block();
            }
            TagEnd::Table => {
                self.is_in_table = false;
                self.gap = self.gap_within();
            }
            _ => self.end_block(),
        }
    }

    /// What stands between blocks where the reading is: lists and tables have lines.
    fn gap_within(&self) -> &'static str {
        if self.lists > 0 || self.is_in_table {
            "\n"
        } else {
            EMPTY_LINE
        }
    }

    /// Adds the block that was read to the text.
    fn end_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        let is_code = std::mem::take(&mut self.is_code);
        let block = if is_code {
            block.trim_matches('\n')
        } else {
            block.trim()
        };
        if block.trim().is_empty() {
            return;
        }
        let text = &mut self.done.text;
        if !text.is_empty() {
            text.push_str(self.gap);
        }
        text.push_str(block);
        self.gap = self.gap_within();
    }

    /// Adds a heading, or makes it the title.
    fn end_heading(&mut self, level: HeadingLevel) {
        let heading = in_one_line(&std::mem::take(&mut self.block));
        if heading.is_empty() {
            return;
        }
        let is_section = self.containers == 0;
        if is_section && level == HeadingLevel::H1 && !self.has_title {
            self.has_title = true;
            let title = self.done.title.get_or_insert_with(|| heading.clone());
            if *title == heading {
                let begin = self.done.text.len();
                self.done.sections.push(Section {
                    begin,
                    heading_end: begin,
                    level: 1,
                    heading,
                });
                return;
            }
        }
        self.block.clone_from(&heading);
        self.end_block();
        if is_section {
            let heading_end = self.done.text.len();
            let begin = heading_end.saturating_sub(heading.len());
            self.done.sections.push(Section {
                begin,
                heading_end,
                level: level as u8,
                heading,
            });
        }
    }
}

/// A text with single spaces for white space.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(source: &str) -> String {
        MarkdownText::parse(source, None).text
    }

    fn headings(source: &str) -> Vec<(u8, String)> {
        let found = MarkdownText::parse(source, None);
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
        let found = MarkdownText::parse(source, None);
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
            let found = MarkdownText::parse("# A  b\n\ntext\n\n# A b\n", title.map(str::to_owned));
            (found.title.unwrap(), found.text, found.sections.len())
        };
        assert_eq!(of(None), ("A b".into(), "text\n\nA b".into(), 2));
        assert_eq!(of(Some("A b")), ("A b".into(), "text\n\nA b".into(), 2));
        assert_eq!(of(Some("Other")), ("Other".into(), "A b\n\ntext\n\nA b".into(), 2));
        assert_eq!(MarkdownText::parse("## A\n", None).title, None);
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
            let found = MarkdownText::parse(&source, None);
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
