//! The search for the highest rate that is met.

use proptest::prelude::*;

use crate::load::rate_search::{RateSearch, most};

proptest! {
    /// From anywhere, the search ends at an engine's capacity.
    #[test]
    fn the_highest_rate_is_found(capacity in 0.2f64..1e6, first in 0.1f64..1e6) {
        let mut search = RateSearch::new(first);
        let mut steps = 0;
        while let Some(rate) = search.next() {
            search.tell(rate <= capacity);
            steps += 1;
            prop_assert!(steps < 60);
        }
        let found = search.highest().unwrap();
        prop_assert!(found <= capacity && found * 1.07 >= capacity, "{found} of {capacity}");
    }
}

#[test]
fn most_passes_decide_and_no_more_are_made_than_that_takes() {
    assert_eq!([most(1, 1, 0), most(1, 0, 1)], [Some(true), Some(false)]);
    assert_eq!(
        [most(3, 1, 0), most(3, 1, 1), most(3, 2, 0), most(3, 2, 1)],
        [None, None, Some(true), Some(true)]
    );
    assert_eq!(
        [most(3, 0, 1), most(3, 0, 2), most(3, 1, 2)],
        [None, Some(false), Some(false)]
    );
    assert_eq!(
        [most(2, 1, 0), most(2, 0, 1), most(2, 2, 0)],
        [None, Some(false), Some(true)]
    );
}

#[test]
fn a_search_in_which_nothing_passes_ends() {
    let mut search = RateSearch::new(1_000.0);
    for _ in 0..60 {
        if search.next().is_some() {
            search.tell(false);
        }
    }
    assert_eq!((search.next(), search.highest()), (None, None));
}
