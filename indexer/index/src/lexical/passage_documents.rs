//! Which passages are of one document: those whose metadata have the same value of the field `document`, in whatever
//! shards they are.

/// The field of a passage's metadata that names its document, as `--split` writes it.
pub const DOCUMENT_FIELD: &str = "document";

/// Bytes that the documents of an index take in memory at most, for each of its passages: the number of its document,
/// and the length of that document.
pub const PASSAGE_BYTES: usize = 2 * size_of::<u32>();

/// In place of a value: the passage has none, and is a document of its own.
pub(crate) const NO_DOCUMENT: u32 = u32::MAX;

/// The number of each passage's document: from 0, and over all shards.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PassageDocuments {
    /// The number of each passage's document, by shard and node.
    numbers: Vec<Box<[u32]>>,
    documents: usize,
}

impl PassageDocuments {
    /// From numbers below `values` that tell the documents apart, by shard and node, or [`NO_DOCUMENT`]. Documents are
    /// numbered in the order of their first passages, so that what is kept by document is read in the order of the
    /// passages.
    pub(crate) fn new(mut of_passages: Vec<Vec<u32>>, values: usize) -> Self {
        let mut number_of = vec![NO_DOCUMENT; values];
        let mut documents = 0;
        for value in of_passages.iter_mut().flatten() {
            let mut alone = NO_DOCUMENT;
            let number = number_of.get_mut(*value as usize).unwrap_or(&mut alone);
            if *number == NO_DOCUMENT {
                *number = documents;
                documents += 1;
            }
            *value = *number;
        }
        let numbers = of_passages.into_iter().map(Vec::into_boxed_slice).collect();
        Self {
            numbers,
            documents: documents as usize,
        }
    }

    /// Documents with at least one passage, whether these are deleted or not.
    pub fn len(&self) -> usize {
        self.documents
    }

    /// There is no passage.
    pub fn is_empty(&self) -> bool {
        self.documents == 0
    }

    /// The documents of a shard's passages, by node.
    pub fn of_shard(&self, shard: usize) -> &[u32] {
        self.numbers.get(shard).map_or(&[], |numbers| numbers)
    }
}
