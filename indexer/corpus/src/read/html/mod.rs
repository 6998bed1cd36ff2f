//! Files of HTML as the text that their reader sees, by the tokenizer of browsers: without tags, comments, scripts,
//! styles and navigation, and with the characters that entities stand for.
//!
//! Blocks are written as those of Markdown are. Elements need not be closed, as in HTML their ends may be left out.

use std::cell::RefCell;

use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};

use super::text_blocks::{ShownText, TextBlocks};

/// What an element is for the text around it and in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HtmlElement {
    /// A part of a line.
    Inline,
    LineBreak,
    Image,
    /// Its content is no text.
    Silent,
    /// The title of the document.
    Title,
    /// Of a level from 1 to 6.
    Heading(u8),
    Code,
    List,
    Quotation,
    Table,
    Row,
    Cell,
    /// What the text is in: where it begins, a navigation was not closed before it.
    Body,
    /// Any other one begins and ends a block.
    Block,
}

impl HtmlElement {
    /// By its name in small letters.
    fn of(name: &str) -> Self {
        match name {
            "a" | "abbr" | "acronym" | "b" | "bdi" | "bdo" | "big" | "cite" | "code" | "data" | "del" | "dfn"
            | "em" | "font" | "i" | "input" | "ins" | "kbd" | "label" | "link" | "mark" | "meta" | "meter" | "nobr"
            | "output" | "picture" | "progress" | "q" | "rp" | "rt" | "ruby" | "s" | "samp" | "small" | "source"
            | "span" | "strike" | "strong" | "sub" | "sup" | "time" | "tt" | "u" | "var" | "wbr" => Self::Inline,
            "br" => Self::LineBreak,
            "img" => Self::Image,
            "audio" | "button" | "canvas" | "datalist" | "iframe" | "math" | "nav" | "noembed" | "noframes"
            | "noscript" | "object" | "script" | "select" | "style" | "svg" | "template" | "textarea" | "video" => {
                Self::Silent
            }
            "title" => Self::Title,
            "h1" => Self::Heading(1),
            "h2" => Self::Heading(2),
            "h3" => Self::Heading(3),
            "h4" => Self::Heading(4),
            "h5" => Self::Heading(5),
            "h6" => Self::Heading(6),
            "pre" | "xmp" | "listing" => Self::Code,
            "dl" | "menu" | "ol" | "ul" => Self::List,
            "blockquote" => Self::Quotation,
            "table" => Self::Table,
            "tr" => Self::Row,
            "td" | "th" => Self::Cell,
            "body" | "main" => Self::Body,
            _ => Self::Block,
        }
    }
}

/// How the content of an element is read that has no tags in it.
fn raw_kind(name: &str) -> Option<RawKind> {
    match name {
        "script" => Some(RawKind::ScriptData),
        "iframe" | "noembed" | "noframes" | "style" | "xmp" => Some(RawKind::Rawtext),
        "textarea" | "title" => Some(RawKind::Rcdata),
        _ => None,
    }
}

/// Elements in whose content others of their own language stand.
const FOREIGN: [&str; 2] = ["svg", "math"];

/// An element whose content is left out.
#[derive(Debug)]
struct SilentElement {
    name: String,
    /// How often it is open within itself.
    depth: usize,
}

/// Writes the text of a document, token by token.
#[derive(Debug)]
struct HtmlRenderer {
    blocks: TextBlocks,
    silent: Option<SilentElement>,
    /// The title, while it is read.
    title: Option<String>,
    /// Whether a cell of a table is open.
    is_in_cell: bool,
}

/// The text of a document whose lines end with `\n`.
pub(super) fn text_of_html_file(source: &str) -> ShownText {
    let renderer = HtmlRenderer {
        blocks: TextBlocks::new(None),
        silent: None,
        title: None,
        is_in_cell: false,
    };
    let tokenizer = Tokenizer::new(HtmlTokens(RefCell::new(renderer)), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(source));
    // Nothing here stops the tokenizer before the end.
    while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
    tokenizer.end();
    tokenizer.sink.0.into_inner().blocks.finish()
}

/// Takes the tokens of a document.
struct HtmlTokens(RefCell<HtmlRenderer>);

impl TokenSink for HtmlTokens {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut renderer = self.0.borrow_mut();
        match token {
            Token::CharacterTokens(text) => renderer.add(&text),
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => return renderer.begin(&tag),
            Token::TagToken(tag) => renderer.end(&tag.name),
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }
}

impl HtmlRenderer {
    /// Adds text: white space is one space, unless it is code.
    fn add(&mut self, text: &str) {
        if self.silent.is_some() {
            return;
        }
        if let Some(title) = &mut self.title {
            title.push_str(text);
            return;
        }
        if self.blocks.is_code() {
            self.blocks.block.push_str(text);
            return;
        }
        let block = &mut self.blocks.block;
        for letter in text.chars() {
            if !letter.is_ascii_whitespace() {
                block.push(letter);
            } else if !block.is_empty() && !block.ends_with([' ', '\n']) {
                block.push(' ');
            }
        }
    }

    fn begin(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        let element = HtmlElement::of(name);
        if let Some(silent) = &mut self.silent {
            if element != HtmlElement::Body {
                silent.depth += usize::from(silent.name == name && !tag.self_closing);
                let is_foreign = FOREIGN.contains(&silent.name.as_str());
                return raw_kind(name)
                    .filter(|_| !is_foreign)
                    .map_or(TokenSinkResult::Continue, TokenSinkResult::RawData);
            }
            self.silent = None;
        }
        match element {
            HtmlElement::Inline => {}
            HtmlElement::LineBreak if self.is_in_cell => self.add(" "),
            HtmlElement::LineBreak => self.break_line(),
            HtmlElement::Image => {
                let alternative = tag.attrs.iter().find(|attribute| &*attribute.name.local == "alt");
                if let Some(alternative) = alternative {
                    self.add(&alternative.value);
                }
            }
            // Only elements of other languages can close themselves.
            HtmlElement::Silent if tag.self_closing && FOREIGN.contains(&name) => {}
            HtmlElement::Silent => {
                self.silent = Some(SilentElement {
                    name: name.to_owned(),
                    depth: 1,
                });
            }
            HtmlElement::Title => self.title = Some(String::new()),
            HtmlElement::Code => {
                self.leave_cell();
                self.blocks.begin_code();
            }
            HtmlElement::List => {
                self.leave_cell();
                self.blocks.begin_list();
            }
            HtmlElement::Quotation => {
                self.leave_cell();
                self.blocks.begin_container();
            }
            HtmlElement::Table => {
                self.leave_cell();
                self.blocks.begin_table();
            }
            HtmlElement::Heading(_) => {
                self.leave_cell();
                self.blocks.end_block();
            }
            HtmlElement::Row => {
                self.end_cell();
                self.blocks.end_row();
            }
            HtmlElement::Cell => {
                self.end_cell();
                self.is_in_cell = true;
            }
            HtmlElement::Body | HtmlElement::Block => self.end_block(),
        }
        raw_kind(name).map_or(TokenSinkResult::Continue, TokenSinkResult::RawData)
    }

    fn end(&mut self, name: &str) {
        let element = HtmlElement::of(name);
        if let Some(silent) = &mut self.silent {
            if silent.name == name {
                silent.depth -= 1;
            }
            if silent.depth == 0 || element == HtmlElement::Body {
                self.silent = None;
            }
            return;
        }
        match element {
            HtmlElement::Inline | HtmlElement::Image | HtmlElement::Silent => {}
            // As browsers read `</br>`.
            HtmlElement::LineBreak => self.break_line(),
            HtmlElement::Title => {
                if let Some(title) = self.title.take() {
                    self.blocks.name(&title);
                }
            }
            HtmlElement::Heading(level) => self.blocks.end_heading(level),
            HtmlElement::List => self.blocks.end_list(),
            HtmlElement::Quotation => self.blocks.end_container(),
            HtmlElement::Cell => self.end_cell(),
            HtmlElement::Row => {
                self.end_cell();
                self.blocks.end_row();
            }
            HtmlElement::Table => {
                self.end_cell();
                self.blocks.end_row();
                self.blocks.end_table();
            }
            HtmlElement::Code | HtmlElement::Body | HtmlElement::Block => self.end_block(),
        }
    }

    fn break_line(&mut self) {
        let is_code = self.blocks.is_code();
        let block = &mut self.blocks.block;
        if !is_code {
            block.truncate(block.trim_end_matches(' ').len());
        }
        block.push('\n');
    }

    /// Ends a block; those in a cell are one line.
    fn end_block(&mut self) {
        if self.is_in_cell {
            self.add(" ");
        } else {
            self.blocks.end_block();
        }
    }

    /// Ends the cell that is open, if one is.
    fn end_cell(&mut self) {
        if std::mem::take(&mut self.is_in_cell) {
            self.blocks.end_cell();
        } else {
            self.blocks.end_block();
        }
    }

    /// Ends a row where a cell has more than a line of text, as in tables that arrange a page.
    fn leave_cell(&mut self) {
        if std::mem::take(&mut self.is_in_cell) {
            if !self.blocks.block.trim().is_empty() {
                self.blocks.end_cell();
            }
            self.blocks.end_row();
        }
    }
}

#[cfg(test)]
mod tests;
