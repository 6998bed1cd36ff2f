//! The middle, the tail and the ends of measured values.

/// The middle value, or the mean of the two middle ones; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// The smallest value that at least `share` of the values do not exceed; 0 of nothing.
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The smallest and the largest of values above 0; infinity and 0 of nothing.
pub fn extremes(values: &[f64]) -> (f64, f64) {
    let values = values.iter().copied();
    (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles() {
        assert_eq!(
            (median(&[]), median(&[3.0]), median(&[3.0, 1.0]), median(&[9.0, 1.0, 2.0])),
            (None, Some(3.0), Some(2.0), Some(2.0))
        );
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let at = |share| percentile(&values, share).to_bits();
        assert_eq!((at(0.5), at(0.99), at(1.0)), (50f64.to_bits(), 99f64.to_bits(), 100f64.to_bits()));
        assert_eq!((extremes(&values), extremes(&[])), ((1.0, 100.0), (f64::INFINITY, 0.0)));
        assert_eq!(percentile(&[], 0.5).to_bits(), 0f64.to_bits());
    }
}
