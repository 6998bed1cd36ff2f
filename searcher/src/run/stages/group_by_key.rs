//! Groups of equal keys.

use std::collections::HashMap;
use std::hash::Hash;

/// Groups of equal keys, in the order of their first members.
pub(super) fn group_by_key<K: Hash + Eq + Clone, T>(all: impl Iterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    let mut positions: HashMap<K, usize> = HashMap::new();
    for (key, one) in all {
        let position = *positions.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(position) {
            Some((_, group)) => group.push(one),
            None => groups.push((key, vec![one])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_are_grouped_in_the_order_of_their_first() {
        let groups = group_by_key([3, 11, 4, 13, 21, 1].into_iter().map(|number| (number % 10, number)));
        assert_eq!(groups, [(3, vec![3, 13]), (1, vec![11, 21, 1]), (4, vec![4])]);
        assert!(group_by_key(std::iter::empty::<(u8, u8)>()).is_empty());
    }
}
