//! The text of a document with mark-up, block by block, as its reader sees it: blocks stand between empty lines, items
//! of lists and rows of tables are lines, and headings are lines of their own, which begin sections.

use super::sections::Section;

/// Stands between blocks.
const EMPTY_LINE: &str = "\n\n";
/// Stands between the cells of a row.
const CELL_SEPARATOR: &str = " | ";

/// What a document says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShownText {
    /// The title that was given, or else the first heading of level 1.
    pub(super) title: Option<String>,
    /// Without the heading that is the title.
    pub(super) text: String,
    /// In the order of their headings; a heading within a list or a quotation begins none.
    pub(super) sections: Vec<Section>,
}

/// Writes the text of a document.
#[derive(Debug)]
pub(super) struct TextBlocks {
    done: ShownText,
    /// Whether the title was in the text, or is not looked for there.
    has_title: bool,
    /// The text of the block that is being read.
    pub(super) block: String,
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

impl TextBlocks {
    /// Of a document whose title may be known.
    pub(super) fn new(title: Option<String>) -> Self {
        Self {
            done: ShownText {
                title,
                ..ShownText::default()
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

    /// The whole text.
    pub(super) fn finish(mut self) -> ShownText {
        self.end_block();
        self.done
    }

    /// Gives the document a title, where it has none.
    pub(super) fn name(&mut self, title: &str) {
        let title = in_one_line(title);
        if !title.is_empty() && self.done.title.is_none() {
            self.done.title = Some(title);
        }
    }

    pub(super) fn is_code(&self) -> bool {
        self.is_code
    }

    pub(super) fn begin_code(&mut self) {
        self.end_block();
        self.is_code = true;
    }

    pub(super) fn begin_list(&mut self) {
        self.end_block();
        self.lists += 1;
        self.containers += 1;
    }

    pub(super) fn end_list(&mut self) {
        self.end_block();
        self.lists = self.lists.saturating_sub(1);
        self.containers = self.containers.saturating_sub(1);
        self.gap = self.gap_within();
    }

    /// Begins a quotation or a footnote.
    pub(super) fn begin_container(&mut self) {
        self.end_block();
        self.containers += 1;
    }

    pub(super) fn end_container(&mut self) {
        self.end_block();
        self.containers = self.containers.saturating_sub(1);
    }

    pub(super) fn begin_table(&mut self) {
        self.end_block();
        self.is_in_table = true;
    }

    pub(super) fn end_table(&mut self) {
        self.is_in_table = false;
        self.gap = self.gap_within();
    }

    pub(super) fn end_cell(&mut self) {
        let cell = std::mem::take(&mut self.block);
        self.cells.push(in_one_line(&cell));
    }

    pub(super) fn end_row(&mut self) {
        let cells = std::mem::take(&mut self.cells);
        if cells.iter().any(|cell| !cell.is_empty()) {
            self.block = cells.join(CELL_SEPARATOR);
        }
        self.end_block();
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
    pub(super) fn end_block(&mut self) {
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

    /// Adds the block that was read as a heading, or makes it the title.
    pub(super) fn end_heading(&mut self, level: u8) {
        let heading = in_one_line(&std::mem::take(&mut self.block));
        if heading.is_empty() {
            return;
        }
        let is_section = self.containers == 0;
        if is_section && level == 1 && !self.has_title {
            self.has_title = true;
            let title = self.done.title.get_or_insert_with(|| heading.clone());
            if *title == heading {
                let begin = self.done.text.len();
                self.done.sections.push(Section {
                    begin,
                    heading_end: begin,
                    level,
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
                level,
                heading,
            });
        }
    }
}

/// A text with single spaces for white space.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
