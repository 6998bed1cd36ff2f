//! What the values of enums are called by people, on command lines, in tables and in metrics; written by `build.rs`
//! from the `.proto` files.

use crate::v1;

include!(concat!(env!("OUT_DIR"), "/dyad.v1.enums.rs"));

impl v1::Mode {
    /// Whether the dense ranking and that of BM25 are fused.
    pub const fn fuses(self) -> bool {
        matches!(self, Self::Hybrid | Self::Compare)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn values_have_words_and_none_is_not_one_of_them() {
        let words = |all: &[v1::Fusion]| all.iter().map(|one| one.word()).collect::<Vec<_>>();
        assert_eq!(
            words(v1::Fusion::value_variants()),
            ["rrf", "weighted-sum", "min-max", "log-odds"]
        );
        assert_eq!(v1::Mode::from_str("bm25", false), Ok(v1::Mode::Bm25));
        assert!(v1::Mode::from_str("unspecified", false).is_err());
        assert_eq!(v1::Metric::L2.word(), "l2");
    }
}
