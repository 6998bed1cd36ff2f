//! Hits grouped by a value of theirs.

use super::*;

/// The groups of hits whose values are letters; a dot has none.
fn groups(letters: &str, wanted: usize, members: usize) -> (Vec<String>, usize) {
    let hits: Vec<DocumentHit> = (0..letters.len() as u32)
        .map(|node| DocumentHit {
            score: 0.0,
            shard: 0,
            node,
        })
        .collect();
    let value = |hit: &DocumentHit| {
        let letter = letters.chars().nth(hit.node as usize).unwrap();
        (letter != '.').then(|| FieldValue::Text(letter.to_string()))
    };
    let mut read = 0;
    let found = group(hits.into_iter(), wanted, members, |hit| {
        read += 1;
        Ok(value(hit))
    });
    let say = |group: HitGroup| {
        let nodes: String = group.hits.iter().map(|hit| hit.node.to_string()).collect();
        match group.value {
            Some(FieldValue::Text(letter)) => format!("{letter}{nodes}"),
            _ => format!(".{nodes}"),
        }
    };
    (found.unwrap().into_iter().map(say).collect(), read)
}

#[test]
fn groups_come_in_the_order_of_their_best_hits_and_no_further_than_needed() {
    let all = |groups: &[&str], read| (groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>(), read);
    assert_eq!(groups("aabacb", 2, 1), all(&["a0", "b2"], 3));
    assert_eq!(groups("aabacb", 2, 2), all(&["a01", "b25"], 6));
    assert_eq!(groups("aabacb", 9, 9), all(&["a013", "b25", "c4"], 6));
    assert_eq!(groups("a..a.", 3, 2), all(&["a03", ".1", ".2"], 5));
    assert_eq!(groups("", 3, 1), all(&[], 0));
    assert_eq!(groups("ab", 0, 1), all(&[], 0));
}

#[test]
fn a_ranking_is_read_again_a_few_times_at_most() {
    let depths = |mode, brings_groups: bool| {
        let (mut depth, mut all) = (100, Vec::new());
        while depth < MAX_K as usize {
            depth = next_depth(mode, depth, !all.is_empty() && !brings_groups);
            all.push(depth);
        }
        all
    };
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
        assert_eq!(depths(mode, true), [400, 1_600, 6_400, 10_000]);
    }
    assert_eq!(depths(Mode::Dense, false), [400, 10_000]);
    // The fused ranking depends on the depth.
    assert_eq!(depths(Mode::Hybrid, false), [400, 1_600, 6_400, 10_000]);
}

#[test]
fn values_of_different_types_are_different_groups() {
    let hit = DocumentHit {
        score: 0.0,
        shard: 1,
        node: 2,
    };
    let key = |value: Option<FieldValue>| GroupKey::new(value.as_ref(), &hit);
    assert_ne!(
        key(Some(FieldValue::Text("1".into()))),
        key(Some(FieldValue::Number(1.0.into())))
    );
    assert_ne!(
        key(Some(FieldValue::Flag(true))),
        key(Some(FieldValue::Number(1.0.into())))
    );
    assert_eq!(key(None), GroupKey::Alone(1, 2));
}
