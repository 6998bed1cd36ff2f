//! Splits a paragraph into sentences by rules, for English and for scripts with full stops of their own.
//!
//! A sentence ends after `.`, `!`, `?` or an ellipsis and the quotes and brackets that close with it, where whitespace
//! and something other than a lower-case letter follow; after an ideographic full stop; and at a blank line. A full
//! stop does not end one after an initial (`J. Smith`), after an abbreviation that precedes a name or a number (`Dr.`,
//! `No.`), or after one that may end a sentence (`U.S.`, `Inc.`, `p.m.`), unless a word follows that often begins one.
use std::ops::Range;

/// Abbreviations that precede a name, a number or the rest of a reference.
const BEFORE: &[&str] = &[
    "mr", "mrs", "ms", "dr", "prof", "rev", "hon", "gen", "sen", "rep", "gov", "pres", "capt", "lt", "col", "maj",
    "sgt", "cmdr", "adm", "st", "ste", "mt", "ft", "no", "nos", "vol", "vs", "v", "cf", "fig", "figs", "eq", "sec",
    "ch", "pp", "ca", "c", "approx", "viz", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct",
    "nov", "dec", "eds", "ed", "trans", "b", "d", "r", "fl", "messrs", "dept", "univ", "op",
];
/// Abbreviations that may also end a sentence.
const ANYWHERE: &[&str] = &[
    "jr", "sr", "inc", "ltd", "co", "corp", "bros", "llc", "etc", "al", "ph.d", "m.d", "b.a", "m.a", "esq", "e.g",
    "i.e",
];
/// Words that often begin a sentence and seldom follow an abbreviation.
const STARTERS: &[&str] = &[
    "the",
    "a",
    "an",
    "this",
    "that",
    "these",
    "those",
    "it",
    "its",
    "he",
    "she",
    "they",
    "we",
    "his",
    "her",
    "their",
    "in",
    "on",
    "at",
    "by",
    "for",
    "from",
    "after",
    "before",
    "during",
    "since",
    "until",
    "while",
    "when",
    "although",
    "however",
    "but",
    "and",
    "as",
    "if",
    "there",
    "some",
    "many",
    "most",
    "other",
    "another",
    "such",
    "to",
    "with",
    "under",
    "between",
    "both",
    "one",
    "two",
    "according",
    "because",
    "despite",
    "today",
    "later",
    "then",
    "also",
    "additionally",
    "furthermore",
];

/// Byte ranges of the sentences of `text`, trimmed, not empty, in order.
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut rest = text.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        let mut end = at + character.len_utf8();
        let over = match character {
            '\n' => blank_line(text.get(end..).unwrap_or_default()),
            '。' | '！' | '？' => true,
            '.' | '!' | '?' | '…' => {
                let mut only_stop = character == '.';
                while let Some(&(next, closing)) = rest.peek() {
                    if !matches!(
                        closing,
                        '.' | '!' | '?' | '…' | '"' | '\'' | ')' | ']' | '”' | '’' | '»'
                    ) {
                        break;
                    }
                    only_stop &= !matches!(closing, '!' | '?' | '…' | '.');
                    end = next + closing.len_utf8();
                    rest.next();
                }
                let (before, after) = (
                    text.get(start..at).unwrap_or_default(),
                    text.get(end..).unwrap_or_default(),
                );
                opens(after) && !(only_stop && abbreviates(before, after))
            }
            _ => false,
        };
        if over {
            push(text, start..end, &mut found);
            start = end;
        }
    }
    push(text, start..text.len(), &mut found);
    found
}

fn push(text: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let Some(part) = text.get(range.clone()) else { return };
    let start = range.start + part.len() - part.trim_start().len();
    let end = start + part.trim().len();
    if end > start {
        found.push(start..end);
    }
}

/// Whether there are only blanks before the next line end.
fn blank_line(after: &str) -> bool {
    after.split_once('\n').is_some_and(|(line, _)| line.trim().is_empty())
}

/// Whether a sentence may begin with what follows.
fn opens(after: &str) -> bool {
    let Some(first) = after.chars().next() else { return true };
    if !first.is_whitespace() {
        return false;
    }
    let rest = after.trim_start();
    let solid = rest.trim_start_matches(['"', '\'', '(', '[', '“', '‘', '«']);
    solid
        .chars()
        .next()
        .is_none_or(|first| !first.is_lowercase() && !matches!(first, ',' | ';' | ':' | '.'))
}

/// Whether the full stop after `before` belongs to its last word.
fn abbreviates(before: &str, after: &str) -> bool {
    let word = before
        .rsplit(|c: char| c.is_whitespace() || matches!(c, '(' | '[' | '"' | '“' | '-' | '–'))
        .next();
    let word = word.unwrap_or_default();
    let lower = word.to_lowercase();
    let after = after.trim_start();
    let next: String = after.chars().take_while(|c| c.is_alphabetic()).collect();
    let initial = next.chars().count() == 1 && after.strip_prefix(&next).is_some_and(|rest| rest.starts_with('.'));
    let starts = !initial && STARTERS.contains(&next.to_lowercase().as_str());
    let mut letters = word.chars();
    match (letters.next(), letters.next()) {
        // A part of a spaced ellipsis.
        (None, _) => true,
        // The pronoun and the numeral end sentences as often as an initial precedes a name.
        (Some('I'), None) => false,
        (Some(letter), None) if letter.is_uppercase() => !starts,
        _ => {
            let dotted = word.contains('.') && word.split('.').all(|part| part.chars().count() <= 2);
            let numbered = matches!(
                lower.as_str(),
                "no" | "nos" | "c" | "ca" | "b" | "d" | "r" | "fl" | "op"
            );
            let numeral = after.starts_with(|c: char| c.is_ascii_digit());
            let before_it = BEFORE.contains(&lower.as_str()) && (!numbered || numeral);
            before_it || ((dotted || ANYWHERE.contains(&lower.as_str())) && !starts && !after.is_empty())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        sentences(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn sentences_end_where_a_reader_ends_them() {
        for expected in [
            &["One is here.", "Two follows!", "Is it three?", "Yes."][..],
            &["Dr. J. Smith of St. Louis met Mr. Lee at 5 p.m. Tuesday.", "He left."],
            &[
                "It cost 3.5 million.",
                "\"Too much,\" he said.",
                "(He paid.)",
                "1999 was better.",
            ],
            &[
                "She lives in the U.S. Virgin Islands.",
                "He lives in the U.S.",
                "They met.",
            ],
            &[
                "Apple Inc. Chairman Cook spoke.",
                "He works at Apple Inc.",
                "The firm grew.",
            ],
            &[
                "He asked \"why?\" and left.",
                "\"No.\"",
                "She stayed… and then?",
                "Done",
            ],
            &["World War I.", "The war was long."],
            &[
                "See Fig. 3 and vol. 2 for more, e.g. the map.",
                "Was it No. 5?",
                "The answer is no.",
                "Nobody knew.",
            ],
            &["He was born in 1900.", "[Later] It is known as example.com today."],
            &["今日は晴れ。", "明日は雨？", "はい。"],
            &["The end.[3] goes on"],
            &[
                "J. A. Hobson spoke of Brown v. Board of Education.",
                "He said \"I . . . submit\".",
            ],
        ] {
            assert_eq!(cut(&expected.join(" ")), expected);
        }
        assert_eq!(cut("A title\n \nThe text\ngoes on."), ["A title", "The text\ngoes on."]);
        assert!(cut(" \n\n ").is_empty() && cut("").is_empty());
    }

    proptest! {
        /// There is only whitespace between sentences, for any text.
        #[test]
        fn every_character_is_in_one_sentence(text in "([A-Za-z0-9éß。\"'()\\[\\].!?… \n]|Dr\\. |U\\.S\\. ){0,60}") {
            let mut end = 0;
            for range in sentences(&text) {
                prop_assert!(range.start >= end && range.end > range.start);
                prop_assert!(text[end..range.start].trim().is_empty());
                prop_assert_eq!(text[range.clone()].trim(), &text[range.clone()]);
                end = range.end;
            }
            prop_assert!(text[end..].trim().is_empty());
        }
    }
}
