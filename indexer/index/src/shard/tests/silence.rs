//! Damage in the bulk sections, which opening does not read: searches give what they give of an intact shard, or say
//! that the shard is damaged. None gives less and is silent.

use super::damage::Bench;
use super::{DIM, N, vectors};
use crate::error::Error;
use crate::format::SectionKind;
use crate::search::{Completeness, NodeSet, Scored, SearchHits, SearchParams};
use crate::shard::DenseShard;

/// No slot, node or offset of the shard.
const OUTSIDE: [u32; 4] = [N, 1 << 30, i32::MAX as u32, u32::MAX];
/// A nan, as bits.
const NAN: u32 = 0x7FC0_0000;

/// Every kind of search for every vector of the shard.
fn answers(shard: &DenseShard) -> Vec<SearchHits<Scored>> {
    let mut allowed = NodeSet::new(shard.len());
    allowed.extend((0..N).filter(|node| node % 3 == 0));
    let mut all = Vec::new();
    for query in vectors().chunks(DIM) {
        // Searches of the whole graph, for few and for all hits; one with a filter; a scan.
        all.push(shard.search(query, &SearchParams::new(3, N as usize)));
        all.push(shard.search(query, &SearchParams::new(N as usize, N as usize)));
        all.push(shard.search(
            query,
            &SearchParams {
                allowed: Some(&allowed),
                ..SearchParams::new(3, 3)
            },
        ));
        all.push(shard.search_exact(query, 4, None));
    }
    all
}

/// Each answer is that of an intact shard, or says that it may not be; and then the shard says which file it is, and
/// what to do.
fn assert_told(shard: &DenseShard, intact: &[SearchHits<Scored>], place: &str) {
    for (got, intact) in answers(shard).iter().zip(intact) {
        if got.completeness == Completeness::Damaged {
            let damage = shard.damage().unwrap().to_string();
            assert!(
                damage.contains("dense.dyad") && damage.contains("`dyad-indexer verify`"),
                "{damage}"
            );
        } else {
            assert_eq!(got.hits, intact.hits, "{place}");
        }
    }
}

/// Sets every aligned word of a section, from a place on, to each of `words`, and hands over what can be opened.
fn with_words(bench: &Bench, kind: SectionKind, words: &[u32], mut look: impl FnMut(usize, DenseShard, &str)) {
    let entry = *DenseShard::open(&bench.path).unwrap().header().section(kind).unwrap();
    for at in (0..entry.len as usize / 4 * 4).step_by(4) {
        for word in words {
            bench.with(
                entry.offset as usize + at,
                &word.to_le_bytes(),
                |path| match DenseShard::open(path) {
                    Ok(shard) => look(at, shard, &format!("{word:#x} at {at} of {}", kind.name())),
                    Err(error) => assert!(matches!(error, Error::Format { .. }), "{error}"),
                },
            );
        }
    }
}

#[test]
fn links_order_and_offsets_that_lead_nowhere_are_told() {
    let bench = Bench::new();
    let intact = answers(&DenseShard::open(&bench.path).unwrap());
    assert!(intact.iter().all(|hits| hits.completeness == Completeness::Complete));
    let mut told = 0;
    with_words(&bench, SectionKind::Graph, &OUTSIDE, |_, shard, place| {
        assert_told(&shard, &intact, place);
        told += usize::from(shard.damage().is_some());
    });
    // All of the order and of the links: every search of the whole graph reads them.
    let read = N as usize + 16 * N as usize;
    assert!(told >= OUTSIDE.len() * read, "{told}");
}

#[test]
fn values_that_are_no_numbers_are_told() {
    let bench = Bench::new();
    let intact = answers(&DenseShard::open(&bench.path).unwrap());
    let mut told = 0;
    with_words(&bench, SectionKind::Vectors, &[NAN], |_, shard, place| {
        assert_told(&shard, &intact, place);
        told += usize::from(shard.damage().is_some());
    });
    assert_eq!(told, N as usize * DIM);
    told = 0;
    with_words(&bench, SectionKind::Codes, &[NAN], |_, shard, _| {
        let all = answers(&shard);
        assert!(all.iter().all(|hits| !hits.hits.is_empty()));
        told += usize::from(shard.damage().is_some());
    });
    // Four factors per slot.
    assert_eq!(told, N as usize * 4);
}

#[test]
fn a_node_in_two_slots_is_told() {
    let bench = Bench::new();
    let shard = DenseShard::open(&bench.path).unwrap();
    let (entry, intact) = (*shard.header().section(SectionKind::Graph).unwrap(), answers(&shard));
    let order = shard.graph().order().to_vec();
    let start = bench.intact[entry.offset as usize..]
        .windows(order.len() * 4)
        .position(|bytes| {
            bytes
                .chunks(4)
                .zip(&order)
                .all(|(bytes, node)| bytes == node.to_le_bytes())
        })
        .unwrap();
    for slot in 1..order.len() {
        bench.with(
            entry.offset as usize + start + 4 * slot,
            &order[slot - 1].to_le_bytes(),
            |path| {
                let shard = DenseShard::open(path).unwrap();
                let all = SearchParams::new(N as usize, N as usize);
                for (query, intact) in vectors().chunks(DIM).zip(intact.chunks(4)) {
                    let got = shard.search(query, &all);
                    assert_eq!(
                        (got.completeness, &got.hits),
                        (Completeness::Damaged, &intact[1].hits),
                        "slot {slot}"
                    );
                }
            },
        );
    }
}

#[test]
fn keys_are_found_or_said_to_be_damaged() {
    let bench = Bench::new();
    let keys: Vec<String> = {
        let shard = DenseShard::open(&bench.path).unwrap();
        (0..N).map(|node| shard.key(node).unwrap().to_owned()).collect()
    };
    let (offsets, sorted) = ((N as usize + 1) * 8, N as usize * 4);
    let words: Vec<u32> = (0..N).chain(OUTSIDE).collect();
    with_words(&bench, SectionKind::Keys, &words, |at, shard, place| {
        for (node, key) in (0..).zip(&keys) {
            let found = shard.find(key);
            if at < offsets {
                // Offsets out of range are reported; others give another key, which only the checksum detects.
                let is_other = shard.key(node).is_some_and(|other| other != key);
                assert!(
                    is_other || shard.damage().is_some() || found.unwrap() == Some(node),
                    "{place}"
                );
            } else if at < offsets + sorted {
                assert!(found.map_or(true, |found| found == Some(node)), "{place}: {key}");
            }
        }
    });
}

#[test]
fn whatever_is_flipped_is_told_once_the_checksums_are_compared() {
    let bench = Bench::new();
    let header = DenseShard::open(&bench.path).unwrap().header().clone();
    for kind in [
        SectionKind::Vectors,
        SectionKind::Codes,
        SectionKind::Graph,
        SectionKind::Keys,
    ] {
        let entry = header.section(kind).unwrap();
        for at in entry.offset as usize..(entry.offset + entry.len) as usize {
            bench.with(at, &[bench.intact[at] ^ 0x10], |path| {
                let Ok(shard) = DenseShard::open(path) else { return };
                let query = [0.5; DIM];
                for hits in [
                    shard.search(&query, &SearchParams::new(3, 8)),
                    shard.search_exact(&query, 3, None),
                ] {
                    assert!(
                        hits.hits.len() == 3 || hits.completeness == Completeness::Damaged,
                        "{at}: {hits:?}"
                    );
                }
                assert!(shard.check_sums(&|| false).unwrap());
                let damage = shard.damage().unwrap().to_string();
                assert!(damage.contains(kind.name()), "{damage}");
                for hits in answers(&shard).into_iter().take(4) {
                    assert_eq!(hits.completeness, Completeness::Damaged);
                }
            });
        }
    }
    let intact = DenseShard::open(&bench.path).unwrap();
    assert!(!intact.check_sums(&|| true).unwrap(), "told to end");
    // Another file under the same name says nothing of the one that is open.
    let other = bench.path.with_extension("other");
    fs_err::write(&other, vec![0; bench.intact.len()]).unwrap();
    fs_err::rename(&other, &bench.path).unwrap();
    assert!(intact.check_sums(&|| false).unwrap() && intact.damage().is_none());
}
