//! Curves of recall against speed, and how two of them compare.

use serde::Serialize;

/// One setting of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct CurvePoint {
    /// Recall@k.
    pub(super) recall: f64,
    /// Queries per second.
    pub(super) qps: f64,
}

/// Why a curve has no value at a recall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Outside {
    /// No point at all.
    Empty,
    /// The curve begins only at this recall.
    Above(f64),
    /// The curve ends at this recall.
    Below(f64),
}

impl std::fmt::Display for Outside {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => write!(out, "no points"),
            Self::Above(recall) => write!(out, "begins at {recall:.4}"),
            Self::Below(recall) => write!(out, "reaches only {recall:.4}"),
        }
    }
}

/// The best that an engine can do: points that no other point beats in both recall and speed, by ascending recall.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Curve {
    points: Vec<CurvePoint>,
}

impl Curve {
    /// The upper envelope of one engine's points.
    pub(super) fn envelope(points: impl IntoIterator<Item = CurvePoint>) -> Self {
        let mut sorted: Vec<CurvePoint> =
            points.into_iter().filter(|point| point.qps > 0.0 && point.recall.is_finite()).collect();
        sorted.sort_by(|left, right| right.recall.total_cmp(&left.recall).then(right.qps.total_cmp(&left.qps)));
        let mut kept: Vec<CurvePoint> = Vec::new();
        for point in sorted {
            if kept.last().is_none_or(|last| point.qps > last.qps) {
                kept.push(point);
            }
        }
        kept.reverse();
        Self { points: kept }
    }

    /// At each recall the best of several curves, as each of them interpolates itself: points of two engines are never joined
    /// by a line that none of them can be asked along. A curve that begins only at a higher recall counts with the speed
    /// it has there. Where the best curve ends and a slower one goes on there are two points of one recall.
    pub(super) fn best_of(curves: &[Self]) -> Self {
        let curves: Vec<&Self> = curves.iter().filter(|curve| !curve.points.is_empty()).collect();
        if let [only] = curves.as_slice() {
            return (*only).clone();
        }
        let mut recalls: Vec<f64> = curves.iter().flat_map(|curve| &curve.points).map(|point| point.recall).collect();
        recalls.sort_by(f64::total_cmp);
        recalls.dedup();
        let mut points: Vec<CurvePoint> = Vec::new();
        let mut keep = |recall: f64, curves: &[&Self]| {
            let best = curves.iter().filter_map(|curve| curve.reached_at(recall)).fold(0.0, f64::max);
            let point = CurvePoint { recall, qps: best };
            if best > 0.0 && points.last() != Some(&point) {
                points.push(point);
            }
        };
        if let Some(&first) = recalls.first() {
            keep(first, &curves);
        }
        for (&left, &right) in recalls.iter().zip(recalls.iter().skip(1)) {
            // Between two neighbouring recalls every curve that goes on is one straight line, on a log axis.
            let going_on: Vec<&Self> = curves
                .iter()
                .copied()
                .filter(|curve| curve.points.last().is_some_and(|last| last.recall >= right))
                .collect();
            keep(left, &going_on);
            for crossing in crossings(&going_on, left, right) {
                keep(crossing, &going_on);
            }
            keep(right, &curves);
        }
        Self { points }
    }

    /// Speed at a recall, or that of the first point where it has more recall.
    fn reached_at(&self, recall: f64) -> Option<f64> {
        let first = self.points.first()?;
        if recall <= first.recall { Some(first.qps) } else { self.qps_at(recall).ok() }
    }

    /// The points, by ascending recall and so by descending speed.
    pub(super) fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// Queries per second at a recall: log speed is linear in recall between neighbouring points. Nothing is extrapolated.
    pub(super) fn qps_at(&self, recall: f64) -> Result<f64, Outside> {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return Err(Outside::Empty) };
        if recall < first.recall {
            return Err(Outside::Above(first.recall));
        }
        if recall > last.recall {
            return Err(Outside::Below(last.recall));
        }
        let after = self.points.partition_point(|point| point.recall < recall);
        let right = self.points.get(after).unwrap_or(last);
        let left = self.points.get(after.saturating_sub(1)).unwrap_or(first);
        let width = right.recall - left.recall;
        let share = if width > 0.0 { ((recall - left.recall) / width).clamp(0.0, 1.0) } else { 1.0 };
        Ok((left.qps.ln() * (1.0 - share) + right.qps.ln() * share).exp())
    }

    /// The best speed of a measured point with at least this recall: no interpolation.
    pub(super) fn qps_at_least(&self, recall: f64) -> Option<f64> {
        self.points.iter().find(|point| point.recall >= recall).map(|point| point.qps)
    }
}

/// Recalls between `left` and `right` where two curves cross that are straight lines there, ascending.
fn crossings(curves: &[&Curve], left: f64, right: f64) -> Vec<f64> {
    let line = |curve: &&Curve| Some((curve.reached_at(left)?.ln(), curve.reached_at(right)?.ln()));
    let lines: Vec<(f64, f64)> = curves.iter().filter_map(line).collect();
    let mut found = Vec::new();
    for (at, one) in lines.iter().enumerate() {
        for other in lines.iter().skip(at + 1) {
            let (before, after) = (one.0 - other.0, one.1 - other.1);
            if before * after < 0.0 {
                found.push(left + (right - left) * before / (before - after));
            }
        }
    }
    found.sort_by(f64::total_cmp);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Curve {
        Curve::envelope(points.iter().map(|&(recall, qps)| CurvePoint { recall, qps }))
    }

    #[test]
    fn beaten_points_fall_out() {
        let kept = curve(&[(0.9, 1000.0), (0.95, 400.0), (0.93, 300.0), (0.96, 450.0), (0.99, 100.0), (0.9, 800.0)]);
        let kept: Vec<_> = kept.points().iter().map(|point| (point.recall, point.qps)).collect();
        assert_eq!(kept, [(0.9, 1000.0), (0.96, 450.0), (0.99, 100.0)]);
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
        assert_eq!(curve.qps_at(0.981), Err(Outside::Below(0.98)));
        assert_eq!(curve.qps_at(0.899), Err(Outside::Above(0.90)));
        assert_eq!(Curve::default().qps_at(0.9), Err(Outside::Empty));
        assert_eq!(
            (curve.qps_at_least(0.5), curve.qps_at_least(0.95), curve.qps_at_least(0.99)),
            (Some(1000.0), Some(1.0), None)
        );
    }

    #[test]
    fn the_best_of_several_curves_follows_each_of_them_alone() {
        let (a, b) = (curve(&[(0.94, 100.0), (0.98, 10.0)]), curve(&[(0.97, 15.0)]));
        let both = Curve::best_of(&[a.clone(), b]);
        // Half way from 100 to 10 on a log axis; one envelope over all points has 28.2.
        assert!((both.qps_at(0.96).unwrap() - 1000f64.sqrt()).abs() < 1e-9);
        assert!((both.qps_at(0.97).unwrap() - a.qps_at(0.97).unwrap()).abs() < 1e-9);
        // One curve ends, a slower one goes on; a third begins later, and is fast.
        let (c, d) = (curve(&[(0.94, 50.0), (0.99, 5.0)]), curve(&[(0.992, 2.0), (0.995, 1.0)]));
        let three = Curve::best_of(&[a.clone(), c.clone(), d]);
        assert!((three.qps_at(0.98).unwrap() - 10.0).abs() < 1e-9);
        assert!((three.qps_at(0.985).unwrap() - c.qps_at(0.985).unwrap()).abs() < 1e-9);
        assert!((three.qps_at(0.991).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!((three.qps_at(0.939), three.qps_at(0.996)), (Err(Outside::Above(0.94)), Err(Outside::Below(0.995))));
        assert_eq!((Curve::best_of(std::slice::from_ref(&a)), Curve::best_of(&[])), (a, Curve::default()));
    }

    proptest::proptest! {
        /// At any recall the best of the curves is the largest of their own values.
        #[test]
        fn the_best_of_curves_is_their_maximum(
            sets in proptest::collection::vec(proptest::collection::vec((0.0f64..1.0, 1.0f64..1e6), 1..8), 1..4),
            at in proptest::collection::vec(0.0f64..1.0, 20),
        ) {
            let curves: Vec<Curve> = sets.iter().map(|points| curve(points)).collect();
            let best = Curve::best_of(&curves);
            let first = curves.iter().map(|curve| curve.points()[0].recall).fold(1.0, f64::min);
            for recall in at.into_iter().filter(|recall| *recall >= first) {
                let largest = curves.iter().filter_map(|curve| curve.reached_at(recall)).fold(0.0, f64::max);
                let found = best.qps_at(recall).unwrap_or(0.0);
                proptest::prop_assert!((found - largest).abs() <= 1e-6 * largest, "{found} for {largest} at {recall}");
            }
        }

        /// No point lies above the envelope, and the interpolated value lies between its neighbours.
        #[test]
        fn the_envelope_is_above_every_point(points in proptest::collection::vec((0.0f64..1.0, 1.0f64..1e6), 1..30)) {
            let curve = curve(&points);
            proptest::prop_assert!(curve.points().is_sorted_by(|l, r| l.recall < r.recall && l.qps > r.qps));
            for (recall, qps) in points {
                proptest::prop_assert!(curve.points().iter().any(|kept| kept.recall >= recall && kept.qps >= qps));
                if let Ok(at) = curve.qps_at(recall) {
                    proptest::prop_assert!(at >= qps * (1.0 - 1e-9));
                }
            }
        }
    }
}
