//! Made-up sets: reproducible, of the promised shape, refused where they cannot be.

use super::*;
use crate::dataset::{Matrix, exact, read_vectors};

fn small(kind: SyntheticKind) -> SyntheticData {
    SyntheticData {
        kind,
        n: 3_000,
        dim: 64,
        queries: 50,
        clusters: 40,
        intrinsic: 6,
        spread: 0.9,
        noise: 0.1,
        zipf: 1.0,
        seed: 5,
    }
}

fn written(parameters: &SyntheticData, threads: usize, ending: &str) -> (Matrix, Matrix) {
    let dir = tempfile::tempdir().unwrap();
    let (base, queries) = (
        dir.path().join(format!("b.{ending}")),
        dir.path().join(format!("q.{ending}")),
    );
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let count = std::sync::atomic::AtomicUsize::new(0);
    pool.install(|| {
        let advance = |rows| {
            count.fetch_add(rows, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        };
        parameters.write(&base, &queries, &advance).unwrap();
    });
    assert_eq!(count.into_inner(), parameters.n + parameters.queries);
    (read_vectors(&base).unwrap(), read_vectors(&queries).unwrap())
}

#[test]
fn the_same_on_every_number_of_threads_and_in_every_format() {
    let parameters = small(SyntheticKind::Clustered);
    let (base, queries) = written(&parameters, 1, "npy");
    assert_eq!((base.len(), base.dim(), queries.len()), (3_000, 64, 50));
    assert_eq!(written(&parameters, 3, "fbin"), (base.clone(), queries));
    assert_ne!(written(&SyntheticData { seed: 6, ..parameters }, 1, "npy").0, base);
    // A smaller set is the beginning of a larger one.
    let half = written(&SyntheticData { n: 1_500, ..parameters }, 1, "npy").0;
    assert_eq!(half.values(), &base.values()[..1_500 * 64]);
}

#[test]
fn clustered_rows_have_unit_length_and_clusters_of_zipf_sizes() {
    let parameters = small(SyntheticKind::Clustered);
    let (base, _) = written(&parameters, 2, "npy");
    for row in base.rows() {
        let length = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        assert!((length - 1.0).abs() < 1e-5);
    }
    let clusters = Clusters::new(&parameters);
    let cluster_of = |row: u64| clusters.sample(&mut stream_of(parameters.seed, row));
    let mut sizes = vec![0usize; 40];
    for row in 0..3_000 {
        sizes[cluster_of(row)] += 1;
    }
    // The largest of 40 clusters holds 1 / H(40) = 23.4 % of the rows, the second half of that.
    assert!(
        (600..800).contains(&sizes[0]) && (280..420).contains(&sizes[1]),
        "{sizes:?}"
    );
    // Neighbours share a cluster far more often than chance would have it.
    let queries = Matrix::new(64, base.values()[..50 * 64].to_vec());
    let (found, _) = exact(
        &base,
        &queries,
        5,
        VectorMetric::Ip,
        &dyad_command::JobCancellation::new(),
    )
    .unwrap();
    let same = |query: usize| {
        found
            .row(query)
            .iter()
            .filter(|id| cluster_of(u64::from(**id)) == cluster_of(query as u64))
            .count()
    };
    assert!((0..50).map(same).sum::<usize>() > 200);
}

/// Without noise, rows of one cluster lie in `intrinsic` directions around its centre: the second moments have that
/// rank.
#[test]
fn a_cluster_without_noise_has_the_intrinsic_dimension() {
    let parameters = SyntheticData {
        noise: 0.0,
        clusters: 1,
        intrinsic: 2,
        n: 200,
        ..small(SyntheticKind::Clustered)
    };
    let (base, _) = written(&parameters, 1, "npy");
    // Unit rows of a 2-dimensional patch and its centre span 3 directions: Gram-Schmidt leaves nothing of the others.
    let mut spanned: Vec<Vec<f64>> = Vec::new();
    for row in base.rows() {
        let mut rest: Vec<f64> = row.iter().map(|value| f64::from(*value)).collect();
        for direction in &spanned {
            let along: f64 = rest.iter().zip(direction).map(|(left, right)| left * right).sum();
            rest.iter_mut()
                .zip(direction)
                .for_each(|(value, part)| *value -= along * part);
        }
        let length = rest.iter().map(|value| value * value).sum::<f64>().sqrt();
        if length > 1e-3 {
            spanned.push(rest.into_iter().map(|value| value / length).collect());
        }
    }
    assert_eq!(spanned.len(), 3);
}

#[test]
fn sift_like_rows_are_small_whole_numbers() {
    let (base, _) = written(&small(SyntheticKind::SiftLike), 2, "npy");
    let values = base.values();
    assert!(
        values
            .iter()
            .all(|value| value.fract() == 0.0 && (0.0..=218.0).contains(value))
    );
    let share =
        |wanted: fn(f32) -> bool| values.iter().filter(|value| wanted(**value)).count() as f64 / values.len() as f64;
    assert!((0.1..0.6).contains(&share(|value| value == 0.0)) && share(|value| value > 60.0) > 0.02);
}

#[test]
fn rows_for_inner_products_have_the_same_directions_and_lengths_of_their_own() {
    let (unit, _) = written(&small(SyntheticKind::Clustered), 1, "npy");
    let parameters = small(SyntheticKind::ClusteredDot);
    assert_eq!(parameters.metric(), VectorMetric::Dot);
    let (base, _) = written(&parameters, 1, "npy");
    let lengths: Vec<f64> = base
        .rows()
        .map(|row| row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt())
        .collect();
    for ((row, unit), length) in base.rows().zip(unit.rows()).zip(&lengths) {
        assert!(
            row.iter()
                .zip(unit)
                .all(|(value, unit)| (f64::from(*value) / length - f64::from(*unit)).abs() < 1e-5)
        );
    }
    let logarithms = || lengths.iter().map(|length| length.ln());
    let mean = logarithms().sum::<f64>() / 3_000.0;
    let deviation = (logarithms().map(|value| (value - mean).powi(2)).sum::<f64>() / 3_000.0).sqrt();
    assert!(
        mean.abs() < 0.03 && (deviation - LENGTH_SPREAD).abs() < 0.03,
        "{mean} {deviation}"
    );
}

#[test]
fn parameters_that_make_no_data_are_refused_by_name() {
    let good = small(SyntheticKind::Clustered);
    for (parameters, field) in [
        (SyntheticData { n: 0, ..good }, "n"),
        (SyntheticData { dim: 0, ..good }, "dim"),
        (SyntheticData { clusters: 0, ..good }, "clusters"),
        (SyntheticData { intrinsic: 0, ..good }, "intrinsic"),
        (SyntheticData { queries: 0, ..good }, "queries"),
        (
            SyntheticData {
                noise: f64::NAN,
                ..good
            },
            "noise",
        ),
        (SyntheticData { spread: -1.0, ..good }, "spread"),
    ] {
        let error = parameters.check().unwrap_err();
        assert!(
            error.starts_with(&format!("synthetic data: `{field}`: expected ")),
            "{error}"
        );
    }
}
