//! The sections of a document: where its headings stand in its text, and the parts of which passages are cut.

use std::ops::Range;

/// Stands between the headings of a path.
const SEPARATOR: &str = " > ";
/// Headings above it, the titles of documents, are in no path.
const HIGHEST_IN_PATH: u8 = 2;

/// A heading, and what follows it up to the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    /// Byte of the text where it begins, with its heading.
    pub(super) begin: usize,
    /// Byte where its heading ends: `begin` where that is the document's title, and not in the text.
    pub(super) heading_end: usize,
    /// Level of the heading, from 1 to 6.
    pub(super) level: u8,
    /// The heading, in one line.
    pub(super) heading: String,
}

/// A part of a text in which passages begin and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SectionPart {
    /// The bytes of the text that the section takes.
    pub(super) bytes: Range<usize>,
    /// Length of its headings, with which it begins.
    pub(super) heading_bytes: usize,
    /// The headings that it stands under, the highest first; empty where there are none of level 2 or deeper.
    pub(super) path: String,
}

/// The parts of a text that are not blank, in its order; the whole text where there is none. A heading that a deeper
/// one follows without text between them is in the same part.
pub(super) fn section_parts(text: &str, sections: &[Section]) -> Vec<SectionPart> {
    let whole = || SectionPart {
        bytes: 0..text.len(),
        heading_bytes: 0,
        path: String::new(),
    };
    let is_blank = |bytes: Range<usize>| text.get(bytes).unwrap_or_default().trim().is_empty();
    let first = sections.first().map_or(text.len(), |section| section.begin);
    let mut parts = vec![SectionPart {
        bytes: 0..first,
        ..whole()
    }];
    let mut above: Vec<&Section> = Vec::new();
    // Level of the last heading, where nothing has followed it so far.
    let mut open = None;
    let ends = sections.iter().skip(1).map(|next| next.begin).chain([text.len()]);
    for (section, end) in sections.iter().zip(ends) {
        while above.pop_if(|heading| heading.level >= section.level).is_some() {}
        above.push(section);
        let path = path(&above);
        match parts.last_mut() {
            Some(part) if open.is_some_and(|level| level < section.level) => {
                part.heading_bytes = section.heading_end.saturating_sub(part.bytes.start);
                part.bytes.end = end;
                part.path = path;
            }
            _ => parts.push(SectionPart {
                bytes: section.begin..end,
                heading_bytes: section.heading_end.saturating_sub(section.begin),
                path,
            }),
        }
        open = is_blank(section.heading_end..end).then_some(section.level);
    }
    parts.retain(|part| !is_blank(part.bytes.clone()));
    if parts.is_empty() {
        parts.push(whole());
    }
    parts
}

/// Headings between [`SEPARATOR`]s.
fn path(above: &[&Section]) -> String {
    let named = above.iter().filter(|section| section.level >= HIGHEST_IN_PATH);
    named
        .map(|section| section.heading.as_str())
        .collect::<Vec<_>>()
        .join(SEPARATOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sections whose headings are the lines that begin with `#`.
    fn sections(text: &str) -> Vec<Section> {
        let (mut found, mut begin) = (Vec::new(), 0);
        for line in text.split_inclusive('\n') {
            let heading = line.trim();
            let level = heading.len() - heading.trim_start_matches('#').len();
            if level > 0 {
                let title = heading.trim_start_matches('#').trim().to_owned();
                found.push(Section {
                    begin,
                    heading_end: begin + heading.len(),
                    level: u8::try_from(level).unwrap(),
                    heading: title,
                });
            }
            begin += line.len();
        }
        found
    }

    fn parts(text: &str) -> Vec<(String, String, String)> {
        let part = |part: SectionPart| {
            let all = &text[part.bytes];
            let (headings, rest) = all.split_at(part.heading_bytes);
            (
                part.path,
                headings.trim().replace('\n', "/"),
                rest.trim().replace('\n', "/"),
            )
        };
        section_parts(text, &sections(text)).into_iter().map(part).collect()
    }

    fn owned(parts: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
        parts
            .iter()
            .map(|(path, headings, rest)| ((*path).into(), (*headings).into(), (*rest).into()))
            .collect()
    }

    #[test]
    fn parts_begin_at_headings_and_know_those_above() {
        let text = "before\n# A\na\n## B\nb\n### C\nc\n## D\nd\n#### E\ne\n### F\nf\n# G\ng\n";
        let expected = [
            ("", "", "before"),
            ("", "# A", "a"),
            ("B", "## B", "b"),
            ("B > C", "### C", "c"),
            ("D", "## D", "d"),
            ("D > E", "#### E", "e"),
            ("D > F", "### F", "f"),
            ("", "# G", "g"),
        ];
        assert_eq!(parts(text), owned(&expected));
    }

    #[test]
    fn headings_without_text_are_with_the_deeper_ones_that_follow_them() {
        let text = "## A\n### B\n#### C\nc\n## D\n## E\n### F\n";
        let expected = [
            ("A > B > C", "## A/### B/#### C", "c"),
            ("D", "## D", ""),
            ("E > F", "## E/### F", ""),
        ];
        assert_eq!(parts(text), owned(&expected));
        assert_eq!(parts("only text"), owned(&[("", "", "only text")]));
        assert_eq!(section_parts(" ", &[]).len(), 1);
    }
}
