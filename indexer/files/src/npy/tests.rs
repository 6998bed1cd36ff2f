//! What was written is read, and what is malformed is refused by file, part, expected and got.

use proptest::prelude::*;

use super::*;

fn refusal(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.npy");
    fs_err::write(&path, bytes).unwrap();
    let message = NpyFile::open(&path).unwrap_err().to_string();
    message
        .strip_prefix(&format!("`{}`: ", path.display()))
        .unwrap()
        .to_owned()
}

/// What NumPy 1.26 writes for `numpy.save("x.npy", numpy.arange(3, dtype="float64"))`, and a version 2 header.
#[test]
fn numpys_own_headers_are_written_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.npy");
    let text = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }";
    let text = format!("{text}{}\n", " ".repeat(117 - text.len()));
    let values = [0.0f64, 1.0, 2.0];
    let first = [
        b"\x93NUMPY\x01\x00\x76\x00".as_slice(),
        text.as_bytes(),
        values.as_bytes(),
    ]
    .concat();
    write(&path, &[3], &values).unwrap();
    assert_eq!(fs_err::read(&path).unwrap(), first);
    let second = [
        b"\x93NUMPY\x02\x00\x76\x00\x00\x00".as_slice(),
        text.as_bytes(),
        values.as_bytes(),
    ]
    .concat();
    for bytes in [first, second] {
        fs_err::write(&path, bytes).unwrap();
        let mut file = NpyFile::open(&path).unwrap();
        assert_eq!((file.dtype(), file.shape()), (NpyDtype::F64, &[3][..]));
        assert_eq!(file.read::<f64>().unwrap(), values);
        assert_eq!(file.read_f32(1..3).unwrap(), [1.0, 2.0]);
        assert!(file.read_f32(1..4).is_err() && file.rows_and_columns().is_err());
        assert!(
            file.read::<f32>()
                .unwrap_err()
                .to_string()
                .contains("descr: expected <f4, got <f8")
        );
    }
}

#[test]
fn halves_become_floats_and_ids_stay_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.npy");
    let values = [1.0f32, -0.5, 0.099_975_586, 65_504.0];
    write(&path, &[2, 2], &values.map(f16::from_f32)).unwrap();
    let mut file = NpyFile::open(&path).unwrap();
    assert_eq!(file.rows_and_columns().unwrap(), (2, 2));
    assert_eq!(file.read_f32(2..4).unwrap(), values[2..]);
    write(&path, &[1, 2], &[-1i64, 1 << 40]).unwrap();
    let mut file = NpyFile::open(&path).unwrap();
    assert_eq!(file.read::<i64>().unwrap(), [-1, 1 << 40]);
    assert!(
        file.read_f32(0..2)
            .unwrap_err()
            .to_string()
            .contains("descr: expected <f2, <f4 or <f8, got <i8")
    );
}

#[test]
fn what_is_wrong_is_told_with_the_part() {
    let intact = [header(NpyDtype::F32, &[2, 2]), vec![0; 16]].concat();
    let replaced = |from: &str, to: &str| {
        let text: Vec<u8> = String::from_utf8_lossy(&intact[10..]).replace(from, to).into_bytes();
        let length = (text.len() - 16) as u16;
        refusal(&[&intact[..8], &length.to_le_bytes(), &text].concat())
    };
    for (got, expected) in [
        (
            refusal(b""),
            "magic: expected a NumPy file, which begins with \\x93NUMPY, got ``",
        ),
        (refusal(b"\x93NUMPY\x09\x00"), "version: expected 1, 2 or 3, got 9"),
        (
            refusal(&intact[..9]),
            "header length: expected 2 bytes, got the end of the file",
        ),
        (
            refusal(&intact[..20]),
            "header: expected 118 bytes, got the end of the file",
        ),
        (
            refusal(b"\x93NUMPY\x02\x00\xff\xff\xff\xff"),
            "header length: expected at most 65536, got 4294967295",
        ),
        (
            refusal(&intact[..intact.len() - 1]),
            "file size: expected 144 bytes (<f4 of shape [2, 2]), got 143",
        ),
        (
            replaced("(2, 2)", "(18446744073709551615, 2)"),
            "file size: expected more bytes than any file has",
        ),
        (
            replaced("<f4", ">f4"),
            "descr: expected <f2, <f4, <f8, <i4, <u4, <i8, |i1 or |u1, got >f4",
        ),
        (
            replaced("'<f4'", "[('a', '<f4')]"),
            "descr: expected <f2, <f4, <f8, <i4, <u4, <i8, |i1 or |u1, got a compound type",
        ),
        (
            replaced("False", "True"),
            "fortran_order: expected False (C order: numpy.ascontiguousarray), got True",
        ),
        (
            replaced("(2, 2)", "(2, x)"),
            "shape: expected whole numbers, got (2, x)",
        ),
        (replaced("descr", "desk"), "header: expected the key 'descr', got"),
    ] {
        assert!(got.starts_with(expected), "{got}");
    }
}

proptest! {
    #[test]
    fn arrays_come_back(rows in 0usize..5, columns in 1usize..5, seed in any::<u32>()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.npy");
        let value = |at: usize| f32::from_bits(seed.wrapping_add(at as u32) & 0x7f00_ffff);
        let values: Vec<f32> = (0..rows * columns).map(value).collect();
        write(&path, &[rows, columns], &values).unwrap();
        let mut file = NpyFile::open(&path).unwrap();
        prop_assert_eq!(file.rows_and_columns().unwrap(), (rows, columns));
        prop_assert_eq!(file.is_empty(), rows == 0);
        prop_assert_eq!(file.read_f32(0..file.len()).unwrap(), values);
    }

    #[test]
    fn no_bytes_are_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), as_header in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.npy");
        let start: &[u8] = if as_header { b"\x93NUMPY\x01\x00" } else { b"" };
        fs_err::write(&path, [start, &bytes].concat()).unwrap();
        if let Err(error) = NpyFile::open(&path) {
            prop_assert!(error.to_string().contains("x.npy"));
        }
    }
}
