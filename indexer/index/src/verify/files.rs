//! Files against the lengths and checksums of a manifest.

use std::path::Path;

use dyad_files::crc32c_of_file_until;

use super::findings::Findings;
use crate::manifest::FileEntry;
use dyad_files::Cancel;

/// The same as [`check_file`] for all files of a directory.
pub(super) fn check_files(dir: &Path, files: &[FileEntry], cancel: &dyn Cancel, findings: &mut Findings) -> bool {
    let intact = files
        .iter()
        .filter(|file| check_file(dir, file, cancel, findings))
        .count();
    intact == files.len()
}

/// Length and checksum of a file against the manifest; says whether they hold.
pub(super) fn check_file(dir: &Path, file: &FileEntry, cancel: &dyn Cancel, findings: &mut Findings) -> bool {
    let path = dir.join(&file.path);
    let (bytes, crc32c) = match crc32c_of_file_until(&path, cancel) {
        Ok(Some(read)) => read,
        Ok(None) => {
            findings.stopped = true;
            return false;
        }
        Err(error) => {
            findings.failed(&error.into());
            return false;
        }
    };
    findings.files += 1;
    findings.bytes += bytes;
    if bytes != file.bytes {
        findings.differ(
            &path,
            "length",
            &format!("{} bytes", file.bytes),
            &format!("{bytes} bytes"),
        );
        return false;
    }
    if crc32c != file.crc32c {
        findings.differ(
            &path,
            "checksum of the file",
            &format!("{:08x}", file.crc32c),
            &format!("{crc32c:08x}"),
        );
        return false;
    }
    true
}
