//! Inputs of a job: cut into slices, fetched into files.

use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use dyad_corpus::CorpusFormat;
use dyad_store::{Object, RemoteStore};
use xxhash_rust::xxh3::Xxh3;

use super::place::JobPlace;
use super::record::Slice;
use crate::error::Error;
use crate::job_error::BulkJobError;

/// Bytes that are read to find the end of a line.
const LINE_PIECE: u64 = 64 << 10;
/// First bytes of packed files (RFC 1952, RFC 8878).
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const ETAG: &str = "etag:";
const XXH3: &str = "xxh3:";

/// Refuses files that are a document each, by the format or by names: the path of one is its key.
pub(super) fn refuse_texts(objects: &[Object], format: CorpusFormat) -> Result<(), BulkJobError> {
    let is_one_document = |object: &&Object| {
        let format = format.of_file(Path::new(&object.name));
        format.is_some_and(CorpusFormat::is_one_document)
    };
    let text = objects.iter().find(is_one_document);
    text.map_or(Ok(()), |object| {
        Err(BulkJobError::TextInput {
            name: object.name.clone(),
        })
    })
}

/// Whether an input can be cut between lines, by its name.
pub(super) fn can_be_cut(name: &str, format: CorpusFormat) -> bool {
    format.can_be_cut(Path::new(name))
}

/// Slices of an input, each of `bytes` or a line more.
pub(super) fn cut(
    place: &JobPlace<'_>,
    input: &RemoteStore,
    object: &Object,
    format: CorpusFormat,
    bytes: u64,
) -> Result<Vec<Slice>, Error> {
    let mut ends = Vec::new();
    if can_be_cut(&object.name, format) && !is_packed(place, input, object)? {
        let mut at = bytes;
        while at < object.bytes {
            at = line_end(place, input, object, at)?;
            ends.push(at);
            at += bytes;
        }
    }
    ends.push(object.bytes);
    ends.dedup();
    let mut first = 0;
    let mut slices = Vec::with_capacity(ends.len());
    for end in ends {
        if end > first {
            let version = version(place, input, object, first..end)?;
            slices.push(Slice {
                name: object.name.clone(),
                first,
                bytes: end - first,
                version,
            });
        }
        first = end;
    }
    Ok(slices)
}

/// The first slice that [`cut`] gives, without what follows it.
pub(super) fn first_slice(
    place: &JobPlace<'_>,
    input: &RemoteStore,
    object: &Object,
    format: CorpusFormat,
    bytes: u64,
) -> Result<Slice, Error> {
    let is_cut = bytes < object.bytes && can_be_cut(&object.name, format) && !is_packed(place, input, object)?;
    let end = if is_cut {
        line_end(place, input, object, bytes)?
    } else {
        object.bytes
    };
    let version = version(place, input, object, 0..end)?;
    Ok(Slice {
        name: object.name.clone(),
        first: 0,
        bytes: end,
        version,
    })
}

/// Whether an input is gzip or Zstandard, whatever its name says.
fn is_packed(place: &JobPlace<'_>, input: &RemoteStore, object: &Object) -> Result<bool, Error> {
    let mut start = Vec::new();
    let mut sink = |piece: &[u8]| {
        start.extend_from_slice(piece);
        Ok(())
    };
    place.wait(input.read_range(&object.name, 0..object.bytes.min(4), None, place.cancel, &mut sink))?;
    Ok(start.starts_with(&GZIP) || start.starts_with(&ZSTANDARD))
}

/// The end of the line that byte `at` is in.
fn line_end(place: &JobPlace<'_>, input: &RemoteStore, object: &Object, mut at: u64) -> Result<u64, Error> {
    while at < object.bytes {
        let range = at..(at + LINE_PIECE).min(object.bytes);
        let mut found = None;
        let mut seen = 0;
        let mut sink = |piece: &[u8]| {
            found = found.or_else(|| {
                piece
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .map(|end| at + seen + end as u64 + 1)
            });
            seen += piece.len() as u64;
            Ok(())
        };
        place.wait(input.read_range(&object.name, range.clone(), None, place.cancel, &mut sink))?;
        match found {
            Some(end) => return Ok(end),
            None => at = range.end,
        }
    }
    Ok(object.bytes)
}

fn version(place: &JobPlace<'_>, input: &RemoteStore, object: &Object, range: Range<u64>) -> Result<String, Error> {
    if let Some(etag) = object.version.as_ref().filter(|_| !input.is_directory()) {
        return Ok(format!("{ETAG}{etag}"));
    }
    // The version of a file tells its place on a disk, not its content.
    let mut digest = Xxh3::new();
    let mut sink = |piece: &[u8]| {
        digest.update(piece);
        Ok(())
    };
    place.wait(input.read_range(&object.name, range, None, place.cancel, &mut sink))?;
    Ok(format!("{XXH3}{:032x}", digest.digest128()))
}

/// Fetches a slice into a directory, as a file of the input's own name; refused where it is not what was planned.
pub(super) fn fetch(place: &JobPlace<'_>, input: &RemoteStore, slice: &Slice, to: &Path) -> Result<PathBuf, Error> {
    let path = to.join(slice.name.rsplit('/').next().unwrap_or(&slice.name));
    fs_err::create_dir_all(to)?;
    let mut out = fs_err::File::create(&path)?;
    let mut digest = Xxh3::new();
    let mut sink = |piece: &[u8]| {
        digest.update(piece);
        out.write_all(piece)
    };
    let range = slice.first..slice.first.saturating_add(slice.bytes);
    let etag = slice.version.strip_prefix(ETAG);
    place.wait(input.read_range(&slice.name, range, etag, place.cancel, &mut sink))?;
    let got = format!("{XXH3}{:032x}", digest.digest128());
    if etag.is_none() && slice.version != got {
        let (url, path, expected) = (input.url().to_owned(), slice.name.clone(), slice.version.clone());
        return Err(dyad_store::Error::Changed {
            url,
            path,
            expected,
            got,
        }
        .into());
    }
    Ok(path)
}
