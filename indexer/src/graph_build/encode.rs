//! Encodes all rows block by block, with progress and cancellation.

use dyad_index::quant::{Codec, Codes};
use dyad_index::search::{RowRange, VectorRows};

use crate::control::JobControl;
use crate::error::Error;

/// Rows between two checks for cancellation.
pub(super) const BLOCK: usize = 8_192;

/// The same as [`Codes::encode`], on the current rayon pool. Advances progress by one per row.
///
/// Returns [`Error::Cancelled`] soon after it is cancelled.
pub fn encode(rows: &dyn VectorRows, codec: Codec, control: JobControl<'_>) -> Result<Codes, Error> {
    let n = rows.len();
    let mut codes = Codes::with_capacity(codec, n);
    for first in (0..n).step_by(BLOCK) {
        control.check()?;
        rows.read_ahead(first + BLOCK..first + 2 * BLOCK);
        let block = RowRange::new(rows, first, BLOCK);
        codes.append(&Codes::encode(&block, codes.codec.clone()));
        control.progress.advance(block.len() as u64);
    }
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use dyad_index::Metric;

    use super::*;
    use crate::graph_build::tests::{cancelled, synthetic::Rows};

    #[test]
    fn blocks_make_the_codes_that_all_rows_together_make() {
        for n in [1, BLOCK, 2 * BLOCK + 1] {
            let rows = Rows::clustered(n, 8, 5, 0.5, 1);
            let codec = Codec::fit(&rows, Metric::Cosine, 3);
            let control = JobControl::silent();
            let (whole, blocks) = (
                Codes::encode(&rows, codec.clone()),
                encode(&rows, codec, control).unwrap(),
            );
            assert!(
                blocks.codec == whole.codec && blocks.lines == whole.lines && blocks.rows == whole.rows,
                "{n}"
            );
        }
    }

    #[test]
    fn encoding_can_be_cancelled() {
        let rows = Rows::clustered(3, 8, 2, 0.5, 1);
        let control = JobControl {
            cancel: &cancelled(),
            ..JobControl::silent()
        };
        assert!(matches!(
            encode(&rows, Codec::fit(&rows, Metric::L2, 3), control),
            Err(Error::Cancelled)
        ));
    }
}
