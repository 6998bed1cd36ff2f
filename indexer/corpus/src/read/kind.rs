//! What a file is by its first bytes, where it is nothing that can be read as text: named, with the command that mends
//! it.

/// A kind of file that is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForeignKind {
    /// What the file is.
    pub(crate) what: &'static str,
    /// The command or option that helps.
    pub(crate) fix: &'static str,
}

const PARQUET: ForeignKind = kind(
    "a Parquet file",
    "A corpus is read as one by its name .parquet, or with `--format parquet`; training examples have to be JSON",
);
const BZIP2: ForeignKind = kind(
    "compressed with bzip2",
    "Compress it otherwise: `bunzip2 -c FILE | zstd > NEW.jsonl.zst`",
);
const TAR: ForeignKind = kind("a tar archive", "Take the file out: `tar -xOf FILE MEMBER > NEW.jsonl`");

/// Kinds by their first bytes, with which no text begins.
const KINDS: [(&[u8], ForeignKind); 11] = [
    (
        b"PK\x03\x04",
        kind("a ZIP archive", "Take the file out: `unzip -p FILE > NEW.jsonl`"),
    ),
    (
        b"\xfd7zX",
        kind(
            "compressed with xz",
            "Compress it otherwise: `xz -dc FILE | zstd > NEW.jsonl.zst`",
        ),
    ),
    (
        b"\x04\x22\x4d\x18",
        kind(
            "compressed with LZ4",
            "Compress it otherwise: `lz4 -dc FILE | zstd > NEW.jsonl.zst`",
        ),
    ),
    (
        b"\x1f\x9d",
        kind(
            "compressed with compress",
            "Compress it otherwise: `gzip -dc FILE | zstd > NEW.jsonl.zst`",
        ),
    ),
    (
        b"\x1f\xa0",
        kind(
            "compressed with SCO compress",
            "Compress it otherwise: `gzip -dc FILE | zstd > NEW.jsonl.zst`",
        ),
    ),
    (
        b"ARROW1\0\0",
        kind(
            "an Arrow file",
            "Write it as Parquet: `pyarrow.parquet.write_table(pyarrow.feather.read_table(FILE), NEW)`",
        ),
    ),
    (b"Obj\x01", kind("an Avro file", "Write it as Parquet or JSON Lines")),
    (
        b"\x93NUM",
        kind("an array of NumPy", "Documents are texts: give it to `--vectors`"),
    ),
    (
        b"\xff\xfe\0\0",
        kind("UTF-32, not UTF-8", "Convert it: `iconv -f UTF-32 -t UTF-8 FILE > NEW`"),
    ),
    (
        b"\xff\xfe",
        kind("UTF-16, not UTF-8", "Convert it: `iconv -f UTF-16 -t UTF-8 FILE > NEW`"),
    ),
    (
        b"\xfe\xff",
        kind("UTF-16, not UTF-8", "Convert it: `iconv -f UTF-16 -t UTF-8 FILE > NEW`"),
    ),
];

/// How a block, and the end of a file without any, begin.
const BZIP2_BLOCKS: [&[u8]; 2] = [b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"];
const LITTLE_ENDIAN: ForeignKind = kind(
    "UTF-16, not UTF-8",
    "Convert it: `iconv -f UTF-16LE -t UTF-8 FILE > NEW`",
);
const BIG_ENDIAN: ForeignKind = kind(
    "UTF-16, not UTF-8",
    "Convert it: `iconv -f UTF-16BE -t UTF-8 FILE > NEW`",
);
const WIDE: ForeignKind = kind("UTF-32, not UTF-8", "Convert it: `iconv -f UTF-32 -t UTF-8 FILE > NEW`");

const fn kind(what: &'static str, fix: &'static str) -> ForeignKind {
    ForeignKind { what, fix }
}

/// Bytes that [`foreign`] looks at.
pub(crate) const HEAD_BYTES: usize = 264;

/// The kind of a file that begins with these bytes; nothing where it may be text.
pub(crate) fn foreign(head: &[u8]) -> Option<ForeignKind> {
    if let Some((_, kind)) = KINDS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Some(*kind);
    }
    if head.get(257..262) == Some(b"ustar") {
        return Some(TAR);
    }
    match head {
        // Text could begin with these names.
        [b'P', b'A', b'R', b'1', next, ..] if next.is_ascii_control() && !next.is_ascii_whitespace() => Some(PARQUET),
        [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..] if BZIP2_BLOCKS.iter().any(|block| rest.starts_with(block)) => {
            Some(BZIP2)
        }
        [0, 0, 0, next, ..] if *next != 0 => Some(WIDE),
        [first, 0, 0, 0, ..] if *first != 0 => Some(WIDE),
        [0, first, 0, second, ..] if *first != 0 && *second != 0 => Some(BIG_ENDIAN),
        [first, 0, second, 0, ..] if *first != 0 && *second != 0 => Some(LITTLE_ENDIAN),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text_and_what_is_none_is_named() {
        for text in [
            &b"{\"_i"[..],
            b"id\tt",
            b"\xef\xbb\xbf{",
            b"",
            b"a",
            b"\xe4\xb8\xadx",
            b"vers",
            b"PAR10\tt",
            b"BZhang1\tt",
            b"ARROW-1\n",
            b"a\0b\n",
        ] {
            assert_eq!(foreign(text), None, "{text:?}");
        }
        let of = |head: &[u8]| foreign(head).map_or("", |kind| kind.what);
        for (head, what) in [
            (&b"BZh91AY&SY"[..], "bzip2"),
            (b"ARROW1\0\0", "Arrow"),
            (b"\xff\xfe{\0", "UTF-16"),
            (b"\xff\xfe\0\0", "UTF-32"),
            (b"{\0\"\0", "UTF-16"),
            (b"\0{\0\"", "UTF-16"),
            (b"{\0\0\0", "UTF-32"),
            (b"PAR1\x15\x04", "Parquet"),
        ] {
            assert!(of(head).contains(what), "{head:?}: {}", of(head));
        }
    }
}
