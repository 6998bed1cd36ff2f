//! The first 512 bytes of `dense.dyad`: counts and the section table.

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ALIGN, FormatFault, INT8_VERSIONS, OLDEST_VERSION, RowType, SectionKind, VERSION};
use crate::search::MAX_SLOTS;

/// First bytes of every `dense.dyad`.
pub const MAGIC: [u8; 8] = *b"DYADENSE";
/// Bytes of the header.
pub const HEADER_LEN: usize = 512;
/// Most values per vector: with more, sums of int8 products could overflow 32 bits.
pub const MAX_DIM: u32 = 1 << 16;
/// Entries of the section table.
pub const MAX_SECTIONS: usize = 12;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawEntry {
    kind: U32,
    reserved: U32,
    offset: U64,
    len: U64,
    crc32c: U32,
    reserved_end: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    version: U32,
    dim: U32,
    vectors: U64,
    file_len: U64,
    row_stride: U32,
    sections: U32,
    row_type: U32,
    reserved: [u8; 20],
    table: [RawEntry; MAX_SECTIONS],
    reserved_end: [u8; 60],
    crc32c: U32,
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_LEN);

/// The place of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionEntry {
    /// What the section holds.
    pub kind: SectionKind,
    /// Where the section begins, in bytes from the start of the file.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// CRC-32C of the bytes of the section.
    pub crc32c: u32,
}

/// Counts and the section table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardHeader {
    /// Values per vector.
    pub dim: u32,
    /// Rows.
    pub vectors: u64,
    /// Values per stored row.
    pub row_stride: u32,
    /// Type of the stored values.
    pub row_type: RowType,
    /// Whether some vectors are not nodes of the graph, but copies of one that is.
    pub has_copies: bool,
    /// Bytes of the whole file.
    pub file_len: u64,
    /// The sections in the order of the file; each kind once.
    pub sections: Vec<SectionEntry>,
}

/// A header that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderFault {
    /// Written by a later release.
    Newer(u32),
    /// Damaged, or another kind of file.
    Fault(FormatFault),
}

impl From<FormatFault> for HeaderFault {
    fn from(fault: FormatFault) -> Self {
        Self::Fault(fault)
    }
}

impl ShardHeader {
    fn version(&self) -> u32 {
        let int8 = if self.row_type == RowType::Int8 {
            INT8_VERSIONS
        } else {
            0
        };
        OLDEST_VERSION + u32::from(self.has_copies) + int8
    }

    /// The 512 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let empty = RawEntry {
            kind: 0.into(),
            reserved: 0.into(),
            offset: 0.into(),
            len: 0.into(),
            crc32c: 0.into(),
            reserved_end: 0.into(),
        };
        let mut table = [empty; MAX_SECTIONS];
        for (raw, entry) in table.iter_mut().zip(&self.sections) {
            raw.kind = (entry.kind as u32).into();
            raw.offset = entry.offset.into();
            raw.len = entry.len.into();
            raw.crc32c = entry.crc32c.into();
        }
        let mut raw = RawHeader {
            magic: MAGIC,
            version: self.version().into(),
            dim: self.dim.into(),
            vectors: self.vectors.into(),
            file_len: self.file_len.into(),
            row_stride: self.row_stride.into(),
            sections: (self.sections.len() as u32).into(),
            row_type: (self.row_type as u32).into(),
            reserved: [0; 20],
            table,
            reserved_end: [0; 60],
            crc32c: 0.into(),
        };
        let body = HEADER_LEN - size_of::<U32>();
        let checksum = raw.as_bytes().get(..body).map_or(0, crc32c::crc32c);
        raw.crc32c = checksum.into();
        raw.as_bytes().to_vec()
    }

    /// Reads and checks the header of a file of `file_len` bytes: magic, version, checksum, and that all sections are
    /// inside the file, aligned, one after another.
    pub fn parse(bytes: &[u8], file_len: u64) -> Result<Self, HeaderFault> {
        let Ok((raw, _)) = RawHeader::ref_from_prefix(bytes) else {
            return Err(FormatFault::new(
                "header",
                format!("{HEADER_LEN} bytes"),
                format!("{} bytes", bytes.len()),
            )
            .into());
        };
        if raw.magic != MAGIC {
            let got = raw.magic.escape_ascii().to_string();
            return Err(FormatFault::new("magic", format!("`{}`", MAGIC.escape_ascii()), format!("`{got}`")).into());
        }
        if raw.version.get() > VERSION {
            return Err(HeaderFault::Newer(raw.version.get()));
        }
        let checksum = bytes.get(..HEADER_LEN - size_of::<U32>()).map_or(0, crc32c::crc32c);
        if raw.crc32c.get() != checksum {
            let (expected, got) = (format!("checksum {:08x}", raw.crc32c.get()), format!("{checksum:08x}"));
            return Err(FormatFault::new("header", expected, got).into());
        }
        if raw.file_len.get() != file_len {
            return Err(FormatFault::new("file_len", raw.file_len.get(), format!("a file of {file_len} bytes")).into());
        }
        if raw.version.get() < OLDEST_VERSION {
            let got = format!(
                "version {}, from an older release: build the index again",
                raw.version.get()
            );
            return Err(FormatFault::new("version", VERSION, got).into());
        }
        let row_type = RowType::from_number(raw.row_type.get())
            .ok_or_else(|| FormatFault::new("row_type", "0 (f32), 1 (f16) or 2 (int8)", raw.row_type))?;
        let header = Self {
            row_type,
            dim: raw.dim.get(),
            vectors: raw.vectors.get(),
            row_stride: raw.row_stride.get(),
            has_copies: (raw.version.get() - OLDEST_VERSION) % INT8_VERSIONS == 1,
            file_len,
            sections: Self::parse_table(raw, file_len)?,
        };
        if header.version() != raw.version.get() {
            let expected = format!("{}, of a shard with rows of {}", header.version(), row_type.name());
            return Err(FormatFault::new("version", expected, raw.version).into());
        }
        let stride = row_type.stride(header.dim as usize);
        if header.dim == 0 || header.dim > MAX_DIM {
            return Err(FormatFault::new("dim", format!("1..={MAX_DIM}"), header.dim).into());
        }
        if header.row_stride as usize != stride {
            return Err(FormatFault::new("row_stride", stride, header.row_stride).into());
        }
        if header.vectors >= MAX_SLOTS as u64 {
            return Err(FormatFault::new("vectors", format!("fewer than {MAX_SLOTS}"), header.vectors).into());
        }
        Ok(header)
    }

    fn parse_table(raw: &RawHeader, file_len: u64) -> Result<Vec<SectionEntry>, FormatFault> {
        let count = raw.sections.get() as usize;
        let table = raw
            .table
            .get(..count)
            .ok_or_else(|| FormatFault::new("sections", format!("at most {MAX_SECTIONS}"), count))?;
        let mut sections: Vec<SectionEntry> = Vec::with_capacity(count);
        let mut end = HEADER_LEN as u64;
        for entry in table {
            let kind = SectionKind::ALL
                .into_iter()
                .find(|kind| *kind as u32 == entry.kind.get());
            let kind = kind
                .ok_or_else(|| FormatFault::new("section table", "a known section", format!("kind {}", entry.kind)))?;
            let (offset, len) = (entry.offset.get(), entry.len.get());
            let inside = offset
                .checked_add(len)
                .filter(|stop| *stop <= file_len && offset >= end && offset % ALIGN == 0);
            let Some(stop) = inside else {
                return Err(FormatFault::new(
                    kind.name(),
                    format!("a range within {end}..{file_len}, aligned to {ALIGN}"),
                    format!("{offset}+{len}"),
                ));
            };
            if sections.iter().any(|known| known.kind == kind) {
                return Err(FormatFault::new(kind.name(), "one section", "a second one"));
            }
            end = stop;
            sections.push(SectionEntry {
                kind,
                offset,
                len,
                crc32c: entry.crc32c.get(),
            });
        }
        match SectionKind::ALL
            .into_iter()
            .find(|kind| sections.iter().all(|entry| entry.kind != *kind))
        {
            Some(missing) => Err(FormatFault::new(
                "section table",
                format!("a section {}", missing.name()),
                "none",
            )),
            None => Ok(sections),
        }
    }

    /// The place of a section; every kind is there once the header has been parsed.
    pub fn section(&self, kind: SectionKind) -> Option<&SectionEntry> {
        self.sections.iter().find(|entry| entry.kind == kind)
    }
}
