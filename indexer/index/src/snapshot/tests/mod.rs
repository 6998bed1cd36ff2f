//! Parts of a generation that are open in several places, against the whole generation in one.

mod bm25;
mod dense;
mod generation;

use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::lexical::FieldValue;
use crate::search::Cost;
use crate::verify::{verify, verify_part};
use dyad_files::Never;
use generation::TestGeneration;

/// The whole generation, and every part of it: by the numbers of their shards.
struct OpenedParts {
    generation: TestGeneration,
    whole: Snapshot,
    parts: HashMap<Vec<usize>, Snapshot>,
}

impl OpenedParts {
    fn new() -> Self {
        let generation = TestGeneration::new();
        let whole = Snapshot::open(generation.index()).unwrap();
        let shards = whole.shards().len();
        let numbers_of = |bits: usize| (0..shards).filter(|number| bits >> number & 1 == 1).collect();
        let parts = (1..1 << shards).map(|bits| {
            let numbers: Vec<usize> = numbers_of(bits);
            // Opened, with and without another one before, or taken of what is open.
            let part = match bits % 3 {
                0 => generation.part(&numbers, None),
                1 => generation.part(&numbers, Some(&whole)),
                _ => whole.part(&numbers).unwrap(),
            };
            (numbers, part)
        });
        let parts = parts.collect();
        Self {
            generation,
            whole,
            parts,
        }
    }

    /// Every division of the shards into parts.
    fn divisions(&self) -> Vec<Vec<&Snapshot>> {
        let mut divisions = vec![Vec::<Vec<usize>>::new()];
        for number in 0..self.whole.shards().len() {
            let mut longer = Vec::new();
            for division in divisions {
                for at in 0..=division.len() {
                    let mut division = division.clone();
                    match division.get_mut(at) {
                        Some(part) => part.push(number),
                        None => division.push(vec![number]),
                    }
                    longer.push(division);
                }
            }
            divisions = longer;
        }
        let opened = |division: &Vec<Vec<usize>>| division.iter().map(|part| &self.parts[part]).collect();
        divisions.iter().map(opened).collect()
    }
}

/// What a search has found, by keys: those of parts have the same numbers of shards.
#[derive(Debug, Clone, PartialEq)]
struct FoundByKey {
    /// Keys and the bits of scores, best first.
    hits: Vec<(String, u32)>,
    cost: Cost,
    completeness: Completeness,
}

impl FoundByKey {
    fn new(snapshot: &Snapshot, found: &SearchHits<DocumentHit>) -> Self {
        let key = |hit: &DocumentHit| snapshot.key(hit.shard, hit.node).unwrap().to_owned();
        Self {
            hits: found.hits.iter().map(|hit| (key(hit), hit.score.to_bits())).collect(),
            cost: found.cost,
            completeness: found.completeness,
        }
    }

    /// Of all parts: score descending, then key ascending.
    fn merged(parts: impl IntoIterator<Item = Self>, k: usize) -> Self {
        let mut all = Self {
            hits: Vec::new(),
            cost: Cost::default(),
            completeness: Completeness::default(),
        };
        for part in parts {
            all.hits.extend(part.hits);
            all.cost += part.cost;
            all.completeness = all.completeness.max(part.completeness);
        }
        let score = |hit: &(String, u32)| f32::from_bits(hit.1);
        all.hits
            .sort_by(|one, other| score(other).total_cmp(&score(one)).then_with(|| one.0.cmp(&other.0)));
        all.hits.truncate(k);
        all
    }
}

/// A filter that changed metadata have a part in.
fn filter() -> DocumentFilter {
    DocumentFilter::OneOf {
        field: "colour".into(),
        values: ["red", "green"].map(|colour| FieldValue::Text(colour.into())).into(),
    }
}

#[test]
fn a_part_has_the_shards_of_its_numbers_and_needs_the_files_of_no_other() {
    let opened = OpenedParts::new();
    let (whole, index) = (&opened.whole, opened.generation.index());
    assert_eq!(opened.divisions().len(), 52);
    assert_eq!(whole.numbers(), [0, 1, 2, 3, 4]);
    let manifest = opened.generation.manifest();
    let found = verify(index, &manifest, &Never);
    assert_eq!((found.problems.as_slice(), found.stopped), (&[][..], false));
    for division in opened.divisions() {
        let (mut memory, mut coverage, mut files) = (Vec::new(), Coverage::default(), 0);
        for part in division {
            assert_eq!(part.manifest(), &manifest);
            for (entry, shard) in part.entries() {
                let number = manifest.shards.iter().position(|other| other == entry).unwrap();
                assert!(part.numbers().contains(&number));
                assert_eq!(shard.len(), whole.shards()[number].len());
                assert_eq!(shard.dense.keys().key(1), whole.shards()[number].dense.keys().key(1));
            }
            memory.push(IndexMemory::from_snapshot(part));
            assert_eq!(
                memory.last(),
                Some(&IndexMemory::of_part(index, &manifest, part.numbers()).unwrap())
            );
            let of_part = part.coverage();
            coverage.documents += of_part.documents;
            coverage.shards += of_part.shards;
            coverage.intact_documents += of_part.intact_documents;
            let found = verify_part(index, &manifest, part.numbers(), &Never);
            assert!(found.problems.is_empty(), "{found:?}");
            files += found.files;
        }
        assert_eq!(
            memory.into_iter().sum::<IndexMemory>(),
            IndexMemory::of_files(index, &manifest)
        );
        assert_eq!((coverage, files), (whole.coverage(), found.files));
    }
    // A part of other numbers shares what both have.
    let (before, after) = (opened.generation.part(&[1, 3, 4], None), &[0, 3, 4]);
    let after = opened.generation.part(after, Some(&before));
    for (at, shared) in [(0, None), (1, Some(1)), (2, Some(2))] {
        let is_same = |other: &Shard| Arc::ptr_eq(&other.dense, &after.shards()[at].dense);
        assert_eq!(before.shards().iter().position(is_same), shared);
    }
    assert!(before.part(&[1, 4]).is_some());
    assert!(before.part(&[0, 1]).is_none(), "shard 0 is not open there");
    fs_err::remove_dir_all(index.join("shards/shard-1")).unwrap();
    assert!(Snapshot::open(index).is_err());
    let without = opened.generation.part(&[0, 2, 3, 4], None);
    assert_eq!(without.len() + whole.shards()[1].len(), whole.len());
    assert!(
        verify_part(index, &manifest, without.numbers(), &Never)
            .problems
            .is_empty()
    );
    assert!(opened.generation.part(&[], None).is_empty());
}

#[test]
fn numbers_that_a_generation_does_not_have_are_refused() {
    let generation = TestGeneration::new();
    let (index, manifest) = (generation.index(), generation.manifest());
    for numbers in [&[5][..], &[0, 0], &[2, 1], &[0, 1, 2, 3, 4, usize::MAX]] {
        let error = Snapshot::open_part(index, manifest.clone(), numbers, None).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("ascending numbers below 5, each once"), "{text}");
        assert!(text.contains(&format!("{numbers:?}")), "{text}");
        assert_eq!(
            verify_part(index, &manifest, numbers, &Never).problems,
            std::slice::from_ref(&text)
        );
        assert_eq!(
            IndexMemory::of_part(index, &manifest, numbers).unwrap_err().to_string(),
            text
        );
    }
}
