//! The questions by which a shard was measured after it was built, and what they have shown.
//!
//! `calibrations/GGGGGG-<shard id>/` is written once, for generation G, so that the shard itself never changes:
//!
//! | file | contents |
//! |---|---|
//! | `certificate.json` | recall and margins by these questions |
//! | `ground-truth.dyad` | the questions and their exact nearest nodes: see [`crate::ground_truth`] |
//!
//! The manifest has length and checksum of both. Where documents of the shard are deleted too, their file has the
//! certificate that counts.

use std::path::{Path, PathBuf};

use crate::certificate::Certificate;
use crate::deletions::DAMAGED_CHANGE;
use crate::error::{Error, Result};
use crate::ground_truth::{GROUND_TRUTH_FILE, GroundTruth};
use crate::manifest::{CALIBRATIONS_DIR, CalibrationEntry, FileEntry};

/// Name of the certificate's file inside a calibration's directory.
pub const CERTIFICATE_FILE: &str = "certificate.json";

/// What a shard was measured by after it was built.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    dir: PathBuf,
    /// Recall and margins by these questions, among the documents that were left then.
    pub certificate: Certificate,
}

impl Calibration {
    /// Opens the calibration of a shard, and compares lengths and the certificate's checksum with the manifest's.
    pub fn open(index: &Path, entry: &CalibrationEntry) -> Result<Self> {
        let dir = index.join(CALIBRATIONS_DIR).join(&entry.id);
        for name in [CERTIFICATE_FILE, GROUND_TRUTH_FILE] {
            let file = file_of(entry, &dir, name)?;
            let path = dir.join(name);
            let got = fs_err::metadata(&path)?.len();
            if got != file.bytes {
                return Err(damaged(path, "length", file.bytes.to_string(), got.to_string()));
            }
        }
        let certificate = read_certificate(&dir, file_of(entry, &dir, CERTIFICATE_FILE)?)?;
        if certificate.queries != entry.questions {
            let (expected, got) = (entry.questions.to_string(), certificate.queries.to_string());
            return Err(damaged(dir.join(CERTIFICATE_FILE), "queries", expected, got));
        }
        Ok(Self { dir, certificate })
    }

    /// Writes both files into a new directory and makes their bytes durable; the caller makes their names durable.
    pub fn write(dir: &Path, certificate: &Certificate, ground_truth: &GroundTruth) -> Result<()> {
        if !certificate.is_finite() {
            let (expected, got) = ("finite numbers".to_owned(), format!("{certificate:?}"));
            return Err(Error::Mismatch {
                what: "certificate of a calibration",
                expected,
                got,
            });
        }
        let json = serde_json::to_vec_pretty(certificate).map_err(std::io::Error::from)?;
        dyad_files::write_atomic(&dir.join(CERTIFICATE_FILE), &json)?;
        ground_truth.write(&dir.join(GROUND_TRUTH_FILE))
    }

    /// The file of the questions.
    pub fn ground_truth_path(&self) -> PathBuf {
        self.dir.join(GROUND_TRUTH_FILE)
    }
}

fn damaged(path: PathBuf, part: &str, expected: String, got: String) -> Error {
    Error::Format {
        path,
        part: part.to_owned(),
        expected,
        got,
        hint: DAMAGED_CHANGE,
    }
}

/// What the manifest says of a file.
fn file_of<'a>(entry: &'a CalibrationEntry, dir: &Path, name: &str) -> Result<&'a FileEntry> {
    let found = entry.files.iter().find(|file| file.path == name);
    found.ok_or_else(|| {
        let named: Vec<&str> = entry.files.iter().map(|file| file.path.as_str()).collect();
        damaged(
            dir.to_owned(),
            "files in the manifest",
            name.to_owned(),
            named.join(", "),
        )
    })
}

fn read_certificate(dir: &Path, file: &FileEntry) -> Result<Certificate> {
    let path = dir.join(&file.path);
    let bytes = fs_err::read(&path)?;
    let checksum = crc32c::crc32c(&bytes);
    if checksum != file.crc32c {
        let (expected, got) = (format!("{:08x}", file.crc32c), format!("{checksum:08x}"));
        return Err(damaged(path, "checksum", expected, got));
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| damaged(path, "content", "a certificate".to_owned(), error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground_truth::CertificateQuestions;

    #[test]
    fn what_is_written_is_read_and_damage_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join(CALIBRATIONS_DIR).join("c");
        fs_err::create_dir_all(&place).unwrap();
        let certificate = Certificate {
            vectors: 5,
            queries: 2,
            ..Certificate::default()
        };
        let questions = CertificateQuestions::Vectors {
            dim: 2,
            values: vec![1.0, 0.0, 0.0, 1.0],
        };
        let truth = GroundTruth {
            questions,
            neighbours: vec![1, 2, 3, 4],
            nodes: 5,
        };
        Calibration::write(&place, &certificate, &truth).unwrap();
        let file = |name: &str| {
            let bytes = fs_err::read(place.join(name)).unwrap();
            FileEntry {
                path: name.into(),
                bytes: bytes.len() as u64,
                crc32c: crc32c::crc32c(&bytes),
            }
        };
        let files = vec![file(CERTIFICATE_FILE), file(GROUND_TRUTH_FILE)];
        let entry = CalibrationEntry {
            id: "c".into(),
            questions: 2,
            files,
        };
        let read = Calibration::open(dir.path(), &entry).unwrap();
        assert_eq!(read.certificate, certificate);
        assert_eq!(GroundTruth::open(&read.ground_truth_path(), 2, 5).unwrap(), truth);

        let refused = |entry: CalibrationEntry, part: &str| {
            let error = Calibration::open(dir.path(), &entry).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("calibrations/c"), "{error}");
        };
        refused(
            CalibrationEntry {
                questions: 3,
                ..entry.clone()
            },
            "queries",
        );
        refused(
            CalibrationEntry {
                files: entry.files[..1].to_vec(),
                ..entry.clone()
            },
            GROUND_TRUTH_FILE,
        );
        let mut changed = entry.clone();
        changed.files[0].crc32c ^= 1;
        refused(changed, "checksum");
        let mut changed = entry;
        changed.files[1].bytes += 1;
        refused(changed, "length");
    }
}
