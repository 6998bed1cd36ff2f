//! Passages that cannot be read in their documents, or that others were read in otherwise. Each message names the fix.

/// Why passages have no vectors from their documents, or others than the index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// Vectors of passages that were read otherwise than those of the index.
    #[error(
        "vectors of generation {generation} have of their documents: `{expected}`, and the new ones `{got}`. Embed with `--context {expected}`, or build the \
         index again"
    )]
    Other {
        /// The current generation.
        generation: u64,
        /// Its context.
        expected: String,
        /// That of the new vectors.
        got: String,
    },
    /// A document that is no passage of another one, of which nothing but passages can be embedded.
    #[error(
        "document `{key}` is no passage of another one, in which it could be read (`--context {context}`). Split documents into passages (`--split WORDS`), or \
         name the file of the documents that they were cut from (`--documents FILE`)"
    )]
    NoPlace {
        /// Its key.
        key: String,
        /// The context.
        context: String,
    },
    /// Shards that do not say in which documents their passages stand: of an earlier release, or of a bulk job.
    #[error(
        "generation {generation} does not say in which documents the passages of shard {shard} stand, in which `{context}` reads them. Use `--context title`, or \
         build the index again from its documents (`build --new-model --split WORDS`, or `--documents FILE`)"
    )]
    NoDocuments {
        /// The generation.
        generation: u64,
        /// The shard.
        shard: String,
        /// The context.
        context: String,
    },
    /// A document that is too long to be sent to an encoder service.
    #[error(
        "the document of passage `{key}` has {bytes} bytes, and a request to an encoder service holds one of {limit}. Embed the corpus with `dyad-encoder embed`, \
         and give its output as `--embeddings`"
    )]
    LongDocument {
        /// A passage of it.
        key: String,
        /// Its length.
        bytes: usize,
        /// The longest.
        limit: usize,
    },
    /// A service that embeds passages alone.
    #[error(
        "{url} has not read passages in their documents (`--context {context}`): it is of an earlier release. Use one of this release, or `--context title`"
    )]
    EarlierService {
        /// The service.
        url: String,
        /// The context.
        context: String,
    },
}
