//! PEM as people have it: with a byte order mark, with text around it, or under an older label.

use std::path::Path;

use pem::Pem;
use rustls::pki_types::CertificateDer;

use crate::read::read;
use crate::{CredentialError, FileContent};

/// The labels of certificates. Older versions of OpenSSL wrote the second.
const CERTIFICATE_LABELS: [&str; 2] = ["CERTIFICATE", "X509 CERTIFICATE"];

/// The largest file that is read, in bytes. It exceeds every collection of certificates.
const FILE_BYTES_MAX: u64 = 16 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The blocks of a file, and a description of the file for the error if none of them will do.
pub(crate) struct PemBlocks {
    pub(crate) all: Vec<Pem>,
    pub(crate) found: FileContent,
}

pub(crate) fn blocks(path: &Path) -> Result<PemBlocks, CredentialError> {
    let bytes = read(path, FILE_BYTES_MAX).map_err(|source| CredentialError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    let all = pem::parse_many(text).map_err(|source| CredentialError::Damaged {
        path: path.to_owned(),
        source,
    })?;
    let found = match all.is_empty() {
        true => without_blocks(text),
        false => FileContent::Blocks(all.iter().map(|block| block.tag().to_owned()).collect()),
    };
    Ok(PemBlocks { all, found })
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    certificates_in(blocks(path)?, path)
}

/// Returns the certificates among the blocks of that file.
pub(crate) fn certificates_in(
    blocks: PemBlocks,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    let PemBlocks { all, found } = blocks;
    let certificates: Vec<_> = all
        .into_iter()
        .filter(|block| CERTIFICATE_LABELS.contains(&block.tag()))
        .map(|block| CertificateDer::from(block.into_contents()))
        .collect();
    match certificates.is_empty() {
        true => Err(CredentialError::NoCertificate {
            path: path.to_owned(),
            found,
        }),
        false => Ok(certificates),
    }
}

fn without_blocks(bytes: &[u8]) -> FileContent {
    let has = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    match bytes {
        [] => FileContent::Nothing,
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => FileContent::Utf16,
        // The bytes begin with a sequence whose length takes more than one byte.
        [0x30, 0x81..=0x84, ..] => FileContent::Der,
        _ if has(b"-----BEGIN ") => FileContent::Unended,
        _ => FileContent::OtherText,
    }
}
