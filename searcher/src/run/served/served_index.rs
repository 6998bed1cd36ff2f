//! The indexes of a searcher by name, and the generation that is served of each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use dyad_index::{Snapshot, manifest};
use dyad_proto::access::Caller;
use dyad_proto::{v1, validate};
use rayon::prelude::*;
use tokio::sync::Mutex;

use super::earlier::EarlierGenerations;
use super::generation::ServedGeneration;
use super::listed_fields::ListedFields;
use super::open_files;
use crate::error::{Error, Result};
use crate::leaves::HeldShards;
use crate::memory::{IndexMemory, ProcessMemory};
use crate::question::QuestionTowers;

/// Names that a refusal tells.
const TOLD: usize = 10;

/// An index to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPath {
    /// The name that requests give, as [`validate::index_name`] accepts it.
    pub name: String,
    /// The directory of the index.
    pub path: PathBuf,
    /// Whether it answers requests that name no index; the only one always does.
    pub is_default: bool,
}

impl IndexPath {
    /// An index that is named by its folder; `default` where that is no name.
    pub fn new(path: &Path) -> Self {
        Self {
            name: validate::folder_name(path).to_owned(),
            path: path.to_owned(),
            is_default: false,
        }
    }
}

/// One index.
#[derive(Debug)]
pub struct ServedIndex {
    pub(in crate::run) name: Arc<str>,
    pub(in crate::run) path: PathBuf,
    pub(in crate::run) served: ArcSwap<ServedGeneration>,
    /// Generations that were served before, of which roots may still ask.
    pub(in crate::run) earlier: EarlierGenerations,
    /// The text of `CURRENT` that the served generation was opened by, read before it: where `CURRENT` has another one
    /// now, another generation may be wanted, also one of the same number.
    pub(in crate::run) pointer: ArcSwap<String>,
    pub(in crate::run) fields: ListedFields,
    /// The generation that could not be served last, until one is.
    pub(in crate::run) refused: ArcSwapOption<RefusedGeneration>,
}

/// A generation that cannot be served.
#[derive(Debug)]
pub(in crate::run) struct RefusedGeneration {
    /// How roots and leaves name it; its number is 0 where it cannot be read.
    pub(in crate::run) name: v1::GenerationName,
    /// Its shards that were to be opened.
    pub(in crate::run) numbers: Vec<usize>,
    pub(in crate::run) reason: String,
}

impl ServedIndex {
    /// Opens a generation, the one that `CURRENT` names where none is given, and checks that a tower fits it.
    fn open(index: &IndexPath, opening: &Opening<'_>, towers: &QuestionTowers) -> Result<Self> {
        let path = &index.path;
        let pointer = ArcSwap::from_pointee(pointer(path).unwrap_or_default());
        let snapshot = opening.held.open(path, opening.generation, None)?;
        towers.check(&snapshot.manifest().model, None)?;
        let served = ArcSwap::from_pointee(ServedGeneration::new(&index.name, snapshot)?);
        Ok(Self {
            name: index.name.as_str().into(),
            path: path.clone(),
            served,
            earlier: EarlierGenerations::default(),
            pointer,
            fields: ListedFields::default(),
            refused: ArcSwapOption::empty(),
        })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The generation that is served now.
    pub fn generation(&self) -> Arc<ServedGeneration> {
        self.served.load_full()
    }

    /// Its shards that are open here.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(self.served.load().snapshot())
    }

    /// A generation that is served, or was a short while ago.
    pub(in crate::run) fn held(&self, name: &v1::GenerationName) -> Option<Arc<ServedGeneration>> {
        let served = self.generation();
        if served.name() == name {
            return Some(served);
        }
        self.earlier.find(name)
    }

    /// The current generation cannot be served.
    pub(in crate::run) fn refuse(&self, held: &HeldShards, pointer: &str, reason: String) {
        let wanted = manifest::current(&self.path);
        let refused = RefusedGeneration {
            name: v1::GenerationName {
                index: self.name.to_string(),
                generation: wanted.as_ref().map_or(0, |wanted| wanted.generation),
                pointer: pointer.to_owned(),
            },
            numbers: wanted.map_or_else(|_| Vec::new(), |wanted| held.numbers(&wanted)),
            reason,
        };
        self.refused.store(Some(Arc::new(refused)));
    }

    /// All of them.
    pub(in crate::run) fn all_held(&self) -> Vec<Arc<ServedGeneration>> {
        std::iter::once(self.generation()).chain(self.earlier.all()).collect()
    }
}

/// Which shards are opened, and of which generation.
pub(in crate::run) struct Opening<'a> {
    pub(in crate::run) held: &'a HeldShards,
    /// The one that `CURRENT` names where absent.
    pub(in crate::run) generation: Option<u64>,
}

/// The text of an index's `CURRENT`; none where it is none, or cannot be read.
pub(in crate::run) fn pointer(index: &Path) -> Option<String> {
    let path = index.join(manifest::POINTER);
    let text = fs_err::read_to_string(&path).ok()?;
    manifest::parse_pointer(&path, &text).is_ok().then_some(text)
}

/// The memory that a generation needs, by its files: the current one, or that of a number.
fn needed_memory(path: &Path, opening: &Opening<'_>) -> IndexMemory {
    let manifest = match opening.generation {
        None => manifest::current(path),
        Some(number) => manifest::load(path, number),
    };
    let needed = manifest.and_then(|manifest| opening.held.memory(path, &manifest));
    needed.unwrap_or_default()
}

/// Refuses the largest of the indexes where they do not fit into memory together. Opening them would already read their
/// graphs. An index that cannot be read counts as nothing: opening it says why.
fn check_memory(paths: &[IndexPath], opening: &Opening<'_>, process: &ProcessMemory) -> Result<()> {
    if process.limit.is_none() {
        return Ok(());
    }
    let needs: Vec<IndexMemory> = paths
        .par_iter()
        .map(|index| needed_memory(&index.path, opening))
        .collect();
    // The first by name of the largest.
    let Some((at, largest)) = needs.iter().enumerate().rev().max_by_key(|(_, need)| need.hot) else {
        return Ok(());
    };
    let others = needs
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != at)
        .map(|(_, need)| *need)
        .sum();
    let name = paths.get(at).map(|index| index.name.as_str()).unwrap_or_default();
    Ok(process.check(name, *largest, others)?)
}

/// All indexes, ascending by name.
#[derive(Debug)]
pub(in crate::run) struct Indexes {
    all: Vec<Arc<ServedIndex>>,
    default: Option<Arc<ServedIndex>>,
    /// Held while a generation is opened and swapped in, so that the one that was requested last is served, and memory
    /// that two indexes need is not promised to both.
    pub(in crate::run) switching: Arc<Mutex<()>>,
}

impl Indexes {
    /// Opens the indexes in parallel; what is opened is the same for all of them. The error of one of several names it.
    pub(in crate::run) fn open(
        mut paths: Vec<IndexPath>,
        opening: &Opening<'_>,
        towers: &QuestionTowers,
        process: &ProcessMemory,
    ) -> Result<Self> {
        paths.sort_by(|a, b| a.name.cmp(&b.name));
        for pair in paths.windows(2) {
            if let [one, other] = pair
                && one.name == other.name
            {
                return Err(Error::SameName {
                    name: one.name.clone(),
                    one: one.path.clone(),
                    other: other.path.clone(),
                });
            }
        }
        check_memory(&paths, opening, process)?;
        let count = paths.len();
        // The error of the first by name, whichever came first.
        let opened: Vec<Result<Arc<ServedIndex>>> = paths
            .par_iter()
            .map(|index| {
                let opened = ServedIndex::open(index, opening, towers);
                opened.map(Arc::new).map_err(|error| opening_error(index, count, error))
            })
            .collect();
        let all = opened.into_iter().collect::<Result<Vec<_>>>()?;
        let default = paths
            .iter()
            .position(|index| index.is_default)
            .or((count == 1).then_some(0));
        let default = default.and_then(|at| all.get(at).cloned());
        Ok(Self {
            all,
            default,
            switching: Arc::default(),
        })
    }

    /// Ascending by name.
    pub(in crate::run) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<ServedIndex>> {
        self.all.iter()
    }

    pub(in crate::run) fn is_default(&self, index: &ServedIndex) -> bool {
        self.default
            .as_deref()
            .is_some_and(|default| std::ptr::eq(default, index))
    }

    /// The index with this name; for an empty name the only one that the caller may name, or the default one. One that
    /// the caller may not name does not exist for it. `at` is the path of the request in its call, before the names of
    /// its fields.
    pub(in crate::run) fn find(
        &self,
        name: &str,
        caller: &Caller,
        at: impl FnOnce() -> String,
    ) -> Result<&Arc<ServedIndex>> {
        let is_allowed = |index: &&Arc<ServedIndex>| caller.allows_index(index.name());
        let name = match caller.indexes() {
            Some([only]) if name.is_empty() => only,
            _ => name,
        };
        if name.is_empty() {
            let default = self.default.as_ref().filter(is_allowed);
            return default.ok_or_else(|| Error::NoDefault {
                at: at(),
                known: self.names(caller),
            });
        }
        let found = self
            .all
            .binary_search_by(|index| index.name().cmp(name))
            .ok()
            .and_then(|at| self.all.get(at));
        let known = || Error::NoSuchIndex {
            at: at(),
            name: name.to_owned(),
            known: self.names(caller),
        };
        found.filter(is_allowed).ok_or_else(known)
    }

    /// Some of the names that the caller may name.
    fn names(&self, caller: &Caller) -> String {
        let known = || self.all.iter().filter(|index| caller.allows_index(index.name()));
        let mut names: Vec<String> = known().take(TOLD).map(|index| format!("`{}`", index.name)).collect();
        let others = known().count().saturating_sub(TOLD);
        if others > 0 {
            names.push(format!("and {others} others"));
        }
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    }
}

/// Why one of `count` indexes cannot be opened.
fn opening_error(index: &IndexPath, count: usize, error: Error) -> Error {
    let error = match error {
        Error::Index(error) if error.is_shortage() => Error::Shortage {
            error: Box::new(error),
            indexes: count,
            limits: open_files::limits(),
        },
        error => error,
    };
    if count == 1 {
        return error;
    }
    Error::OfIndex {
        name: index.name.clone(),
        error: Box::new(error),
    }
}
