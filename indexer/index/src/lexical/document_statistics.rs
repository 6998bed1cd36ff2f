//! Statistics of whole documents for BM25: each is its passages together, of all shards.

/// Number and lengths of the documents that have passages which count: those that are not deleted, or a part of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DocumentStatistics {
    documents: u64,
    passages: u64,
    tokens: u64,
    /// In terms, by number: the sums over the passages that count.
    lengths: Vec<u32>,
}

/// Adds up the passages that count.
#[derive(Debug)]
pub(super) struct DocumentCounter {
    /// By number; none where no passage counts. A length alone may be 0.
    lengths: Vec<Option<u32>>,
    passages: u64,
}

impl DocumentCounter {
    /// Of that many documents.
    pub(super) fn new(documents: usize) -> Self {
        Self {
            lengths: vec![None; documents],
            passages: 0,
        }
    }

    /// A passage of a document counts, with a length in terms.
    pub(super) fn add(&mut self, document: u32, length: u64) {
        if let Some(sum) = self.lengths.get_mut(document as usize) {
            let own = u32::try_from(length).unwrap_or(u32::MAX);
            *sum = Some(sum.unwrap_or_default().saturating_add(own));
            self.passages += 1;
        }
    }

    pub(super) fn statistics(self) -> DocumentStatistics {
        let counted = || self.lengths.iter().flatten();
        DocumentStatistics {
            documents: counted().count() as u64,
            passages: self.passages,
            tokens: counted().map(|length| u64::from(*length)).sum(),
            lengths: self.lengths.iter().map(|length| length.unwrap_or_default()).collect(),
        }
    }
}

impl DocumentStatistics {
    /// Inverse document frequency of a term, as that of passages: `ln(1 + (N - df + 0.5) / (df + 0.5))`.
    pub(super) fn inverse_frequency(&self, holding: usize) -> f32 {
        let (documents, holding) = (self.documents as f64, holding as f64);
        ((documents - holding + 0.5) / (holding + 0.5)).ln_1p() as f32
    }

    /// Documents that count.
    pub(super) fn documents(&self) -> u64 {
        self.documents
    }

    /// Whether any document has more than one passage that counts.
    pub(super) fn has_several_passages(&self) -> bool {
        self.passages > self.documents
    }

    /// Mean length in terms.
    pub(super) fn average_length(&self) -> f32 {
        self.tokens as f32 / self.documents.max(1) as f32
    }

    /// Length of a document in terms.
    pub(super) fn length(&self, document: u32) -> u32 {
        self.lengths.get(document as usize).copied().unwrap_or_default()
    }
}
