//! A small shard attacked bit by bit, and with its checksums recomputed after the damage.

use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::{DIM, N, written_as};
use crate::format::header::{HEADER_LEN, HeaderFault, MAX_DIM};
use crate::format::{RowType, SectionKind, ShardHeader};
use crate::model::Metric;
use crate::search::{NodeSet, Scored, SearchHits, SearchParams, SearchScratch, ShardView};
use crate::shard::DenseShard;
use dyad_files::Never;

/// Searches of every kind: they end, and what they find is there and has a score.
pub(super) fn search_all(shard: &DenseShard) {
    let query = [0.5; DIM];
    let mut allowed = NodeSet::new(shard.len());
    allowed.extend((0..N).filter(|node| node % 3 == 0));
    let found = [
        shard.search(&query, &SearchParams::new(3, 8)),
        shard.search(
            &query,
            &SearchParams {
                allowed: Some(&allowed),
                ..SearchParams::new(1, 1)
            },
        ),
        shard.search_exact(&query, 3, None),
    ];
    assert!(
        found
            .iter()
            .flat_map(|found| &found.hits)
            .all(|hit| hit.node < N && !hit.score.is_nan()),
        "{found:?}"
    );
}

/// One file, of which one byte after another is changed and set back: a shard is mapped only in between.
pub(super) struct Bench {
    file: std::fs::File,
    pub(super) path: std::path::PathBuf,
    pub(super) intact: Vec<u8>,
    _dir: tempfile::TempDir,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::of(RowType::F32)
    }

    pub(super) fn of(row_type: RowType) -> Self {
        let (dir, path) = written_as(row_type);
        let intact = fs_err::read(&path).unwrap();
        let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap().into_file();
        Self {
            file,
            path,
            intact,
            _dir: dir,
        }
    }

    pub(super) fn with(&self, at: usize, bytes: &[u8], look: impl FnOnce(&Path)) {
        self.file.write_all_at(bytes, at as u64).unwrap();
        look(&self.path);
        self.file
            .write_all_at(&self.intact[at..at + bytes.len()], at as u64)
            .unwrap();
    }
}

/// Every bit of the file is flipped in turn, and every byte as a whole: opening or verifying must say so, and searching
/// must not panic.
#[test]
fn a_flipped_bit_or_byte_anywhere_is_found() {
    for row_type in [RowType::F32, RowType::Int8] {
        flip_every_bit(&Bench::of(row_type));
    }
}

fn flip_every_bit(bench: &Bench) {
    let mut opened = 0;
    for at in 0..bench.intact.len() {
        for flip in [1, 2, 4, 8, 16, 32, 64, 128, 0xFF] {
            bench.with(at, &[bench.intact[at] ^ flip], |path| {
                let Ok(shard) = DenseShard::open(path) else { return };
                opened += 1;
                search_all(&shard);
                assert!(
                    !shard.verify(&Never).problems.is_empty(),
                    "{flip:#x} in byte {at} of {}",
                    bench.intact.len()
                );
            });
        }
    }
    assert!(
        opened > bench.intact.len(),
        "bulk sections are checked by `verify` alone, but only {opened} files opened"
    );
    assert!(
        DenseShard::open(&bench.path)
            .unwrap()
            .verify(&Never)
            .problems
            .is_empty(),
        "the file is as it was"
    );
}

/// A value that is no number, which only the row's own reader meets.
#[test]
fn a_damaged_row_has_no_score_and_is_told() {
    let bench = Bench::new();
    let query = [0.5; DIM];
    let intact = DenseShard::open(&bench.path).unwrap();
    assert!(intact.score(0, &query).is_some() && intact.damage().is_none());
    let at = intact.header().section(SectionKind::Vectors).unwrap().offset as usize;
    drop(intact);
    bench.with(at, &[0xFF; 4], |path| {
        let shard = DenseShard::open(path).unwrap();
        assert!(shard.score(1, &query).is_some() && shard.damage().is_none());
        assert_eq!(shard.score(0, &query), None);
        assert!(
            shard
                .damage()
                .unwrap()
                .to_string()
                .contains("VECTORS: expected finite values, got others for node 0")
        );
    });
}

/// The file with `bytes` at `at` of a section, and checksums that hold.
fn sealed(intact: &[u8], kind: SectionKind, at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut header = ShardHeader::parse(intact, intact.len() as u64).unwrap();
    let mut file = intact.to_vec();
    let entry = header.sections.iter_mut().find(|entry| entry.kind == kind).unwrap();
    let section = &mut file[entry.offset as usize..(entry.offset + entry.len) as usize];
    section[at..at + bytes.len()].copy_from_slice(bytes);
    entry.crc32c = crc32c::crc32c(section);
    file[..HEADER_LEN].copy_from_slice(&header.to_bytes());
    file
}

/// Every aligned word of every section becomes each of the values at which readers stumble, with valid checksums.
/// What still opens can be searched and verified, and what `verify` calls intact answers as an intact shard does.
#[test]
fn damage_behind_right_checksums_panics_nothing() {
    let bench = Bench::new();
    let header = DenseShard::open(&bench.path).unwrap().header().clone();
    let floats = [f32::NAN, f32::INFINITY, f32::MAX, 1e-40, -1.0].map(f32::to_bits);
    let words: Vec<u32> = [0, 1, N - 1, N, 1 << 30, i32::MAX as u32, u32::MAX]
        .into_iter()
        .chain(floats)
        .collect();
    for entry in &header.sections {
        for at in (0..entry.len as usize / 4 * 4).step_by(4) {
            for word in &words {
                let file = sealed(&bench.intact, entry.kind, at, &word.to_le_bytes());
                bench.file.write_all_at(&file, 0).unwrap();
                let Ok(shard) = DenseShard::open(&bench.path) else {
                    continue;
                };
                search_all(&shard);
                let is_finite = |vector: Vec<f32>| vector.iter().all(|value| value.is_finite());
                assert!((0..=N).all(|node| shard.vector(node).ok().is_none_or(is_finite)));
                shard.graph().counts();
                let keys = shard.keys();
                for key in (0..=N).map(|node| keys.key(node)) {
                    assert!(keys.find(key).ok().flatten().is_none_or(|node| keys.key(node) == key));
                    let next = keys
                        .after(key)
                        .ok()
                        .and_then(<[u32]>::first)
                        .map(|node| keys.key(*node));
                    // One that is no text is empty; who reads keys in their order refuses it.
                    assert!(next.is_none_or(|next| next > key || next.is_empty()));
                }
                if shard.verify(&Never).problems.is_empty() {
                    let whole = |found: &SearchHits<Scored>| {
                        let mut nodes: Vec<u32> = found.hits.iter().map(|hit| hit.node).collect();
                        nodes.sort_unstable();
                        nodes == (0..N).collect::<Vec<u32>>() && found.hits.iter().all(|hit| !hit.score.is_nan())
                    };
                    let place = format!("{word:#x} at {at} of {}", entry.kind.name());
                    let query = [0.5; DIM];
                    assert!(
                        whole(&shard.search(&query, &SearchParams::new(N as usize, 64))),
                        "{place}"
                    );
                    // Without the scan that a shard falls back to.
                    let (graph, rows) = (shard.graph(), shard.rows());
                    let (codes, order) = (shard.codes(), Some(graph.order()));
                    let view = ShardView {
                        codes,
                        links: &graph,
                        order,
                        rows: &rows,
                        metric: Metric::Cosine,
                    };
                    let params = SearchParams::new(N as usize, N as usize);
                    let result = view.search_one(&query, &params, &mut SearchScratch::default());
                    assert_eq!(result.hits.len(), N as usize, "{place}");
                    assert!(whole(&shard.search_exact(&query, N as usize, None)), "{place}");
                }
            }
        }
    }
}

/// Sums of int8 products are 32 bits wide: beyond this length they would be wrong, and stop a checked build.
#[test]
fn longer_vectors_than_sums_can_hold_are_refused() {
    let bench = Bench::new();
    let parse = |dim: u32| {
        let header = ShardHeader::parse(&bench.intact, bench.intact.len() as u64).unwrap();
        let row_stride = RowType::F32.stride(dim as usize) as u32;
        let bytes = ShardHeader {
            dim,
            row_stride,
            ..header
        }
        .to_bytes();
        ShardHeader::parse(&bytes, bench.intact.len() as u64)
    };
    assert!(parse(MAX_DIM).is_ok());
    let Err(HeaderFault::Fault(fault)) = parse(MAX_DIM + 1) else {
        panic!("{:?}", parse(MAX_DIM + 1))
    };
    assert_eq!(
        (fault.part.as_str(), fault.expected.contains("1..=65536")),
        ("dim", true),
        "{fault:?}"
    );
}
