//! The text of HTML that stands in Markdown: without tags, comments, scripts and styles.

/// Elements whose content is no text.
const SILENT: [&str; 2] = ["script", "style"];
/// Elements that stand within a line; others begin one.
const INLINE: [&str; 27] = [
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "del", "em", "font", "i", "img", "ins", "kbd", "mark", "q", "s",
    "samp", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var",
];
/// Cells of a row.
const CELLS: [&str; 2] = ["td", "th"];
/// `&amp;` last, so that `&amp;lt;` is `&lt;`.
const ENTITIES: [(&str, &str); 7] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#39;", "'"),
    ("&apos;", "'"),
    ("&nbsp;", " "),
    ("&amp;", "&"),
];

/// The lines of text of a block of HTML, without empty ones. A tag or a comment that never ends is text.
pub(super) fn text_of_html(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, tag)) = rest.find('<').map(|at| rest.split_at(at)) {
        text.push_str(before);
        if let Some(comment) = tag.strip_prefix("<!--") {
            let Some((_, after)) = comment.split_once("-->") else {
                rest = tag;
                break;
            };
            rest = after;
            continue;
        }
        let name = tag_name(tag);
        if name.is_empty() && !tag.starts_with("<!") && !tag.starts_with("<?") {
            text.push('<');
            rest = tag.get(1..).unwrap_or_default();
            continue;
        }
        // Where this tag has no end, none after it has one.
        let Some(after) = after_tag(tag) else {
            rest = tag;
            break;
        };
        text.push_str(separator(&name));
        rest = if SILENT.contains(&name.as_str()) && !tag.starts_with("</") {
            after_element(after, &name)
        } else {
            after
        };
    }
    text.push_str(rest);
    if text.contains('&') {
        for (entity, character) in ENTITIES {
            text = text.replace(entity, character);
        }
    }
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

/// What stands for a tag within a line of Markdown: a line break for `<br>`, and nothing for others.
pub(super) fn text_of_inline_tag(tag: &str) -> &'static str {
    if tag_name(tag) == "br" { "\n" } else { "" }
}

/// Name of the element that a tag begins or ends, in small letters; empty where it is no tag of an element.
fn tag_name(tag: &str) -> String {
    let tag = tag.strip_prefix('<').unwrap_or(tag);
    let tag = tag.strip_prefix('/').unwrap_or(tag);
    if !tag.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        return String::new();
    }
    let name = tag
        .chars()
        .take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '-');
    name.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// What follows a tag, whose attributes may have `>` between quotes; nothing where it has no end.
fn after_tag(tag: &str) -> Option<&str> {
    let mut quote = None;
    for (at, letter) in tag.char_indices() {
        match (quote, letter) {
            (None, '>') => return tag.get(at + 1..),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
    }
    // A quote that is never closed is none.
    tag.split_once('>').map(|(_, after)| after)
}

fn separator(name: &str) -> &'static str {
    match name {
        name if CELLS.contains(&name) => " ",
        name if INLINE.contains(&name) => "",
        _ => "\n",
    }
}

/// What follows the end of an element; nothing where it has none.
fn after_element<'a>(content: &'a str, name: &str) -> &'a str {
    let ends = content
        .match_indices("</")
        .map(|(at, _)| content.get(at..).unwrap_or_default());
    let end = ends.into_iter().find(|end| tag_name(end) == name);
    end.and_then(|end| end.split_once('>')).map_or("", |(_, after)| after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_comments_and_scripts_are_left_out_and_text_stays() {
        for (html, text) in [
            ("<p align=\"center\">Some <b>bold</b> text</p>", "Some bold text"),
            ("<details>\n<summary>More</summary>\n", "More"),
            ("a <!-- b > <i> --> c", "a  c"),
            ("<script>if (a < b) {}</script><style>\np {}\n</STYLE >x", "x"),
            ("<ul><li>one<li>two</ul>", "one\ntwo"),
            ("<tr><td>a</td><td>b</td></tr>", "a  b"),
            ("1 < 2 &amp;&amp; 3 &gt; 2 &amp;lt;", "1 < 2 && 3 > 2 &lt;"),
            ("<!DOCTYPE html><?php x ?>y", "y"),
            ("x <!-- never ends", "x <!-- never ends"),
            ("x <b never ends", "x <b never ends"),
            ("<img alt=\"a -> b\">x <i title='>y</i>", "x y"),
            ("<script>never ends", ""),
            ("", ""),
        ] {
            assert_eq!(text_of_html(html), text, "{html}");
        }
        assert_eq!(text_of_inline_tag("<BR />"), "\n");
        assert_eq!(text_of_inline_tag("</kbd>"), "");
    }

    #[test]
    fn many_tags_take_a_time_that_grows_with_their_length() {
        for open in ["<", "<a", "<!--", "<script>", "<script></style"] {
            let html = open.repeat(1 << 19);
            assert!(text_of_html(&html).len() <= html.len(), "{open}");
        }
    }
}
