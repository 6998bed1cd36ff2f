//! Certificates for tests: CAs, and what they have signed.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// A CA.
pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// PEM files of a certificate and its key.
pub(crate) struct Signed {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// The CA's own certificate in a file.
    pub(crate) fn file(&self, folder: &TempDir, name: &str) -> PathBuf {
        write(folder.path(), name, &self.pem)
    }

    /// A certificate for this machine, valid now.
    pub(crate) fn sign(&self, folder: &TempDir, name: &str) -> Signed {
        self.sign_until(folder, name, 2099)
    }

    /// A certificate for this machine that ends with a year.
    pub(crate) fn sign_until(&self, folder: &TempDir, name: &str, year: i32) -> Signed {
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(year, 12, 31);
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Signed {
            cert: write(folder.path(), &format!("{name}.cert"), &cert),
            key: write(folder.path(), &format!("{name}.key"), &key.serialize_pem()),
        }
    }
}

/// Replaces a file, as a deployment does.
fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    let new = folder.join(format!("{name}.new"));
    fs_err::write(&new, text).unwrap();
    fs_err::rename(&new, &path).unwrap();
    path
}
