//! The search that `query` asks for and `explain` explains, as arguments.

use std::path::{Path, PathBuf};

use clap::Args;
use dyad_command::UsageError;
use dyad_files::npy::NpyFile;
use dyad_proto::v1;

use super::filter::FilterOptions;

/// A search.
#[derive(Debug, Args)]
pub(super) struct SearchOptions {
    /// The ranking.
    #[arg(long, value_enum, default_value_t = v1::Mode::Hybrid)]
    mode: v1::Mode,
    /// Hits wanted.
    #[arg(long, short, default_value_t = 10)]
    k: u32,
    /// Best hits to leave out, for pages.
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u32,
    /// Least score of a hit, in the unit of the mode.
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true)]
    score_threshold: Option<f32>,
    /// Only the best hit of each group: of the documents with the same value in this field. `--k` and `--offset` then
    /// count groups.
    #[arg(long, value_name = "FIELD")]
    group_by: Option<String>,
    /// Hits of each group, the best of all included.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "group_by")]
    group_hits: u32,
    /// Beam width of the graph search; 0 lets the server choose.
    #[arg(long, default_value_t = 0)]
    ef: u32,
    /// Target recall of the graph search, above 0 and below 1: chooses the beam width by the shards' measurements.
    #[arg(long, value_name = "RECALL", conflicts_with_all = ["ef", "exact"])]
    target_recall: Option<f64>,
    /// Compare with every vector instead of searching the graph.
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    filter: FilterOptions,
    /// How hybrid and compare fuse: reciprocal ranks, a weighted sum of normalised scores, one of scores in their
    /// bounds, from 0 to 1, or a sum of log odds. By default what `dyad-searcher learn` has found for the index, else
    /// log odds where the index knows its model's logit scale, and the weighted sum where it does not.
    #[arg(long, value_enum)]
    fusion: Option<v1::Fusion>,
    /// Weight of the dense ranking in the fusion, 0 to 1; BM25 has the rest.
    #[arg(long, value_name = "WEIGHT")]
    dense_weight: Option<f64>,
    /// Weight of a document's BM25 in the BM25 scores of its passages, 0 to 10; 0: passages alone. By default what
    /// `dyad-searcher learn` has found for the index, else 1.
    #[arg(long, value_name = "WEIGHT")]
    document_weight: Option<f64>,
    /// Least share of the documents that must be searched, where leaves hold the shards and some do not answer; by
    /// default 1.
    #[arg(long, value_name = "SHARE")]
    min_coverage: Option<f64>,
    /// Hits that each ranking gives to the fusion, at least 100 for log odds; 0 lets the server choose.
    #[arg(long, value_name = "N", default_value_t = 0)]
    fusion_depth: u32,
    /// Constant of reciprocal rank fusion; 0 means 60. Asks for that fusion.
    #[arg(long, default_value_t = 0)]
    rrf_k: u32,
    /// Best hits that the server's cross encoder (`--reranker`) scores again; 0: none.
    #[arg(long = "rerank", value_name = "N", default_value_t = 0)]
    rerank_depth: u32,
    /// Weight of the cross encoder's scores in the order of these hits, 0 to 1; the fused scores of log odds have the
    /// rest, and other rankings none. By default what `dyad-searcher learn --reranker` has found for the index, else
    /// 0.3.
    #[arg(long, value_name = "WEIGHT", requires = "rerank_depth")]
    rerank_weight: Option<f64>,
    /// The question's vector: a .npy file of float32 or float16, one vector or one for each question. The question
    /// tower is then not asked, and QUESTION is for BM25 alone.
    #[arg(long, value_name = "NPY", requires = "fingerprint")]
    vector: Option<PathBuf>,
    /// Row of `--vector`, from 0.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "vector")]
    row: usize,
    /// Fingerprint of the model that made `--vector`, as `admin status` prints it. An index of another model is
    /// refused.
    #[arg(long, value_name = "HEX", default_value = "", hide_default_value = true)]
    fingerprint: String,
    /// The question.
    #[arg(
        value_name = "QUESTION",
        default_value = "",
        required_unless_present = "vector",
        hide_default_value = true
    )]
    question: String,
}

/// One row of an array.
fn read_vector(path: &Path, row: usize) -> anyhow::Result<Vec<f32>> {
    let mut file = NpyFile::open(path)?;
    let (rows, values) = match file.shape() {
        &[values] => (1, values),
        _ => file.rows_and_columns()?,
    };
    if row >= rows {
        return Err(UsageError(format!(
            "--row: `{}` has {rows} rows, counted from 0, got {row}",
            path.display()
        ))
        .into());
    }
    Ok(file.read_f32(row * values..(row + 1) * values)?)
}

impl SearchOptions {
    /// The request for these documents' `fields`, without snippets.
    pub(super) fn request(self, index: String, fields: Vec<String>) -> anyhow::Result<v1::SearchRequest> {
        let vector = self
            .vector
            .as_deref()
            .map(|path| read_vector(path, self.row))
            .transpose()?;
        Ok(v1::SearchRequest {
            query: self.question,
            mode: self.mode.into(),
            k: self.k,
            offset: self.offset,
            group_by: self.group_by.map(|field| v1::GroupBy {
                field,
                hits: self.group_hits,
            }),
            score_threshold: self.score_threshold,
            fields,
            ef: self.ef,
            exact: self.exact,
            rrf_k: self.rrf_k,
            fusion_depth: self.fusion_depth,
            fusion: self.fusion.unwrap_or_default().into(),
            dense_weight: self.dense_weight,
            document_weight: self.document_weight,
            min_coverage: self.min_coverage,
            target_recall: self.target_recall,
            rerank_depth: self.rerank_depth,
            rerank_weight: self.rerank_weight,
            filter: self.filter.filter(),
            vector: vector.unwrap_or_default(),
            fingerprint: self.fingerprint,
            index,
            ..v1::SearchRequest::default()
        })
    }
}
