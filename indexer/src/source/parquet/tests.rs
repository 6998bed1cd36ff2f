//! Files of pyarrow and of our own writer.

use std::sync::Arc;

use parquet::data_type::{FloatType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;

/// Ten rows in groups of four, compressed with zstd: texts as keys, fixed-size lists of float32. Written by pyarrow:
/// `pq.write_table(pa.table({"key": [f"k{i}" for i in range(10)], "vector": pa.FixedSizeListArray.from_arrays(pa.array(
/// [float(i) for i in range(20)], pa.float32()), 2)}), "vectors.parquet", compression="zstd", row_group_size=4)`
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/vectors.parquet")
}

#[test]
fn what_pyarrow_writes_is_read() {
    let mut vectors = VectorColumn::open(&golden()).unwrap();
    assert_eq!((vectors.rows, vectors.dim), (10, 2));
    let (mut all, mut blocks) = (Vec::new(), 0);
    loop {
        let block = vectors.block(3).unwrap();
        if block.is_empty() {
            break;
        }
        blocks += 1;
        all.extend(block);
    }
    assert_eq!(all, (0..20).map(|value| value as f32).collect::<Vec<_>>());
    assert_eq!(blocks, 5, "3 and 1 of two groups of 4, and 2");
    let mut keys = KeyColumn::find(&golden()).unwrap().unwrap();
    let keys: Vec<String> = std::iter::from_fn(|| keys.next().unwrap()).collect();
    assert_eq!(keys, (0..10).map(|number| format!("k{number}")).collect::<Vec<_>>());
}

const SCHEMA: &str =
    "message m { required int64 id; optional group vector (LIST) { repeated group list { optional float element; } } }";

/// Values with definition and repetition levels.
type ListColumns<'a> = (&'a [f32], &'a [i16], &'a [i16]);

/// A file of keys, and of lists by their definition and repetition levels.
fn write(path: &Path, schema: &str, ids: &[i64], (values, definition, repetition): ListColumns<'_>) {
    let (schema, properties) = (
        Arc::new(parse_message_type(schema).unwrap()),
        Arc::new(WriterProperties::default()),
    );
    let file = fs_err::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(ids, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<FloatType>()
        .write_batch(values, Some(definition), Some(repetition))
        .unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

fn all(path: &Path) -> Result<Vec<f32>, Error> {
    VectorColumn::open(path)?.block(100)
}

#[test]
fn lists_of_other_lengths_nulls_and_other_columns_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.parquet");
    write(&path, SCHEMA, &[7, -8], (&[1.0, 2.0, 3.0, 4.0], &[3; 4], &[0, 1, 0, 1]));
    assert_eq!(all(&path).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    let mut keys = KeyColumn::find(&path).unwrap().unwrap();
    assert_eq!(
        [keys.next().unwrap(), keys.next().unwrap(), keys.next().unwrap()],
        [Some("7".into()), Some("-8".into()), None]
    );
    for (kind, first) in [
        ("INTEGER(64, false)", Some("18446744073709551608")),
        ("TIMESTAMP(MICROS, true)", None),
    ] {
        let schema = SCHEMA.replace(" id;", &format!(" id ({kind});"));
        write(&path, &schema, &[-8], (&[1.0], &[3], &[0]));
        let key = KeyColumn::find(&path).and_then(|keys| keys.unwrap().next());
        assert!(
            first.map_or(key.is_err(), |first| key.is_ok_and(|key| key.as_deref() == Some(first))),
            "{kind}"
        );
    }
    let cases: [(ListColumns<'_>, &str); 5] = [
        ((&[1.0, 2.0, 3.0], &[3; 3], &[0, 1, 0]), "lists of one length"),
        ((&[1.0, 2.0, 3.0], &[3; 3], &[0, 0, 1]), "lists of one length"),
        ((&[1.0, 2.0, 3.0], &[3, 3, 3, 2], &[0, 1, 0, 1]), "got null"),
        ((&[1.0, 2.0], &[3, 3, 1], &[0, 1, 0]), "got null, or an empty list"),
        ((&[1.0, 2.0], &[3, 3, 0], &[0, 1, 0]), "got null"),
    ];
    for (lists, expected) in cases {
        write(&path, SCHEMA, &[7, 8], lists);
        let error = all(&path).unwrap_err().to_string();
        for part in ["v.parquet", "column `vector`, row 2", expected, "lists of float32"] {
            assert!(error.contains(part), "`{part}` in: {error}");
        }
    }
    let other = SCHEMA.replace("vector", "v").replace(" id", " number");
    write(&path, &other, &[7], (&[1.0], &[3], &[0]));
    assert!(KeyColumn::find(&path).unwrap().is_none());
    let error = all(&path).unwrap_err().to_string();
    assert!(error.contains("lists in a column `vector` or `embedding`"), "{error}");
}

/// Reads both columns to their ends.
fn read_all(path: &Path) -> Result<(), Error> {
    let mut vectors = VectorColumn::open(path)?;
    while !vectors.block(3)?.is_empty() {}
    if let Some(mut keys) = KeyColumn::find(path)? {
        while keys.next()?.is_some() {}
    }
    Ok(())
}

/// Every byte of a file is changed in turn: it is read, or refused.
#[test]
fn damage_is_no_panic() {
    let whole = fs_err::read(golden()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.parquet");
    let (mut read, mut refused) = (0, 0);
    for at in 0..whole.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            fs_err::write(&path, damaged).unwrap();
            *if read_all(&path).is_ok() {
                &mut read
            } else {
                &mut refused
            } += 1;
        }
    }
    // Some bytes are statistics, which are not used.
    assert!(read > 0 && refused > whole.len(), "{read} read, {refused} refused");
}
