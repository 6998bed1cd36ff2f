//! Every format: what was written is read, and what is malformed is refused by file, field, expected and got.
//!
//! | file | contents |
//! |---|---|
//! | `ann_benchmarks.rs` | HDF5 files of ANN-Benchmarks |
//! | `refused.rs` | malformed files, and rows that a metric cannot use |

use std::path::Path;

use dyad_corpus::Document;
use dyad_corpus::embeddings::{EmbeddingsHeader, EmbeddingsModel, EmbeddingsWriter, VectorType};
use dyad_files::npy::NpyValue;
use proptest::prelude::*;

use super::formats::{create_bin, write_values};
use super::*;
use crate::error::BenchResult;

mod ann_benchmarks;
mod refused;

fn write_fbin(path: &Path, matrix: &Matrix) -> BenchResult<()> {
    Ok(write_values(
        &mut create_bin(path, matrix.len(), matrix.dim())?,
        matrix.values(),
    )?)
}

fn write_vecs<T: NpyValue>(path: &Path, rows: &RowMatrix<T>) -> BenchResult<()> {
    let mut out = Vec::new();
    for row in rows.rows() {
        write_values(&mut out, &[row.len() as i32])?;
        write_values(&mut out, row)?;
    }
    Ok(fs_err::write(path, out)?)
}

fn matrix() -> impl Strategy<Value = Matrix> {
    (1usize..20, 1usize..20).prop_flat_map(|(n, dim)| {
        proptest::collection::vec(-1e6f32..1e6, n * dim).prop_map(move |values| Matrix::new(dim, values))
    })
}

fn neighbours() -> impl Strategy<Value = Neighbours> {
    (1usize..20, 1usize..20).prop_flat_map(|(n, k)| {
        proptest::collection::vec(0u32..=i32::MAX as u32, n * k).prop_map(move |ids| Neighbours::new(k, ids))
    })
}

proptest! {
    #[test]
    fn mapped_vectors_are_those_that_are_read(matrix in matrix(), keep in 0usize..20) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.npy");
        npy::write_vectors(&path, &matrix).unwrap();
        let mut mapped = npy::map_vectors(&path).unwrap();
        prop_assert!(mapped.is_mapped());
        prop_assert_eq!(&mapped, &read_vectors(&path).unwrap());
        let (mut shorter, rows) = (matrix.clone(), matrix.len());
        mapped.truncate(keep);
        shorter.truncate(keep);
        prop_assert_eq!(mapped.is_mapped(), keep >= rows, "only a whole file stays mapped");
        prop_assert_eq!(mapped, shorter);
    }

    #[test]
    fn unit_vectors_stay_mapped_and_others_are_scaled_in_memory(matrix in matrix()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.npy");
        let mut scaled = matrix;
        prop_assume!(make_unit(&path, &mut scaled, true).is_ok());
        let mut twice = scaled.clone();
        npy::write_vectors(&path, &scaled).unwrap();
        let mut mapped = npy::map_vectors(&path).unwrap();
        make_unit(&path, &mut mapped, false).unwrap();
        prop_assert!(mapped.is_mapped());
        prop_assert_eq!(&mapped, &scaled);

        let doubled: Vec<f32> = scaled.values().iter().map(|value| value * 2.0).collect();
        npy::write_vectors(&path, &Matrix::new(scaled.dim(), doubled)).unwrap();
        let mut mapped = npy::map_vectors(&path).unwrap();
        prop_assert!(make_unit(&path, &mut mapped, false).is_err(), "twice the length is refused");
        make_unit(&path, &mut mapped, true).unwrap();
        make_unit(&path, &mut twice, true).unwrap();
        prop_assert!(!mapped.is_mapped());
        for (got, expected) in mapped.values().iter().zip(twice.values()) {
            prop_assert!((got - expected).abs() < 1e-6);
        }
    }
}

#[test]
fn only_float32_is_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.npy");
    dyad_files::npy::write(&path, &[1, 2], &[1.0f64, 2.0]).unwrap();
    let error = npy::map_vectors(&path).unwrap_err().to_string();
    assert!(error.ends_with("v.npy`: descr: expected <f4, got <f8"), "{error}");
}

proptest! {
    #[test]
    fn vectors_survive_every_format(matrix in matrix()) {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        npy::write_vectors(&path("v.npy"), &matrix).unwrap();
        write_fbin(&path("v.fbin"), &matrix).unwrap();
        write_vecs(&path("v.fvecs"), &matrix).unwrap();
        for name in ["v.npy", "v.fbin", "v.fvecs"] {
            prop_assert_eq!(&read_vectors(&path(name)).unwrap(), &matrix, "{}", name);
        }
    }

    #[test]
    fn neighbours_survive_every_format(lists in neighbours()) {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let ids: Vec<i32> = lists.values().iter().map(|id| *id as i32).collect();
        npy::write_ids(&path("n.npy"), lists.k(), &ids).unwrap();
        write_neighbours(&path("n.ibin"), &lists, &vec![0.5; ids.len()]).unwrap();
        write_vecs(&path("n.ivecs"), &lists).unwrap();
        // An .ibin without scores, as other tools write plain int32 matrices.
        let bytes = fs_err::read(path("n.ibin")).unwrap();
        fs_err::write(path("plain.ibin"), &bytes[..8 + 4 * ids.len()]).unwrap();
        for name in ["n.npy", "n.ibin", "n.ivecs", "plain.ibin"] {
            prop_assert_eq!(&read_neighbours(&path(name)).unwrap(), &lists, "{}", name);
        }
    }

    /// Any bytes at all are read or refused; nothing panics, and nothing is allocated that the file does not hold.
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), magic in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        for ending in ["npy", "fbin", "fvecs", "ibin", "ivecs", "hdf5"] {
            let path = dir.path().join(format!("x.{ending}"));
            let start: &[u8] = match (magic, ending) {
                (true, "npy") => b"\x93NUMPY\x01\x00",
                (true, "hdf5") => b"\x89HDF\r\n\x1a\n",
                _ => b"",
            };
            fs_err::write(&path, [start, &bytes].concat()).unwrap();
            let name = format!("x.{ending}");
            let said = [
                read_vectors(&path).err().map(|error| error.to_string()),
                read_neighbours(&path).err().map(|error| error.to_string()),
                hdf5::read(&path).err().map(|error| error.to_string()),
            ];
            for said in said.into_iter().flatten() {
                prop_assert!(said.contains(&name), "{said}");
            }
        }
    }
}

#[test]
fn halves_and_doubles_become_floats() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.npy");
    let values = [1.0f32, -0.5, 0.099_975_586, 65_504.0];
    dyad_files::npy::write(&path, &[2, 2], &values.map(half::f16::from_f32)).unwrap();
    assert_eq!(read_vectors(&path).unwrap(), Matrix::new(2, values.to_vec()));
    dyad_files::npy::write(&path, &[2, 2], &values.map(f64::from)).unwrap();
    assert_eq!(read_vectors(&path).unwrap(), Matrix::new(2, values.to_vec()));
}

fn refusal(path: &Path, bytes: &[u8]) -> String {
    fs_err::write(path, bytes).unwrap();
    let neighbours = path
        .extension()
        .is_some_and(|ending| ending == "ibin" || ending == "ivecs");
    let error = if neighbours {
        read_neighbours(path).unwrap_err()
    } else {
        read_vectors(path).unwrap_err()
    };
    let message = error.to_string();
    assert!(message.starts_with(&format!("`{}`: ", path.display())), "{message}");
    message
}

#[test]
fn embeddings_are_read_in_the_order_of_their_documents() {
    let dir = tempfile::tempdir().unwrap();
    let (name, fingerprint, metric) = ("m".to_owned(), "f00d".to_owned(), "cosine".to_owned());
    let model = EmbeddingsModel {
        name,
        fingerprint,
        dim: 2,
        metric,
        max_tokens: 8,
    };
    let header = EmbeddingsHeader {
        model,
        tower: "answer".to_owned(),
        vectors: VectorType::F16,
        part_rows: 2,
        dtype: None,
        two_towers: None,
        logit_scale: None,
        context: dyad_corpus::PassageContext::default(),
    };
    let mut writer = EmbeddingsWriter::open(dir.path(), header).unwrap();
    for (key, row) in [("c", [0.5, 1.0]), ("a", [0.25, -2.0]), ("b", [3.0, 0.0])] {
        writer
            .push(
                &Document {
                    key: key.to_owned(),
                    ..Document::default()
                },
                &row,
                false,
            )
            .unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(
        read_vectors(dir.path()).unwrap(),
        Matrix::new(2, vec![0.5, 1.0, 0.25, -2.0, 3.0, 0.0])
    );
    let part = fs_err::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let part = part
        .filter(|path| path.extension().is_some_and(|ending| ending == "npy"))
        .min()
        .unwrap();
    let mut bytes = fs_err::read(&part).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs_err::write(&part, bytes).unwrap();
    let error = read_vectors(dir.path()).unwrap_err().to_string();
    assert!(error.contains("checksum"), "{error}");
}
