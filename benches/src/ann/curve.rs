//! Curves of recall against speed, read at any recall that an engine reaches.

/// The points of one engine, (recall, queries per second), that no other beats in both, by ascending recall.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct RecallCurve(pub(super) Vec<(f64, f64)>);

impl RecallCurve {
    /// The upper envelope of all points.
    pub(super) fn envelope(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut sorted: Vec<_> = points
            .into_iter()
            .filter(|&(recall, qps)| qps > 0.0 && recall.is_finite())
            .collect();
        sorted.sort_by(|left, right| right.0.total_cmp(&left.0).then(right.1.total_cmp(&left.1)));
        let mut fastest = 0.0;
        sorted.retain(|&(_, qps)| {
            let keep = qps > fastest;
            fastest = f64::max(fastest, qps);
            keep
        });
        sorted.reverse();
        Self(sorted)
    }

    /// Whether it has a point at a recall or above.
    pub(super) fn reaches(&self, recall: f64) -> bool {
        self.0.last().is_some_and(|last| last.0 >= recall)
    }

    /// Queries per second at a recall, or why there is no value: log speed is linear in recall between neighbouring
    /// points, and nothing is extrapolated.
    pub(super) fn qps_at(&self, recall: f64) -> Result<f64, String> {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else {
            return Err("no points".to_owned());
        };
        if recall < first.0 {
            return Err(format!("begins at {:.4}", first.0));
        }
        if recall > last.0 {
            return Err(format!("reaches only {:.4}", last.0));
        }
        let after = self.0.partition_point(|point| point.0 < recall);
        let right = self.0.get(after).unwrap_or(last);
        let left = self.0.get(after.saturating_sub(1)).unwrap_or(first);
        let width = right.0 - left.0;
        let share = if width > 0.0 {
            ((recall - left.0) / width).clamp(0.0, 1.0)
        } else {
            1.0
        };
        Ok((left.1.ln() * (1.0 - share) + right.1.ln() * share).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> RecallCurve {
        RecallCurve::envelope(points.iter().copied())
    }

    #[test]
    fn beaten_points_fall_out() {
        let kept = curve(&[
            (0.9, 1000.0),
            (0.95, 400.0),
            (0.93, 300.0),
            (0.96, 450.0),
            (0.99, 100.0),
            (0.9, 800.0),
        ]);
        assert_eq!(kept.0, [(0.9, 1000.0), (0.96, 450.0), (0.99, 100.0)]);
    }

    #[test]
    fn log_speed_is_linear_in_recall() {
        let curve = curve(&[(0.90, 1000.0), (0.94, 10.0), (0.98, 1.0)]);
        // Half way between 1000 and 10 on a log axis is 100; a quarter of the way from 10 to 1 is 10^0.75.
        assert!((curve.qps_at(0.92).unwrap() - 100.0).abs() < 1e-9);
        assert!((curve.qps_at(0.95).unwrap() - 10f64.powf(0.75)).abs() < 1e-9);
        for (recall, qps) in [(0.90, 1000.0), (0.94, 10.0), (0.98, 1.0)] {
            assert!((curve.qps_at(recall).unwrap() - qps).abs() < 1e-9);
        }
    }

    #[test]
    fn nothing_is_extrapolated() {
        let curve = curve(&[(0.90, 1000.0), (0.98, 1.0)]);
        assert_eq!(curve.qps_at(0.981), Err("reaches only 0.9800".to_owned()));
        assert_eq!(curve.qps_at(0.899), Err("begins at 0.9000".to_owned()));
        assert_eq!(RecallCurve::default().qps_at(0.9), Err("no points".to_owned()));
    }

    proptest::proptest! {
        /// No point lies above the envelope, and the interpolated value lies between its neighbours.
        #[test]
        fn the_envelope_is_above_every_point(points in proptest::collection::vec((0.0f64..1.0, 1.0f64..1e6), 1..30)) {
            let curve = curve(&points);
            proptest::prop_assert!(curve.0.is_sorted_by(|l, r| l.0 < r.0 && l.1 > r.1));
            for (recall, qps) in points {
                proptest::prop_assert!(curve.0.iter().any(|kept| kept.0 >= recall && kept.1 >= qps));
                if let Ok(at) = curve.qps_at(recall) {
                    proptest::prop_assert!(at >= qps * (1.0 - 1e-9));
                }
            }
        }
    }
}
