//! Vectors that several documents have: one node of the graph for all of them.
//!
//! As nodes of their own they would fill each other's links, and the beams of all questions near them: of 5,000 vectors, 30 % of which were
//! copies, other questions found .80 of what they should at ef 128.

use dyad_index::VectorGroups;
use dyad_index::search::VectorRows;
use rayon::prelude::*;
use xxhash_rust::xxh3::Xxh3;

use crate::error::Error;

/// Which vectors of a shard are the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Copies {
    vectors: usize,
    /// Where there are copies: for each node the first one that has its vector.
    first_with: Option<Vec<u32>>,
    /// Vectors of zeros alone.
    zeros: usize,
}

fn digest(values: &[f32]) -> u64 {
    let mut hash = Xxh3::new();
    for value in values {
        // Zeros of either sign are equal.
        hash.update(&(value + 0.0).to_le_bytes());
    }
    hash.digest()
}

impl Copies {
    /// Of all rows.
    pub(crate) fn find(rows: &dyn VectorRows) -> Self {
        let vectors = rows.len();
        let read = |node: u32| {
            let values = rows.row(node);
            ((digest(values), node), usize::from(values.iter().all(|value| *value == 0.0)))
        };
        let (mut digests, zeros): (Vec<(u64, u32)>, Vec<usize>) = (0..vectors as u32).into_par_iter().map(read).unzip();
        let zeros = zeros.into_iter().sum();
        digests.par_sort_unstable();
        let same_digest = || digests.chunk_by(|one, other| one.0 == other.0).filter(|nodes| nodes.len() > 1);
        let copies = same_digest().flat_map(|nodes| copies_of_first(rows, nodes));
        let mut first_with: Option<Vec<u32>> = None;
        for (copy, first) in copies {
            let all = first_with.get_or_insert_with(|| (0..vectors as u32).collect());
            if let Some(place) = all.get_mut(copy as usize) {
                *place = first;
            }
        }
        Self { vectors, first_with, zeros }
    }

    /// The nodes of each distinct vector; none where all vectors differ.
    pub(crate) fn groups(&self) -> Result<Option<VectorGroups>, Error> {
        Ok(self.first_with.as_deref().map(VectorGroups::new).transpose()?)
    }
}

/// The nodes with the vector of the first, and that one; `nodes` are those with its digest, ascending. Vectors that differ and have one digest
/// are nodes of their own.
fn copies_of_first(rows: &dyn VectorRows, nodes: &[(u64, u32)]) -> impl Iterator<Item = (u32, u32)> {
    let (first, others) = nodes.split_first().map_or((0, nodes), |((_, first), others)| (*first, others));
    let are_same = move |node: &u32| rows.row(*node) == rows.row(first);
    others.iter().map(|(_, node)| *node).filter(are_same).map(move |node| (node, first))
}

/// What a user should know of the vectors of a shard; nothing where all differ and none is zero.
pub(crate) fn told(copies: &Copies, groups: Option<&VectorGroups>) -> Option<String> {
    if groups.is_none() && copies.zeros == 0 {
        return None;
    }
    let mut parts = Vec::new();
    if let Some(groups) = groups {
        let most = (0..groups.len() as u32).map(|number| groups.nodes(number).len()).max().unwrap_or(0);
        parts.push(format!(
            "{} are copies of another document's ({most} documents have the most common one), and are found with it",
            copies.vectors - groups.len()
        ));
    }
    if copies.zeros > 0 {
        parts.push(format!("{} are zero", copies.zeros));
    }
    Some(format!("of {} vectors {}; all are indexed and can be found", copies.vectors, parts.join(", and ")))
}

/// Some of the rows.
pub(crate) struct RowsOf<'a> {
    rows: &'a dyn VectorRows,
    nodes: &'a [u32],
}

impl<'a> RowsOf<'a> {
    /// Row `i` of these is row `nodes[i]` of `rows`.
    pub(crate) fn new(rows: &'a dyn VectorRows, nodes: &'a [u32]) -> Self {
        Self { rows, nodes }
    }
}

impl VectorRows for RowsOf<'_> {
    fn dim(&self) -> usize {
        self.rows.dim()
    }

    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn row(&self, node: u32) -> &[f32] {
        self.nodes.get(node as usize).map_or(&[], |node| self.rows.row(*node))
    }
}

#[cfg(test)]
mod tests {
    use super::super::questions::Questions;
    use super::*;

    fn find(rows: &[[f32; 2]]) -> Copies {
        Copies::find(&Questions::of(rows.concat(), 2))
    }

    #[test]
    fn copies_and_zeros_are_found_and_told() {
        let none = find(&[[1.0, 2.0], [2.0, 1.0]]);
        assert_eq!((none.groups().unwrap(), told(&none, None)), (None, None));
        let [same, other, zero] = [[1.0, 2.0], [3.0, 4.0], [0.0, -0.0]];
        let copies = find(&[same, other, same, zero, same, other, [0.0, 0.0]]);
        assert_eq!(copies.first_with.as_deref(), Some(&[0, 1, 0, 3, 0, 1, 3][..]));
        assert_eq!(copies.zeros, 2);
        let told = told(&copies, copies.groups().unwrap().as_ref()).unwrap();
        let parts = ["4 are copies", "3 documents have", "2 are zero"];
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    }
}
