//! The tantivy index of a shard's documents: stored fields, and BM25 with statistics of the whole corpus.
//!
//! | file | contents |
//! |---|---|
//! | `schema.rs` | fields |
//! | `analyzer.rs` | text to terms |
//! | `words.rs` | the words of a text |
//! | `lower_compose.rs` | terms in lower case and composed form |
//! | `cjk.rs` | the same of scripts without spaces |
//! | `question_notes.rs` | notes on words of a question that an index does not analyse |
//! | `writer.rs` | one segment, in which document `i` is node `i` of the vectors |
//! | `parts.rs` | the merge of what was written within a limit of memory |
//! | `unsynced.rs` | a directory whose files are made durable later, all at once |
//! | `reader.rs` | stored fields |
//! | `read_only.rs` | a directory without locks and writes, for reading |
//! | `statistics.rs` | document count, lengths and document frequencies over all shards |
//! | `term_counts.rs` | the same of a question's terms, to be added up over parts of a corpus |
//! | `lengths.rs` | exact lengths of documents in terms |
//! | `terms_of.rs` | the terms of deleted documents |
//! | `places.rs`, `places_writer.rs` | where passages stand in their documents |
//! | `blanked.rs` | texts with spaces in place of what is not shown |
//! | `updates.rs` | metadata that were changed after the shard was built |
//! | `facts.rs` | titles and metadata as sortable terms |
//! | `fields_of.rs` | the values of a metadata object by their paths |
//! | `etag.rs` | a hash of a document's content |
//! | `exact_number.rs` | numbers as fields have them: doubles, and whole numbers of any size |
//! | `field_counts.rs` | how many documents have a field |
//! | `filter.rs` | filters: conditions on fields, and the nodes that match them |
//! | `column.rs` | which documents have the same value of a field |
//! | `column_reader.rs` | such columns made of the terms of a text index |
//! | `filter_matches.rs` | filters of single documents by their stored fields |
//! | `filter_terms.rs` | the documents of one term, of a range of terms, and of exact numbers |
//! | `joint_values.rs` | which values of several text indexes are the same |
//! | `passage_documents.rs` | which passages are of one document |
//! | `notes.rs` | notes on fields and types of a filter that no document has |
//! | `weighed.rs` | a question whose terms have their weights |
//! | `bm25.rs` | the best documents of a question by BM25, and explanations |
//! | `bm25_candidates.rs` | the documents that may be among the best |
//! | `document_statistics.rs` | number and lengths of whole documents over all shards |
//! | `document_bm25.rs` | what the documents of passages add to their scores |
//! | `passage_bm25.rs` | the best passages by their own BM25 and that of their documents |
//! | `wand.rs` | cancellable block-max WAND |
//! | `snippet.rs` | the part of a text that says most about a question |

mod analyzer;
mod blanked;
mod bm25;
mod bm25_candidates;
mod cjk;
mod column;
mod column_reader;
mod document_bm25;
mod document_statistics;
mod etag;
mod exact_number;
mod facts;
mod field_counts;
mod fields_of;
mod filter;
mod filter_matches;
mod filter_terms;
mod joint_values;
mod lengths;
mod lower_compose;
mod notes;
mod parts;
mod passage_bm25;
mod passage_documents;
mod places;
mod places_writer;
mod question;
mod question_notes;
mod read_only;
mod reader;
mod schema;
mod snippet;
mod statistics;
mod term_counts;
mod terms_of;
mod unsynced;
mod updates;
mod wand;
mod weighed;
mod words;
mod writer;

pub use analyzer::terms;
pub use column::{COLUMN_BYTES, ColumnValue, FieldColumn};
pub use document_bm25::{DocumentScores, ShardDocumentScores, ShardPassage, WeighedDocuments};
pub use exact_number::ExactNumber;
pub(crate) use facts::name_of_path;
pub use facts::{FieldValue, MAX_TEXT_BYTES};
pub(crate) use field_counts::CountsByPath;
pub use field_counts::FieldCounts;
pub use fields_of::{MetadataFieldName, MetadataFields};
pub use filter::DocumentFilter;
pub(crate) use joint_values::{JointValues, WholeValue};
pub(crate) use passage_documents::NO_DOCUMENT;
pub use passage_documents::{DOCUMENT_FIELD, PASSAGE_BYTES, PassageDocuments};
pub use places::{DOCUMENT_NODES_BYTES, PassagePlaces, PlaceInDocument, StoredPlace};
pub use places_writer::{PlacesWriter, TextPlace};
pub use question::AnalyzedQuestion;
pub use question_notes::{question_note, script_note};
pub use reader::{StoredDocument, TextShard};
pub use snippet::{Snippet, Snippets};
pub use statistics::CorpusStatistics;
pub use term_counts::TermCounts;
pub use updates::{MetadataUpdates, NODES_FILE, write_updates};
pub use weighed::Weighed;
pub use words::MAX_WORD_BYTES;
pub use writer::{TextDocument, TextWriter};

use crate::error::Error;

/// Adds the directory to an error of tantivy.
fn text_error(path: &std::path::Path) -> impl Fn(tantivy::TantivyError) -> Error + '_ {
    |reason| Error::Text {
        path: path.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests;
