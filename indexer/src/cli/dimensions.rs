//! How many values of each vector are kept.

#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct DimensionArguments {
    /// Keep the first N values of each vector, of length 1 again where cosine compares them: for models that were
    /// trained so that these say most (Matryoshka). Later changes of the index and searchers cut vectors alike. By
    /// default as in the index, or all
    #[arg(long, value_name = "N")]
    pub(super) dimensions: Option<usize>,
}
