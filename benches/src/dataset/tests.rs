//! Every format: what was written is read, and what is malformed is refused by file, field, expected and got.

use std::path::Path;

use dyad_corpus::Document;
use dyad_corpus::embeddings::{EmbeddingsHeader, EmbeddingsModel, EmbeddingsWriter, VectorType};
use dyad_files::npy::NpyValue;
use hdf5_pure::{AttrValue, FileBuilder};
use proptest::prelude::*;

use super::formats::{create_bin, write_values};
use super::*;
use crate::error::BenchResult;

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
fn malformed_files_are_refused_by_field() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let rows = Matrix::new(3, vec![1.0; 12]);
    let words = |values: &[i32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let cut = |bytes: &[u8], by: usize| bytes[..bytes.len() - by].to_vec();

    let file = path("v.npy");
    npy::write_vectors(&file, &rows).unwrap();
    let sound = fs_err::read(&file).unwrap();
    let with = |from: &str, to: &str| {
        let text = String::from_utf8_lossy(&sound[10..128]).replace(from, to);
        let text = format!("{:<117}\n", text.trim_end());
        [&sound[..10], text.as_bytes(), &sound[128..]].concat()
    };
    for (bytes, expected) in [
        (
            cut(&sound, 4),
            "file size: expected 176 bytes (<f4 of shape [4, 3]), got 172",
        ),
        ([&sound[..], &[0]].concat(), "file size: expected 176 bytes"),
        (
            b"NUMPY".to_vec(),
            "magic: expected a NumPy file, which begins with \\x93NUMPY, got `NUMPY`",
        ),
        (b"\x89HDF\r\n\x1a\n......".to_vec(), "magic: expected a NumPy file"),
        ([&sound[..6], &[9], &sound[7..]].concat(), "version: expected 1, 2 or 3"),
        (
            with("'<f4'", "'>f4'"),
            "descr: expected <f2, <f4, <f8, <i4, <u4 or <i8, got >f4",
        ),
        (with("'<f4'", "'<i4'"), "descr: expected <f2, <f4 or <f8, got <i4"),
        (with("False", "True"), "fortran_order: expected False"),
        (
            with("(4, 3)", "(12,)"),
            "shape: expected two dimensions, none of them 0, got [12]",
        ),
        (with("(4, 3)", "(4, -3)"), "shape: expected whole numbers"),
        (with("'shape'", "'form'"), "header: expected the key 'shape'"),
        (with("(4, 3)", "(99999999999, 99999999999)"), "file size: expected"),
    ] {
        let message = refusal(&file, &bytes);
        assert!(message.contains(expected), "{expected}: {message}");
    }
    npy::write_vectors(&file, &Matrix::new(3, Vec::new())).unwrap();
    assert!(refusal(&file, &fs_err::read(&file).unwrap()).contains("shape: expected two dimensions, none of them 0"));

    for (name, bytes, expected) in [
        (
            "v.fbin",
            words(&[4, 3, 0]),
            "file size: expected 56 bytes (4 rows of 3 float32), got 12",
        ),
        ("v.fbin", words(&[0, 3]), "n: expected at least 1, got 0"),
        ("v.fbin", words(&[4, 0]), "d: expected at least 1, got 0"),
        ("v.fbin", vec![1, 0, 0], "sizes: expected 8 bytes"),
        ("v.fbin", words(&[-1, -1]), "file size: expected 73786976260"),
        ("n.ibin", words(&[1, 2, 0, 1, 0]), "file size: expected 24 bytes"),
        ("n.ibin", words(&[1, 1, -5, 0]), "ids: expected ids of rows, got -5"),
        ("n.ibin", words(&[1, 0]), "k: expected at least 1, got 0"),
        (
            "v.fvecs",
            words(&[2, 0, 0, 2, 0]),
            "file size: expected a multiple of 12 bytes",
        ),
        (
            "v.fvecs",
            words(&[2, 0, 0, 1, 0, 0]),
            "d of row 1: expected 2, as in row 0, got 1",
        ),
        ("v.fvecs", words(&[0]), "d of row 0: expected at least 1, got 0"),
        ("v.fvecs", words(&[-3, 0, 0]), "d of row 0: expected at least 1, got -3"),
        ("v.fvecs", vec![], "d of row 0: expected 4 bytes"),
        ("n.ivecs", words(&[1, -7]), "ids: expected ids of rows, got -7"),
        (
            "v.txt",
            vec![],
            "ending: expected .npy, .fbin or .fvecs, or a directory of embeddings, got `txt`",
        ),
    ] {
        let message = refusal(&path(name), &bytes);
        assert!(message.contains(expected), "{expected}: {message}");
    }
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

#[test]
fn rows_that_a_metric_cannot_use_are_refused() {
    let path = Path::new("v.npy");
    let unit = |values: &[f32], any_length| {
        let mut matrix = Matrix::new(2, values.to_vec());
        make_unit(path, &mut matrix, any_length).map(|()| matrix)
    };
    let said = |values: &[f32]| unit(values, false).unwrap_err().to_string();
    assert_eq!(
        said(&[1.0, 0.0, f32::NAN, 0.0]),
        "`v.npy`: row 1, value 0: expected a finite number, got NaN"
    );
    assert_eq!(
        said(&[0.0, f32::INFINITY]),
        "`v.npy`: row 0, value 1: expected a finite number, got inf"
    );
    assert_eq!(
        said(&[1.0, 0.0, 0.0, 0.0]),
        "`v.npy`: row 1: expected a direction, got the zero vector"
    );
    assert!(said(&[3.0, 4.0]).contains("row 0: expected unit length") && said(&[3.0, 4.0]).contains("length 5.0000"));
    assert_eq!(unit(&[3.0, 4.0], true).unwrap(), Matrix::new(2, vec![0.6, 0.8]));
    assert_eq!(unit(&[0.6, 0.8], false).unwrap(), Matrix::new(2, vec![0.6, 0.8]));
    assert!(
        unit(&[0.6002, 0.8], false).unwrap().values()[0] < 0.6002,
        "as f16 leaves it"
    );
    assert!(require_finite(path, &Matrix::new(2, vec![9.0, f32::NEG_INFINITY])).is_err());
}

fn hdf5_file(path: &Path, distance: Option<&str>, dims: (u64, u64), neighbours: Option<&[i32]>) {
    let mut builder = FileBuilder::new();
    let rows = |n: u64, dim: u64| (0..n * dim).map(|at| at as f32).collect::<Vec<f32>>();
    builder
        .create_dataset("train")
        .with_f32_data(&rows(6, dims.0))
        .with_shape(&[6, dims.0]);
    builder
        .create_dataset("test")
        .with_f32_data(&rows(2, dims.1))
        .with_shape(&[2, dims.1]);
    if let Some(ids) = neighbours {
        builder
            .create_dataset("neighbors")
            .with_i32_data(ids)
            .with_shape(&[2, ids.len() as u64 / 2]);
    }
    if let Some(distance) = distance {
        builder.set_attr("distance", AttrValue::VarLenString(distance.to_owned()));
    }
    builder.write(path).unwrap();
}

#[test]
fn hdf5_of_ann_benchmarks_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.hdf5");
    hdf5_file(&path, Some("euclidean"), (4, 4), Some(&[1, 2, 3, 5, 4, 0]));
    let read = hdf5::read(&path).unwrap();
    assert_eq!((read.base.len(), read.base.dim(), read.queries.len()), (6, 4, 2));
    assert_eq!(read.base.row(2), [8.0, 9.0, 10.0, 11.0]);
    assert_eq!(read.neighbours, Some(Neighbours::new(3, vec![1, 2, 3, 5, 4, 0])));
    assert_eq!((read.metric, read.any_length), (VectorMetric::L2, false));
    hdf5_file(&path, Some("angular"), (4, 4), None);
    let read = hdf5::read(&path).unwrap();
    assert_eq!(
        (read.neighbours, read.metric, read.any_length),
        (None, VectorMetric::Ip, true)
    );
}

#[test]
fn hdf5_that_cannot_be_used_is_refused_by_part() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.hdf5");
    let said = || hdf5::read(&path).unwrap_err().to_string();
    hdf5_file(&path, Some("jaccard"), (4, 4), None);
    assert!(
        said().contains("attribute `distance`: expected angular, euclidean or ip, got jaccard"),
        "{}",
        said()
    );
    hdf5_file(&path, None, (4, 4), None);
    assert!(said().contains("got no such attribute"), "{}", said());
    hdf5_file(&path, Some("ip"), (4, 3), None);
    assert!(said().contains("test: d: expected 4, as in train, got 3"), "{}", said());
    hdf5_file(&path, Some("ip"), (4, 4), Some(&[0, -1]));
    assert!(said().contains("ids: expected ids of rows, got -1"), "{}", said());
    FileBuilder::new().write(&path).unwrap();
    assert!(said().contains("attribute `distance`"), "{}", said());
    fs_err::write(&path, "no HDF5 at all").unwrap();
    assert!(said().contains("header: expected an HDF5 file"), "{}", said());
}

/// A byte of a sound file flipped in turn: read or refused, never a panic.
#[test]
fn flipped_bytes_of_hdf5_do_not_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.hdf5");
    hdf5_file(&path, Some("euclidean"), (4, 4), Some(&[1, 2, 3, 5]));
    let sound = fs_err::read(&path).unwrap();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x5A;
        fs_err::write(&path, bytes).unwrap();
        // What can still be read has the shape of a data set; what cannot is refused by the file's name.
        match hdf5::read(&path) {
            Ok(_) => {}
            Err(error) => assert!(error.to_string().contains("x.hdf5"), "byte {at}: {error}"),
        }
    }
}
