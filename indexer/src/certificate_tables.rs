//! The tables of a certificate for people, as `inspect` prints them.

use std::fmt;

use dyad_index::{Certificate, ExpansionPoint, FilteredRecall, RecallPoint};

/// Recall and cost of a certificate by beam width: without filters, of questions out of distribution, and through
/// filters.
pub(crate) struct CertificateTables<'a>(pub(crate) &'a Certificate);

impl fmt::Display for CertificateTables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let certificate = self.0;
        recall_table(f, &certificate.recall)?;
        for (title, points) in [
            (
                "adaptive    searches whose beams are as wide as a question needs, in the mean",
                &certificate.adaptive,
            ),
            (
                "far         the same for constructed questions that are out of distribution",
                &certificate.out_of_distribution,
            ),
        ] {
            if !points.is_empty() {
                writeln!(f, "  {title}")?;
                recall_table(f, points)?;
            }
        }
        if !certificate.expansions.is_empty() {
            writeln!(
                f,
                "  expansions  of half of the searches, of 90 % (others end there), and of 95 and 99 % if they did not"
            )?;
            writeln!(f, "       ef        50 %        90 %        95 %        99 %")?;
        }
        for ExpansionPoint { ef, p50, p90, p95, p99 } in &certificate.expansions {
            writeln!(f, "    {ef:>5}   {p50:>9}   {p90:>9}   {p95:>9}   {p99:>9}")?;
        }
        let Some(filtered) = &certificate.filtered else {
            return writeln!(
                f,
                "  filters     recall was not measured through filters, but is when the shard is built again"
            );
        };
        if filtered.is_empty() {
            writeln!(
                f,
                "  filters     of half of the documents or fewer: all that they allow are scanned"
            )?;
        }
        for FilteredRecall { share, recall } in filtered {
            writeln!(
                f,
                "  filters     that allow {:.1} % of the documents, by chance",
                share * 100.0
            )?;
            recall_table(f, recall)?;
        }
        Ok(())
    }
}

fn recall_table(f: &mut fmt::Formatter<'_>, points: &[RecallPoint]) -> fmt::Result {
    writeln!(f, "       ef   recall@10  recall@100  distances  of which scored")?;
    for point in points {
        let at_100 = point
            .recall_at_100
            .map_or_else(|| "-".to_owned(), |recall| format!("{recall:.4}"));
        writeln!(
            f,
            "    {:>5}   {:>9.4}  {at_100:>10}  {:>9.0}  {:>15.0}",
            point.ef, point.recall_at_10, point.distance_computations, point.scored
        )?;
    }
    Ok(())
}
