//! Chooses the beam width for a target recall, from what the shards measured when they were built.

use super::{Certificate, QuerySource, ef_for};

/// Beam width where a search names none.
pub const DEFAULT_EF: usize = 128;

/// The least difference between the beam width and the hits wanted, so that ties with the last hit can be broken by
/// key.
pub const TIE_SLACK: usize = 16;

/// How much wider than their margins made them in the mean beams are in shards of earlier releases. Recall@10 of 20,000
/// MiniLM sentences with a margin at mean width 64 was .991, and is .986 with beams of 64, .995 with beams of 128.
const BEAM_OF_EARLIER: usize = 2;

/// Hits up to which recall is measured.
const MEASURED_HITS: usize = 100;

/// A beam width, and why the recall is not guaranteed where it is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenBeam {
    /// The beam width.
    pub ef: usize,
    /// The beam width for questions that are out of distribution.
    pub out_of_distribution_ef: usize,
    /// Why the recall is not guaranteed.
    pub note: Option<String>,
}

/// The smallest width for which every shard measured the recall, where the request has a filter both without one and
/// through each of its own. A shard that never reached it needs its widest beam, one that has measured nothing the
/// default.
pub fn beam_for_recall(target: f64, hits: usize, filtered: bool, certificates: &[&Certificate]) -> ChosenBeam {
    let (mut ef, mut far_ef) = (0, 0);
    let (mut missed, mut unmeasured, mut by_documents, mut unfiltered, mut earlier) = (0, 0, 0, 0, 0);
    for certificate in certificates {
        // Earlier releases have measured searches with a margin, which are beams now: see `BEAM_OF_EARLIER`.
        let is_earlier = certificate.calibration.is_empty();
        let measured = if is_earlier {
            &certificate.recall
        } else {
            &certificate.adaptive
        };
        let Some(widest) = measured.last() else {
            unmeasured += 1;
            ef = ef.max(DEFAULT_EF);
            continue;
        };
        by_documents += usize::from(certificate.source == QuerySource::Documents);
        unfiltered += usize::from(certificate.filtered.is_none());
        earlier += usize::from(is_earlier);
        let times = if is_earlier { BEAM_OF_EARLIER } else { 1 };
        let far = &certificate.out_of_distribution;
        let needed = ef_for(far, target, hits.min(10));
        far_ef = far_ef.max(needed.or(far.last().map(|widest| widest.ef)).unwrap_or_default());
        let through_filters = certificate.filtered.iter().flatten().filter(|_| filtered);
        let tables = through_filters.map(|filtered| (&filtered.recall, filtered.recall.last()));
        let mut reached = true;
        for (points, widest) in tables.chain([(measured, Some(widest))]) {
            // Where too few are known for recall@100, as in a shard of hardly more than 100 documents, recall@10 is
            // used instead.
            let is_deep = points.iter().any(|point| point.recall_at_100.is_some());
            // What is kept between two measurements is the recall measured, less what deletions may have cost since.
            let needed = ef_for(
                points,
                target + certificate.lost_since,
                if is_deep { hits } else { hits.min(10) },
            );
            reached &= needed.is_some();
            ef = ef.max(times * needed.or(widest.map(|widest| widest.ef)).unwrap_or_default());
        }
        missed += usize::from(!reached);
    }
    let ef = if ef == 0 { DEFAULT_EF } else { ef };
    let shards = certificates.len();
    let mut notes = Vec::new();
    if missed > 0 {
        let filters = if filtered {
            ", without filters or through them"
        } else {
            ""
        };
        let lost = certificates
            .iter()
            .map(|certificate| certificate.lost_since)
            .fold(0.0, f64::max);
        let since = if lost > 0.0 {
            format!(", or may have less by up to {lost:.4} since documents were deleted")
        } else {
            String::new()
        };
        notes.push(format!(
            "{missed} of {shards} shards measured less than a recall of {target} at every beam width{filters}{since}"
        ));
    }
    if unmeasured > 0 {
        notes.push(format!("{unmeasured} of {shards} shards have no measured recall"));
    }
    if by_documents > 0 {
        notes.push(format!(
            "{by_documents} of {shards} shards measured recall with documents, not with questions, which may be harder: build \
             with `--queries`"
        ));
    }
    if earlier > 0 {
        notes.push(format!(
            "{earlier} of {shards} shards were measured by an earlier release, with searches that end otherwise: `dyad-indexer calibrate` \
             measures them again"
        ));
    }
    if hits > MEASURED_HITS {
        notes.push(format!(
            "recall is measured up to {MEASURED_HITS} hits, and {hits} were wanted of the graph search"
        ));
    }
    if filtered && unfiltered > 0 {
        notes.push(format!(
            "{unfiltered} of {shards} shards measured recall without filters only: `dyad-indexer merge --all --rebuild` measures it through \
             filters too"
        ));
    }
    if filtered && unfiltered + unmeasured < shards {
        notes.push(
            "through filters, recall is measured with such as allow documents by chance: one that leaves out what is near the \
             question may find less"
                .to_owned(),
        );
    }
    ChosenBeam {
        ef,
        out_of_distribution_ef: far_ef.max(ef),
        note: (!notes.is_empty()).then(|| notes.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FilteredRecall, RankScore, RecallPoint};

    use super::*;

    fn certificate(points: &[(usize, f64)]) -> Certificate {
        let point = |&(ef, recall): &(usize, f64)| RecallPoint {
            ef,
            recall_at_10: recall,
            recall_at_100: Some(recall - 0.1),
            distance_computations: 0.0,
            scored: 0.0,
        };
        let adaptive: Vec<RecallPoint> = points.iter().map(point).collect();
        let calibration = vec![RankScore {
            rank: 1,
            score: 0.5,
            low: 0.2,
        }];
        let source = QuerySource::HeldOut;
        Certificate {
            recall: adaptive.clone(),
            adaptive,
            calibration,
            source,
            ..Certificate::default()
        }
    }

    fn without_note(ef: usize) -> ChosenBeam {
        ChosenBeam {
            ef,
            out_of_distribution_ef: ef,
            note: None,
        }
    }

    #[test]
    fn the_shard_that_needs_the_widest_beam_decides() {
        let (easy, hard) = (
            certificate(&[(16, 0.96), (64, 0.99)]),
            certificate(&[(16, 0.8), (128, 0.97), (512, 0.985)]),
        );
        let chosen = |target, hits| beam_for_recall(target, hits, false, &[&easy, &hard]);
        assert_eq!(chosen(0.95, 10), without_note(128));
        assert_eq!(chosen(0.85, 100), without_note(128));
        let missed = chosen(0.99, 10);
        assert_eq!(missed.ef, 512);
        assert!(
            missed
                .note
                .unwrap()
                .contains("1 of 2 shards measured less than a recall of 0.99")
        );
        assert!(
            chosen(0.8, 101)
                .note
                .unwrap()
                .contains("up to 100 hits, and 101 were wanted")
        );
        // Documents were deleted since it was measured.
        let changed = Certificate {
            lost_since: 0.008,
            ..easy.clone()
        };
        assert_eq!(beam_for_recall(0.955, 10, false, &[&changed]), without_note(64));
        let missed = beam_for_recall(0.985, 10, false, &[&changed]);
        assert_eq!(missed.ef, 64);
        assert!(
            missed
                .note
                .unwrap()
                .contains("less by up to 0.0080 since documents were deleted")
        );
    }

    #[test]
    fn a_filtered_search_needs_the_widest_beam_of_all_shares() {
        let half = FilteredRecall {
            share: 0.5,
            recall: certificate(&[(16, 0.94), (64, 0.98)]).recall,
        };
        let few = FilteredRecall {
            share: 0.25,
            recall: certificate(&[(16, 0.9), (32, 0.999)]).recall,
        };
        let plain = Certificate {
            filtered: Some(Vec::new()),
            ..certificate(&[(16, 0.96), (24, 0.99)])
        };
        let whole = Certificate {
            filtered: Some(vec![half.clone(), few]),
            ..plain.clone()
        };
        let chosen =
            |target, filtered, certificates: &[&Certificate]| beam_for_recall(target, 10, filtered, certificates);
        assert_eq!(chosen(0.95, false, &[&whole]), without_note(16));
        let said = |chosen: ChosenBeam| (chosen.ef, chosen.note.unwrap());
        let (ef, note) = said(chosen(0.95, true, &[&whole]));
        assert_eq!(
            (ef, note.starts_with("through filters, recall is measured")),
            (64, true),
            "{note}"
        );
        // The shard is scanned, or searched as without a filter.
        assert_eq!(said(chosen(0.95, true, &[&plain])).0, 16);
        let (ef, note) = said(chosen(0.985, true, &[&whole, &plain]));
        assert!(
            ef == 64 && note.starts_with("1 of 2 shards measured less than a recall of 0.985"),
            "{ef}: {note}"
        );
        let earlier = Certificate {
            filtered: None,
            ..plain.clone()
        };
        let (ef, note) = said(chosen(0.985, true, &[&earlier]));
        assert!(
            ef == 24 && note.starts_with("1 of 1 shards measured recall without filters only"),
            "{note}"
        );
        assert!(!note.contains("by chance"), "{note}");
        // Recall@100 through a filter of which too few are known for it is judged by recall@10.
        let mut rare = half;
        rare.recall.iter_mut().for_each(|point| point.recall_at_100 = None);
        let rare = Certificate {
            filtered: Some(vec![rare]),
            ..plain
        };
        assert_eq!(beam_for_recall(0.87, 100, true, &[&rare]).ef, 24);
        assert_eq!(beam_for_recall(0.96, 10, true, &[&rare]).ef, 64);
    }

    #[test]
    fn a_small_shard_is_known_by_its_recall_at_10() {
        let mut small = certificate(&[(16, 0.8), (64, 0.97)]);
        for point in &mut small.adaptive {
            point.recall_at_100 = None;
        }
        assert_eq!(beam_for_recall(0.9, 100, false, &[&small]), without_note(64));
    }

    #[test]
    fn questions_that_are_out_of_distribution_have_a_width_of_their_own() {
        let near = certificate(&[(16, 0.96), (64, 0.99)]);
        let far = certificate(&[(16, 0.7), (64, 0.9), (256, 0.96)]).adaptive;
        let both = Certificate {
            out_of_distribution: far,
            ..near.clone()
        };
        let widths = |chosen: ChosenBeam| (chosen.ef, chosen.out_of_distribution_ef);
        assert_eq!(widths(beam_for_recall(0.95, 10, false, &[&both, &near])), (16, 256));
        assert_eq!(
            widths(beam_for_recall(0.98, 10, false, &[&both])),
            (64, 256),
            "the widest where none suffices"
        );
        assert_eq!(
            widths(beam_for_recall(0.5, 10, false, &[&both])),
            (16, 16),
            "never narrower than the others"
        );
    }

    #[test]
    fn shards_of_earlier_releases_are_searched_by_wider_beams() {
        let current = certificate(&[(16, 0.96), (64, 0.99)]);
        let (adaptive, calibration) = (Vec::new(), Vec::new());
        let earlier = Certificate {
            calibration,
            adaptive,
            ..current.clone()
        };
        let chosen = beam_for_recall(0.95, 10, false, &[&current, &earlier]);
        assert_eq!(chosen.ef, 32);
        assert!(
            chosen
                .note
                .unwrap()
                .starts_with("1 of 2 shards were measured by an earlier release")
        );
    }

    #[test]
    fn a_recall_that_only_documents_measured_is_said() {
        let asked = certificate(&[(16, 0.96)]);
        let documents = Certificate {
            source: QuerySource::Documents,
            ..asked.clone()
        };
        let chosen = beam_for_recall(0.9, 10, false, &[&asked, &documents]);
        assert_eq!(chosen.ef, 16);
        assert!(
            chosen
                .note
                .unwrap()
                .starts_with("1 of 2 shards measured recall with documents, not with questions")
        );
        assert_eq!(beam_for_recall(0.9, 10, false, &[&asked]).note, None);
    }

    #[test]
    fn what_was_not_measured_is_said() {
        let empty = Certificate::default();
        let chosen = beam_for_recall(0.9, 10, false, &[&empty]);
        assert_eq!(chosen.ef, DEFAULT_EF);
        assert!(chosen.note.unwrap().contains("1 of 1 shards have no measured recall"));
        assert_eq!(beam_for_recall(0.9, 10, false, &[]), without_note(DEFAULT_EF));
    }
}
