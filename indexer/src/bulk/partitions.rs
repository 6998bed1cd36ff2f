//! Slices of inputs grouped into partitions, and partitions into shards.

use super::record::{Partition, Slice};

/// Slices one after another, until they hold as many documents as a partition should.
pub(super) fn group_partitions(slices: Vec<Slice>, documents: u64, bytes_per_document: f64) -> Vec<Partition> {
    let most = (documents.max(1) as f64 * bytes_per_document) as u64;
    let (mut partitions, mut open, mut bytes) = (Vec::new(), Vec::new(), 0);
    for slice in slices {
        if !open.is_empty() && bytes + slice.bytes > most {
            partitions.push(Partition::new(
                partitions.len(),
                std::mem::take(&mut open),
                bytes_per_document,
            ));
            bytes = 0;
        }
        bytes += slice.bytes;
        open.push(slice);
    }
    if !open.is_empty() {
        partitions.push(Partition::new(partitions.len(), open, bytes_per_document));
    }
    partitions
}

/// Partitions for each shard: as even as they can be, with at most that many documents each where partitions are not
/// larger.
pub(super) fn group_shards(partitions: &[Partition], documents: u64) -> Vec<usize> {
    let all: u64 = partitions.iter().map(|partition| partition.documents).sum();
    let count = all.div_ceil(documents.max(1)).clamp(1, partitions.len().max(1) as u64);
    let (mut shards, mut held, mut seen) = (Vec::new(), 0, 0);
    for (at, partition) in partitions.iter().enumerate() {
        held += 1;
        seen += partition.documents;
        let (left, shards_left) = (partitions.len() - at - 1, count - shards.len() as u64 - 1);
        let is_full = u128::from(seen) * u128::from(count) >= u128::from(all) * (shards.len() as u128 + 1);
        if shards_left > 0 && (is_full || left as u64 == shards_left) {
            shards.push(std::mem::take(&mut held));
        }
    }
    shards.extend(Some(held).filter(|held| *held > 0));
    shards
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(bytes: u64) -> Slice {
        Slice {
            name: "n".into(),
            first: 0,
            bytes,
            version: "v".into(),
        }
    }

    #[test]
    fn slices_fill_partitions_and_partitions_shards() {
        let cut = group_partitions([30, 30, 50, 10, 200, 5].map(slice).to_vec(), 10, 10.0);
        let bytes: Vec<Vec<u64>> = cut
            .iter()
            .map(|part| part.slices.iter().map(|slice| slice.bytes).collect())
            .collect();
        assert_eq!(bytes, [vec![30, 30], vec![50, 10], vec![200], vec![5]]);
        assert_eq!(cut.iter().map(|part| part.documents).collect::<Vec<_>>(), [6, 6, 20, 1]);
        assert_eq!(group_shards(&cut, 1_000), [4]);
        assert_eq!(group_shards(&cut, 17), [3, 1]);
        assert_eq!(group_shards(&cut, 1), [1, 1, 1, 1], "no shard without a partition");
        assert_eq!(
            group_shards(&group_partitions(vec![slice(9); 8], 1, 9.0), 2),
            [2, 2, 2, 2]
        );
    }

    #[test]
    fn names_of_partitions_tell_their_content() {
        let name = |slice: Slice| Partition::new(3, vec![slice], 1.0).name;
        let base = name(slice(7));
        assert!(base.starts_with("000003-") && base.len() == 6 + 1 + 16, "{base}");
        assert_eq!(name(slice(7)), base);
        assert_ne!(name(slice(8)), base);
        assert_ne!(
            name(Slice {
                version: "w".into(),
                ..slice(7)
            }),
            base
        );
        assert_ne!(name(Slice { first: 1, ..slice(7) }), base);
    }
}
