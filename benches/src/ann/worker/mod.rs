//! A worker of our own: the other end of the protocol.
//!
//! | file | contents |
//! |---|---|
//! | `engine.rs` | what every engine can do |
//! | `dyad.rs` | our index: **the one place to change when its interface does** |
//! | `index.rs` | a whole index of ours, which can be changed |
//! | `hnsw_rs.rs` | the crate `hnsw_rs`, as a peer: its own build and its own search |
//! | `search.rs` | all queries on one thread or many, timed |

mod dyad;
mod engine;
mod hnsw_rs;
mod index;
mod search;

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use self::engine::{AnnEngine, FilterRows, SearchableIndex};
use self::search::{FilterPart, SearchCall, SearchQueries};
use super::protocol::{AnnRequest, BuiltIndex, PreparedQueries, QueryFilter};
use crate::dataset::{Matrix, npy, read_neighbours};
use crate::harness::{self, OpenedReply, files_under};

/// Engines that this binary holds.
pub(crate) const ENGINES: [&str; 5] = ["dyad", "dyad-exact", "dyad-index", "dyad-index-exact", "hnsw_rs"];

/// Serves requests until `quit` or the end of `input`.
pub(crate) fn serve(engine: &str, input: impl BufRead, output: impl Write) -> anyhow::Result<()> {
    let engine: Box<dyn AnnEngine> = match engine {
        "dyad" => Box::new(dyad::Dyad { exact: false }),
        "dyad-exact" => Box::new(dyad::Dyad { exact: true }),
        "dyad-index" => Box::new(index::WholeIndex { exact: false }),
        "dyad-index-exact" => Box::new(index::WholeIndex { exact: true }),
        "hnsw_rs" => Box::new(hnsw_rs::HnswRsEngine),
        other => bail!(
            "no engine `{other}` in this binary; there are {}",
            ENGINES.join(" and ")
        ),
    };
    let described = engine.describe();
    let mut worker = AnnWorker {
        engine,
        index: None,
        queries: None,
        parts: Vec::new(),
        pool: None,
    };
    harness::serve(input, output, &described, |request| worker.answer(request))
}

struct AnnWorker {
    engine: Box<dyn AnnEngine>,
    index: Option<Box<dyn SearchableIndex>>,
    queries: Option<(Matrix, usize)>,
    /// Queries by their filters.
    parts: Vec<FilterPart>,
    pool: Option<rayon::ThreadPool>,
}

impl AnnWorker {
    fn answer(&mut self, request: AnnRequest) -> anyhow::Result<Value> {
        let reply = match request {
            AnnRequest::Build(job) => {
                let base = npy::map_vectors(&job.base)?;
                fs_err::create_dir_all(&job.dir)?;
                let build_s = self.engine.build(&job, &base)?;
                let sizes = files_under(&job.dir)?
                    .into_iter()
                    .map(|file| Ok(fs_err::metadata(file)?.len()));
                json!(BuiltIndex {
                    build_s,
                    index_bytes: sizes.sum::<anyhow::Result<u64>>()?
                })
            }
            AnnRequest::Open { dir } => {
                // A second `open` measures opening alone, not closing the first.
                self.index = None;
                let started = Instant::now();
                self.index = Some(self.engine.open(&dir)?);
                OpenedReply::since(started)
            }
            AnnRequest::Prepare { queries, k } => {
                let queries = npy::read_vectors(&queries)?;
                let count = queries.len();
                self.queries = Some((queries, k));
                self.filter(Vec::new())?;
                json!(PreparedQueries { queries: count })
            }
            AnnRequest::Filter { filters } => {
                self.filter(filters)?;
                json!({})
            }
            AnnRequest::Search {
                value,
                threads,
                mode,
                least_ms,
                out,
                latencies,
            } => {
                let index = self.index.as_deref().context("`search` before `open`")?;
                let (queries, k) = self.queries.as_ref().context("`search` before `prepare`")?;
                if queries.dim() != index.dim() {
                    bail!("queries of {} values, but vectors of {}", queries.dim(), index.dim());
                }
                let questions = SearchQueries {
                    queries,
                    k: *k,
                    parts: &self.parts,
                };
                let (value, least) = (value as usize, Duration::from_millis(least_ms.into()));
                let call = SearchCall {
                    value,
                    threads,
                    mode,
                    least,
                };
                let (ids, latencies_us, searched) = search::search(index, questions, call, &mut self.pool)?;
                npy::write_ids(&out, *k, &ids)?;
                if let Some(path) = latencies {
                    npy::write_f64(&path, &latencies_us)?;
                }
                json!(searched)
            }
            AnnRequest::Change {
                delete,
                base,
                labels,
                threads,
            } => {
                let (_, delete) = npy::read_ids(&delete)?;
                let (_, labels) = npy::read_ids(&labels)?;
                let started = Instant::now();
                let index = self.index.as_deref_mut().context("`change` before `open`")?;
                index.change(&delete, &base, &labels, threads)?;
                json!({ "seconds": started.elapsed().as_secs_f64() })
            }
            AnnRequest::Merge { all, threads } => {
                let started = Instant::now();
                self.index
                    .as_deref_mut()
                    .context("`merge` before `open`")?
                    .merge(all, threads)?;
                json!({ "seconds": started.elapsed().as_secs_f64() })
            }
            AnnRequest::Evict => {
                self.index.as_deref().context("`evict` before `open`")?.evict();
                json!({})
            }
        };
        Ok(reply)
    }

    /// Searches under these filters from here on.
    fn filter(&mut self, filters: Vec<QueryFilter>) -> anyhow::Result<()> {
        let (queries, _) = self.queries.as_ref().context("`filter` before `prepare`")?;
        if filters.is_empty() {
            self.parts = vec![FilterPart {
                filter: None,
                queries: (0..queries.len()).collect(),
            }];
            return Ok(());
        }
        let mut listed = vec![false; queries.len()];
        let (mut parts, mut selections) = (Vec::new(), Vec::new());
        for (number, QueryFilter { queries, rows, all }) in filters.into_iter().enumerate() {
            for query in &queries {
                match listed.get_mut(*query) {
                    Some(listed) if !*listed => *listed = true,
                    _ => bail!("queries: expected each number once, got {query}"),
                }
            }
            parts.push(FilterPart {
                filter: Some(number),
                queries,
            });
            let rows = read_neighbours(&rows)?.values().to_vec();
            selections.push(FilterRows { rows, all });
        }
        if let Some(query) = listed.iter().position(|listed| !listed) {
            bail!("queries: expected a filter for each, got none for {query}");
        }
        self.index
            .as_deref_mut()
            .context("`filter` before `open`")?
            .choose_filters(selections)?;
        self.parts = parts;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_for_every_query_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        npy::write_vectors(&path("queries.npy"), &Matrix::new(2, vec![1.0; 6])).unwrap();
        npy::write_ids(&path("rows.npy"), 1, &[0, 5]).unwrap();
        let filter = |queries: &[usize]| {
            let all = json!([{ "below": { "field": "size", "bound": 3 } }]);
            json!({ "op": "filter", "filters": [{ "queries": queries, "rows": path("rows.npy"), "all": all }] })
        };
        let prepare = json!({ "op": "prepare", "queries": path("queries.npy"), "k": 1 });
        let requests = [
            filter(&[0, 1, 2]),
            prepare,
            filter(&[0, 0, 2]),
            filter(&[0, 3]),
            filter(&[0, 2]),
            filter(&[2, 0, 1]),
        ];
        let lines: String = requests
            .iter()
            .map(|request| format!("{request}\n"))
            .collect::<Vec<_>>()
            .concat();
        let mut replies = Vec::new();
        serve("dyad", lines.as_bytes(), &mut replies).unwrap();
        let replies: Vec<Value> = String::from_utf8(replies)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let errors: Vec<&str> = replies
            .iter()
            .map(|reply| reply["error"].as_str().unwrap_or_default())
            .collect();
        let expected = [
            "`filter` before `prepare`",
            "",
            "queries: expected each number once, got 0",
            "queries: expected each number once, got 3",
            "queries: expected a filter for each, got none for 1",
            "`filter` before `open`",
        ];
        assert_eq!(errors, expected);
    }
}
