//! `dyad-searcher query` and `explain`.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use dyad_command::UsageError;
use dyad_proto::client::{ClientConfig, SearcherClient};
use dyad_proto::v1;

use super::{filter, json, table};

/// The searcher to call.
#[derive(Debug, Args)]
pub(super) struct Server {
    /// The searcher's URL.
    #[arg(long, default_value = "http://127.0.0.1:7700", env = "DYAD_SERVER")]
    pub(super) server: String,
    /// Deadline of one call, in milliseconds [default: 10000; for `admin` 600000].
    #[arg(long)]
    pub(super) timeout_ms: Option<u64>,
}

impl Server {
    /// Few attempts, each with a deadline of `time` unless another one is given.
    pub(super) fn config(&self, time: Duration) -> ClientConfig {
        let call_timeout = self.timeout_ms.map_or(time, |ms| Duration::from_millis(ms.max(1)));
        ClientConfig { call_timeout, attempts: 3, ..ClientConfig::default() }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    Dense,
    Bm25,
    Hybrid,
    Compare,
}

impl From<Mode> for v1::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Dense => Self::Dense,
            Mode::Bm25 => Self::Bm25,
            Mode::Hybrid => Self::Hybrid,
            Mode::Compare => Self::Compare,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Fusion {
    Rrf,
    WeightedSum,
}

impl From<Fusion> for v1::Fusion {
    fn from(fusion: Fusion) -> Self {
        match fusion {
            Fusion::Rrf => Self::Rrf,
            Fusion::WeightedSum => Self::WeightedSum,
        }
    }
}

/// Ask a running searcher.
#[derive(Debug, Args)]
pub(super) struct Query {
    #[command(flatten)]
    server: Server,
    /// The ranking.
    #[arg(long, value_enum, default_value_t = Mode::Hybrid)]
    mode: Mode,
    /// Hits wanted.
    #[arg(long, short, default_value_t = 10)]
    k: u32,
    /// Beam width of the graph search; 0 lets the server choose.
    #[arg(long, default_value_t = 0)]
    ef: u32,
    /// Target recall of the graph search, above 0 and below 1: chooses the beam width by the shards' measurements.
    #[arg(long, value_name = "RECALL", conflicts_with_all = ["ef", "exact"])]
    target_recall: Option<f64>,
    /// Compare with every vector instead of searching the graph.
    #[arg(long)]
    exact: bool,
    /// Only documents that match: FIELD=VALUE, FIELD!=VALUE, FIELD>=VALUE, FIELD>VALUE, FIELD<=VALUE, FIELD<VALUE or
    /// 'FIELD in VALUE|VALUE'. A field is `key`, `title` or one of the metadata, nested ones as `author.name`. If given several
    /// times, all must match. VALUE: a number, `true`, `false` or a text; in double quotes always a text.
    #[arg(long, value_name = "CONDITION", value_parser = filter::parse)]
    filter: Vec<v1::Filter>,
    /// How hybrid and compare fuse: reciprocal ranks, or a weighted sum of normalised scores. By default what
    /// `dyad-searcher learn` has found for the index, else the weighted sum.
    #[arg(long, value_enum)]
    fusion: Option<Fusion>,
    /// Weight of the dense ranking in the fusion, 0 to 1; BM25 has the rest.
    #[arg(long, value_name = "WEIGHT")]
    dense_weight: Option<f64>,
    /// Constant of reciprocal rank fusion; 0 means 60. Asks for that fusion.
    #[arg(long, default_value_t = 0)]
    rrf_k: u32,
    /// Print the reply as JSON.
    #[arg(long)]
    json: bool,
    /// The question.
    #[arg(value_name = "QUESTION")]
    question: String,
}

impl Query {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let request = v1::SearchRequest {
            query: self.question,
            mode: v1::Mode::from(self.mode).into(),
            k: self.k,
            ef: self.ef,
            exact: self.exact,
            rrf_k: self.rrf_k,
            fusion: self.fusion.map_or(v1::Fusion::Unspecified, v1::Fusion::from).into(),
            dense_weight: self.dense_weight,
            target_recall: self.target_recall,
            filter: filter::all(self.filter),
            ..v1::SearchRequest::default()
        };
        // Checked here and by the server, so that a wrong argument is refused without one.
        dyad_proto::validate::search_request(&request).map_err(|violations| UsageError(violations.to_string()))?;
        let client = SearcherClient::connect(&self.server.server, self.server.config(Duration::from_secs(10))).await?;
        let query = request.query.clone();
        let reply = client.search(request).await?;
        if self.json {
            json::print(&json::search(&query, &reply))?;
        } else {
            table::print(&mut std::io::stdout().lock(), &query, &reply)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Say why a document is, or is not, among the hits of a question.
#[derive(Debug, Args)]
pub(super) struct Explain {
    #[command(flatten)]
    server: Server,
    /// Key of the document.
    #[arg(long)]
    key: String,
    /// The search that is explained: its ranking.
    #[arg(long, value_enum, default_value_t = Mode::Hybrid)]
    mode: Mode,
    /// The search that is explained: hits wanted.
    #[arg(long, short, default_value_t = 10)]
    k: u32,
    /// Beam width of the graph search; 0 lets the server choose.
    #[arg(long, default_value_t = 0)]
    ef: u32,
    /// Target recall of the graph search, as in `query`.
    #[arg(long, value_name = "RECALL", conflicts_with = "ef")]
    target_recall: Option<f64>,
    /// Print the reply as JSON, BM25 term by term.
    #[arg(long)]
    json: bool,
    /// The question.
    #[arg(value_name = "QUESTION")]
    question: String,
}

impl Explain {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let client = SearcherClient::connect(&self.server.server, self.server.config(Duration::from_secs(10))).await?;
        let request = v1::ExplainRequest {
            query: self.question.clone(),
            key: self.key.clone(),
            ef: self.ef,
            k: self.k,
            mode: v1::Mode::from(self.mode).into(),
            target_recall: self.target_recall,
            ..v1::ExplainRequest::default()
        };
        let reply = client.explain(request).await?;
        if self.json {
            json::print(&json::explain(&reply))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = std::io::stdout().lock();
        let place = |placement: Option<v1::Placement>, none: &str| {
            placement.map_or(none.to_owned(), |place| format!("rank {} (score {:.4})", place.rank, place.score))
        };
        writeln!(out, "`{}` for \"{}\", generation {}", self.key, self.question, reply.generation)?;
        writeln!(out, "  dense, exact   {}", place(reply.dense_exact, "-"))?;
        let missed = match reply.depth {
            0 => "no graph was searched".to_owned(),
            depth => format!("not among the {depth} hits of the graph search at ef {}: raise --ef or -k", reply.ef),
        };
        writeln!(out, "  dense, graph   {}", place(reply.dense_graph, &missed))?;
        writeln!(out, "  bm25           {}", place(reply.bm25, "no term matches"))?;
        writeln!(out, "  terms asked    {}", reply.terms.join(" "))?;
        Ok(ExitCode::SUCCESS)
    }
}
