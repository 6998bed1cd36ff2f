//! What a build will take, from counts alone, so that it can be said before work starts.

use std::fmt;

/// Bytes that `hnsw_rs` and freezing hold per node beside links: the point, its lock, sixteen vectors of lists, room in
/// them. With links this is a little above what was measured (peak resident memory less mapped rows, `/usr/bin/time`):
/// 2.4, 2.6 and 5.5 KB per node with `m` 8, 16 and 32.
const BUILDER_NODE_BYTES: u64 = 1_400;
/// Bytes of one link there: a counted allocation and the pointer to it.
const BUILDER_LINK_BYTES: u64 = 56;

/// Predicted sizes of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Documents, where they are known beforehand.
    pub documents: Option<u64>,
    /// Values per vector.
    pub dim: usize,
    /// Shards.
    pub shards: usize,
    /// Links per node on the upper layers.
    pub m: usize,
}

impl Plan {
    /// Bytes of `dense.dyad` over all shards for so many documents: rows padded to 16 values, and links.
    pub fn index_bytes(&self, documents: u64) -> u64 {
        let row = self.dim.next_multiple_of(16) as u64 * 4;
        // Layer 0 is nearly full; the layers above add 1/(m-1) of their own links; offsets take 8 bytes.
        let links = 4 * (2 * self.m as u64 + 1) + 8;
        documents.saturating_mul(row + links)
    }

    /// Bytes of the graph builder for the largest shard. Vectors are mapped, and not counted.
    pub fn builder_bytes(&self, documents: u64) -> u64 {
        let shard = documents.div_ceil(self.shards.max(1) as u64);
        shard.saturating_mul(BUILDER_NODE_BYTES + 2 * self.m as u64 * BUILDER_LINK_BYTES)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dim, shards) = (self.dim, self.shards);
        let parts = Shards(shards);
        match self.documents {
            Some(documents) => write!(
                f,
                "{documents} documents of {dim} values in {parts}: about {} on disk for vectors and graph, about {} of \
                 memory for the graph builder",
                Bytes(self.index_bytes(documents)),
                Bytes(self.builder_bytes(documents)),
            ),
            None => write!(
                f,
                "documents of {dim} values in {parts}: per million about {} on disk for vectors and graph, about {} of \
                 memory for the graph builder",
                Bytes(self.index_bytes(1_000_000)),
                Bytes(self.builder_bytes(1_000_000)),
            ),
        }
    }
}

/// A number of shards for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shards(pub usize);

impl fmt::Display for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} shard{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// A size for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB"];
        let mut size = self.0 as f64;
        let mut unit = "B";
        for larger in units {
            if size < 1024.0 {
                break;
            }
            size /= 1024.0;
            unit = larger;
        }
        if unit == "B" { write!(f, "{} B", self.0) } else { write!(f, "{size:.1} {unit}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_formula() {
        let plan = Plan { documents: Some(1_000), dim: 384, shards: 4, m: 16 };
        assert_eq!(plan.index_bytes(1_000), 1_000 * (384 * 4 + 33 * 4 + 8));
        assert_eq!(plan.builder_bytes(1_000), 250 * (1_400 + 32 * 56));
        assert_eq!(
            plan.to_string(),
            "1000 documents of 384 values in 4 shards: about 1.6 MiB on disk for vectors and graph, about 779.3 KiB of \
             memory for the graph builder"
        );
        assert!(Plan { documents: None, ..plan }.to_string().contains("per million about 1.6 GiB"));
    }

    #[test]
    fn bytes_are_written_in_the_largest_fitting_unit() {
        let written: Vec<String> = [0, 1_023, 1_024, 1 << 20, 5 << 40].map(|size| Bytes(size).to_string()).into();
        assert_eq!(written, ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "5.0 TiB"]);
    }
}
