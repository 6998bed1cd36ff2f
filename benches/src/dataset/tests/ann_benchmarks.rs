//! HDF5 files of ANN-Benchmarks.

use std::path::Path;

use hdf5_pure::{AttrValue, FileBuilder};

use crate::dataset::*;

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
        said().contains("attribute `distance`: expected angular, cosine, normalized, euclidean or ip, got jaccard"),
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
