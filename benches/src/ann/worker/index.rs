//! A whole index of ours as an engine: shards, keys and deletions, changed and merged as `dyad-indexer` does it.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use dyad_corpus::ReadOptions;
use dyad_files::space::boundless;
use dyad_index::format::RowType;
use dyad_index::lexical::{DocumentFilter, FieldValue};
use dyad_index::snapshot::{DenseParams, SearchMode};
use dyad_index::{Never, Snapshot, kernels};
use dyad_indexer::change::{MergeConfig, Operation, Passages, UpsertConfig, delete, merge, upsert};
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::BuilderKind;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::{ArraySource, Corpus, DeclaredModel};

use super::dyad::graph_params;
use super::engine::{AnnEngine, FilterRows, QuerySettings, SearchableIndex, described};
use crate::ann::protocol::{AnnDescription, AnnDetails, FilterCondition, IndexBuild, NO_SWEEP};
use crate::dataset::Matrix;

/// Name of the declared model.
const MODEL: &str = "bench";

/// The engine.
pub(super) struct WholeIndex {
    /// Searches in mode `exact`.
    pub(super) exact: bool,
}

impl AnnEngine for WholeIndex {
    fn describe(&self) -> AnnDescription {
        let settings = format!(
            "f16 vectors, native builder, keys, one thread, kernels {}",
            kernels::kernels().name
        );
        let name = if self.exact { "dyad-index-exact" } else { "dyad-index" };
        let mut described = described(name, env!("CARGO_PKG_VERSION"), settings, vec![16, 32, 64, 128]);
        described.more.reads_attributes = true;
        if self.exact {
            described.more = AnnDetails {
                sweep: NO_SWEEP.to_owned(),
                defaults: vec![1],
                ..described.more
            };
        }
        described
    }

    fn build(&self, job: &IndexBuild, base: &Matrix) -> anyhow::Result<f64> {
        let config = BuildConfig {
            corpus: match &job.attributes {
                Some(path) => Corpus::File {
                    path: path.clone(),
                    read: ReadOptions::default(),
                },
                None => Corpus::Numbered(base.len() as u64),
            },
            index: job.dir.join("index"),
            shards: 1,
            builder: BuilderKind::Native,
            params: graph_params(job, self.exact),
            row_type: RowType::F16,
            dimensions: None,
            language: None,
            queries: None,
            target: None,
            new_model: false,
            allow_empty: false,
            memory: None,
            free_space: boundless,
        };
        let started = Instant::now();
        let model = DeclaredModel {
            metric: job.metric.into(),
            ..DeclaredModel::named(MODEL)
        };
        build_index(
            &config,
            &mut ArraySource::open(&job.base, &model)?,
            JobControl::silent(),
        )?;
        Ok(started.elapsed().as_secs_f64())
    }

    fn open(&self, dir: &Path) -> anyhow::Result<Box<dyn SearchableIndex>> {
        let index = dir.join("index");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
        let (snapshot, exact) = (Snapshot::open(&index)?, self.exact);
        Ok(Box::new(OpenIndex {
            snapshot,
            exact,
            index,
            filters: Vec::new(),
            pool,
            changes: 0,
        }))
    }
}

fn condition(condition: FilterCondition) -> DocumentFilter {
    match condition {
        FilterCondition::Equals { field, value } => DocumentFilter::OneOf {
            field,
            values: vec![FieldValue::Text(value)],
        },
        FilterCondition::Below { field, bound } => DocumentFilter::Range {
            field,
            min: Bound::Unbounded,
            max: Bound::Excluded(FieldValue::Number(f64::from(bound).into())),
        },
    }
}

struct OpenIndex {
    index: PathBuf,
    snapshot: Snapshot,
    exact: bool,
    filters: Vec<DocumentFilter>,
    /// A pool of one thread, whatever the number of shards.
    pool: rayon::ThreadPool,
    changes: usize,
}

impl OpenIndex {
    fn reopen(&mut self) -> anyhow::Result<()> {
        self.snapshot = Snapshot::open_after(&self.index, Some(&self.snapshot))?;
        Ok(())
    }
}

impl SearchableIndex for OpenIndex {
    fn dim(&self) -> usize {
        self.snapshot.manifest().model.dim
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
        let mode = if self.exact {
            SearchMode::Exact
        } else {
            SearchMode::Adaptive { ef: value }
        };
        let params = DenseParams { k, mode };
        let filter = filter.and_then(|number| self.filters.get(number));
        let found = self.pool.install(|| {
            // Once per call, which brings all queries of a filter: a searcher does it for each request whose filter is
            // not cached.
            let allowed = filter
                .map(|filter| self.snapshot.allowed(filter, &Never))
                .transpose()?
                .flatten();
            self.snapshot.search_dense(queries, &params, allowed.as_deref(), &Never)
        });
        for (found, out) in found.unwrap_or_default().iter().zip(out.chunks_mut(k.max(1))) {
            for (hit, out) in found.hits.iter().zip(out) {
                // Keys are numbers of rows.
                let key = self.snapshot.key(hit.shard, hit.node);
                *out = key.and_then(|key| key.parse().ok()).unwrap_or(-1);
            }
        }
    }

    fn choose_filters(&mut self, filters: Vec<FilterRows>) -> anyhow::Result<()> {
        self.filters = filters
            .into_iter()
            .map(|FilterRows { all, .. }| DocumentFilter::All(all.into_iter().map(condition).collect()))
            .collect();
        Ok(())
    }

    fn change(&mut self, gone: &[i64], rows: &Path, labels: &[i64], threads: usize) -> anyhow::Result<()> {
        let words = |labels: &[i64]| labels.iter().map(i64::to_string).collect::<Vec<_>>();
        delete(&self.index, &words(gone), false, JobControl::silent())?;
        self.changes += 1;
        let keys = self.index.with_extension(format!("keys-{}", self.changes));
        fs_err::write(&keys, words(labels).join("\n"))?;
        let config = UpsertConfig {
            sample: dyad_indexer::graph_build::CertificateSample::Full,
            passages: Passages::None,
            index: self.index.clone(),
            operation: Operation::Append { skip_existing: false },
            threads,
            queries: None,
            dry_run: false,
            free_space: boundless,
        };
        let metric = self.snapshot.manifest().model.metric;
        let mut source = ArraySource::open(
            rows,
            &DeclaredModel {
                metric,
                ..DeclaredModel::named(MODEL)
            },
        )?;
        upsert(
            &config,
            Corpus::Keys(keys).open(false)?.as_mut(),
            &mut source,
            JobControl::silent(),
        )?;
        self.reopen().context("the changed index")
    }

    fn merge(&mut self, all: bool, threads: usize) -> anyhow::Result<()> {
        let (max_documents, dry_run, free_space) = (u64::MAX, false, boundless as _);
        let config = MergeConfig {
            index: self.index.clone(),
            all,
            candidates: dyad_indexer::change::MergeCandidates::default(),
            sample: dyad_indexer::graph_build::CertificateSample::Full,
            rebuild: false,
            language: None,
            max_documents,
            threads,
            memory: None,
            dry_run,
            free_space,
        };
        merge(&config, JobControl::silent())?;
        self.reopen()
    }
}
