//! Our own index as an engine: built, written as `dense.dyad`, mapped and searched. All that the harness knows of it is
//! here.

use std::path::Path;
use std::time::Instant;

use dyad_index::format::RowType;
use dyad_index::search::{DenseRows, NodeSet, Scored, SearchHits, SearchParams};
use dyad_index::shard::{self, DENSE_FILE, DenseShard, ShardInput, ShardMeta};
use dyad_index::{BuildRecord, ModelRecord, Never, kernels};
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::native::Native;
use dyad_indexer::graph_build::{BuildParams, GraphBuild, GraphBuilder as _, RecallGate};

use super::engine::{AnnEngine, FilterRows, QuerySettings, SearchableIndex, described};
use crate::ann::protocol::{AnnDescription, IndexBuild, NO_SWEEP};
use crate::dataset::Matrix;

/// The parameters of a graph. One that is not searched is as small as can be: a shard has one in any case.
pub(super) fn graph_params(job: &IndexBuild, exact: bool) -> BuildParams {
    let (m, ef_construction) = if exact { (4, 20) } else { (job.m, job.ef_construction) };
    BuildParams {
        m,
        ef_construction,
        seed: job.seed,
        threads: job.threads,
    }
}

/// The engine.
pub(super) struct Dyad {
    /// Compares with every vector that passes, as searches of mode `exact` do.
    pub(super) exact: bool,
}

impl AnnEngine for Dyad {
    fn describe(&self) -> AnnDescription {
        if self.exact {
            let settings = format!(
                "f16 vectors mapped, all that pass compared, kernels {}",
                kernels::kernels().name
            );
            let mut described = described("dyad-exact", env!("CARGO_PKG_VERSION"), settings, vec![1]);
            NO_SWEEP.clone_into(&mut described.more.sweep);
            return described;
        }
        let settings = format!(
            "dense.dyad mapped, f16 vectors, int8 codes and sketches, native builder, kernels {}; its batch call",
            kernels::kernels().name
        );
        let sweep = vec![
            10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192, 256, 384, 512,
        ];
        described("dyad", env!("CARGO_PKG_VERSION"), settings, sweep)
    }

    fn build(&self, job: &IndexBuild, base: &Matrix) -> anyhow::Result<f64> {
        let metric = job.metric.into();
        let dim = base.dim();
        let params = graph_params(job, self.exact);
        let rows = DenseRows::new(base.values(), dim);
        let started = Instant::now();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(job.threads).build()?;
        let builder = Native;
        let build = GraphBuild {
            rows: &rows,
            metric,
            row_type: RowType::F16,
            codec: None,
            builder: &builder,
            params: &params,
            initial: None,
            gate: RecallGate::default(),
            control: JobControl::silent(),
            label: "",
        };
        let built = pool.install(|| build.run())?;
        let build_s = started.elapsed().as_secs_f64();

        let model = ModelRecord {
            name: "bench".to_owned(),
            fingerprint: "none".to_owned(),
            dim,
            full_dim: None,
            metric,
            max_tokens: 0,
        };
        let record = BuildRecord {
            builder: builder.name().to_owned(),
            m: params.m,
            ef_construction: params.ef_construction,
            seed: params.seed,
            threads: params.threads,
            tool: dyad_indexer::TOOL.to_owned(),
        };
        let keys: Vec<String> = (0..base.len()).map(|row| row.to_string()).collect();
        let input = ShardInput {
            meta: &ShardMeta { model, build: record },
            vectors: &rows,
            row_type: RowType::F16,
            arranged: &built.arranged,
            keys: &keys,
            certificate: &built.certificate,
        };
        shard::write(&job.dir.join(DENSE_FILE), &input)?;
        Ok(build_s)
    }

    fn open(&self, dir: &Path) -> anyhow::Result<Box<dyn SearchableIndex>> {
        let shard = DenseShard::open(&dir.join(DENSE_FILE))?;
        Ok(Box::new(OpenShard {
            shard,
            exact: self.exact,
            filters: Vec::new(),
        }))
    }
}

struct OpenShard {
    shard: DenseShard,
    exact: bool,
    filters: Vec<NodeSet>,
}

impl SearchableIndex for OpenShard {
    fn dim(&self) -> usize {
        self.shard.header().dim as usize
    }

    fn search(&self, query: &[f32], how: QuerySettings, out: &mut [i32]) {
        self.search_batch(&[query], out.len(), how, out);
    }

    fn search_batch(
        &self,
        queries: &[&[f32]],
        k: usize,
        QuerySettings { value, filter }: QuerySettings,
        out: &mut [i32],
    ) {
        let allowed = filter.and_then(|number| self.filters.get(number));
        let found = |number: usize, found: SearchHits<Scored>| {
            let out = out.get_mut(number * k..(number + 1) * k).unwrap_or_default();
            for (hit, out) in found.hits.iter().zip(out) {
                // Row and node are the same number: the builder keeps the order.
                *out = hit.node as i32;
            }
        };
        if self.exact {
            self.shard.search_exact_batch(queries, k, allowed, &Never, found);
        } else {
            self.shard.search_batch(
                queries,
                &SearchParams {
                    allowed,
                    adaptive: true,
                    ..SearchParams::new(k, value)
                },
                found,
            );
        }
    }

    fn choose_filters(&mut self, filters: Vec<FilterRows>) -> anyhow::Result<()> {
        let nodes = |FilterRows { rows, .. }| {
            let mut nodes = NodeSet::new(self.shard.len());
            nodes.extend(rows);
            nodes
        };
        self.filters = filters.into_iter().map(nodes).collect();
        Ok(())
    }

    fn evict(&self) {
        self.shard.evict_vectors();
    }
}
