//! The header of a safetensors file: names, number types and shapes of its tensors, without the tensors.

use std::io::{Read, Seek};
use std::path::Path;

use dyad_files::is_lfs_pointer;
use fs_err::File;
use safetensors::tensor::Metadata;

use crate::error::Error;

/// Bytes of a header at most, as the format's own reader has it.
const LONGEST_HEADER: u64 = 100_000_000;
/// The first field of a safetensors file: the header's length as a little-endian `u64`.
const LENGTH_BYTES: u64 = 8;
/// A Git LFS pointer has fewer bytes (its specification).
const LONGEST_POINTER: u64 = 1024;

/// The header of a safetensors file and where its data begin; the file is as long as the header says.
pub(crate) fn weights_header(path: &Path, file: &mut File) -> Result<(Metadata, u64), Error> {
    let file_bytes = file.metadata()?.len();
    let broken = |reason: String| Error::Weights {
        path: path.to_owned(),
        reason,
    };
    let mut length = [0; LENGTH_BYTES as usize];
    if file_bytes <= LONGEST_POINTER {
        let mut whole = Vec::new();
        file.read_to_end(&mut whole)?;
        if is_lfs_pointer(&whole) {
            return Err(Error::LfsPointer { path: path.to_owned() });
        }
        file.rewind()?;
    }
    if file_bytes < LENGTH_BYTES {
        return Err(broken(format!("it has {file_bytes} bytes")));
    }
    file.read_exact(&mut length)?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > file_bytes - LENGTH_BYTES {
        return Err(broken(format!(
            "its header should have {header_bytes} bytes, the file has {file_bytes}"
        )));
    }
    if header_bytes > LONGEST_HEADER {
        return Err(broken(format!(
            "its header should have {header_bytes} bytes, and none has over {LONGEST_HEADER}"
        )));
    }
    let mut header = vec![0; header_bytes as usize];
    file.read_exact(&mut header)?;
    let metadata: Metadata =
        serde_json::from_slice(&header).map_err(|error| broken(format!("its header cannot be read: {error}")))?;
    let data = LENGTH_BYTES + header_bytes;
    let expected = data.saturating_add(metadata.data_len() as u64);
    if expected != file_bytes {
        return Err(broken(format!("it should have {expected} bytes, it has {file_bytes}")));
    }
    Ok((metadata, data))
}
