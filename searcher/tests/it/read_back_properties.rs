//! Pages of any documents in the order of their keys, compared with a sorted list.

use dyad_index::lexical::DocumentFilter;
use dyad_index::{Never, Snapshot};
use dyad_indexer::change::delete;
use dyad_indexer::control::JobControl;
use proptest::prelude::*;

use crate::fixture::write_index_of;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Keys of any bytes in two shards, some of them deleted, through a filter or none.
    #[test]
    fn any_page_is_a_part_of_the_sorted_keys(
        names in proptest::collection::btree_set("[a-cé~\u{10000}]{1,3}", 4..24),
        deleted in proptest::collection::vec(any::<bool>(), 24),
        after in "[a-cé~#0]{0,3}",
        prefix in "[a-c]{0,1}",
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut all: Vec<String> = names.iter().map(|name| format!("{name}#0")).collect();
        all.reverse();
        let written: Vec<_> = all.iter().map(|key| (key.clone(), "text".to_owned())).collect();
        write_index_of(&written, dir.path(), 1, "f00d");
        // One of each shard stays.
        let gone = all.iter().zip(&deleted).skip(2).filter(|(_, gone)| **gone);
        let gone: Vec<String> = gone.map(|(key, _)| key.clone()).collect();
        if !gone.is_empty() {
            delete(dir.path(), &gone, false, JobControl::silent()).unwrap();
        }
        let snapshot = Snapshot::open(dir.path()).unwrap();
        let by_prefix = DocumentFilter::Prefix { field: "key".into(), prefix: prefix.clone() };
        let allowed = snapshot.allowed(&by_prefix, &Never).unwrap().unwrap();
        for (allowed, prefix) in [(None, ""), (Some(&*allowed), prefix.as_str())] {
            let mut wanted: Vec<&str> = all.iter().filter(|key| !gone.contains(key)).map(String::as_str).collect();
            wanted.retain(|key| *key > after.as_str() && key.starts_with(prefix));
            wanted.sort_unstable();
            for most in 0..=wanted.len() + 1 {
                let page = snapshot.in_key_order(&after, most, allowed, &Never).unwrap().unwrap();
                let found: Vec<&str> = page.documents.iter().map(|one| one.key).collect();
                prop_assert_eq!(&found[..], &wanted[..most.min(wanted.len())]);
                prop_assert_eq!(page.has_more, most < wanted.len());
                for one in page.documents {
                    prop_assert_eq!(snapshot.find(one.key).unwrap(), Some((one.shard, one.node)));
                }
            }
        }
        let cancelled = || true;
        prop_assert!(snapshot.in_key_order("", 1, None, &cancelled).unwrap().is_none());
        prop_assert!(snapshot.fields(1, None, &cancelled).unwrap().is_none());
    }
}
