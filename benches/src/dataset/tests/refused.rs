//! What is refused: malformed files by field, and rows that a metric cannot use.

use std::path::Path;

use super::refusal;
use crate::dataset::*;

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
            "descr: expected <f2, <f4, <f8, <i4, <u4, <i8, |i1 or |u1, got >f4",
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
