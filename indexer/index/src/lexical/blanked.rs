//! Texts with spaces in place of what is not shown of them.

use std::ops::Range;

/// A text with spaces in place of the bytes that are gone and not kept; parts that are no characters of the text are
/// left as they are.
pub(super) fn blanked(text: &str, mut gone: Vec<Range<usize>>, mut kept: Vec<Range<usize>>) -> String {
    gone.sort_unstable_by_key(|bytes| bytes.start);
    kept.sort_unstable_by_key(|bytes| bytes.start);
    let (mut left, mut at) = (String::with_capacity(text.len()), 0);
    let mut kept = kept.into_iter().peekable();
    // What is kept ends here, of all that begins no later.
    let mut kept_end = 0;
    for Range { start, end } in gone {
        let (mut from, end) = (start.max(at), end.min(text.len()));
        while from < end {
            while let Some(bytes) = kept.next_if(|bytes| bytes.start <= from) {
                kept_end = kept_end.max(bytes.end);
            }
            from = from.max(kept_end);
            let to = kept.peek().map_or(end, |next| next.start.min(end));
            if from >= to {
                if from >= end {
                    break;
                }
                continue;
            }
            let (Some(before), Some(_)) = (text.get(at..from), text.get(from..to)) else {
                break;
            };
            left.push_str(before);
            left.extend(std::iter::repeat_n(' ', to - from));
            (at, from) = (to, to);
        }
    }
    left.push_str(text.get(at..).unwrap_or_default());
    left
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The slow way: byte by byte.
        #[test]
        fn what_is_gone_and_not_kept_is_blank(
            gone in prop::collection::vec((0_usize..40, 0_usize..40), 0..8),
            kept in prop::collection::vec((0_usize..40, 0_usize..40), 0..8),
        ) {
            let text: String = (0..36).map(|at| char::from(b'a' + at % 26)).collect();
            let range = |(a, b): &(usize, usize)| *a.min(b)..*a.max(b);
            let gone: Vec<Range<usize>> = gone.iter().map(range).collect();
            let kept: Vec<Range<usize>> = kept.iter().map(range).collect();
            let holds = |all: &[Range<usize>], at: usize| all.iter().any(|bytes| bytes.contains(&at));
            let is_blank = |at: usize| holds(&gone, at) && !holds(&kept, at);
            let letters = text.char_indices();
            let expected: String = letters.map(|(at, letter)| if is_blank(at) { ' ' } else { letter }).collect();
            prop_assert_eq!(blanked(&text, gone, kept), expected);
        }
    }
}
