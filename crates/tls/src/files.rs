//! PEM as people have it: with a byte order mark, with text around it, under an older label.

use std::path::Path;

use pem::Pem;
use rustls::pki_types::CertificateDer;

use crate::read::read;
use crate::{Fault, Found};

/// Labels of certificates; the second is what OpenSSL once wrote.
const CERTIFICATE_LABELS: [&str; 2] = ["CERTIFICATE", "X509 CERTIFICATE"];

/// More than any collection of certificates takes.
const FILE_BYTES_MAX: u64 = 16 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file's blocks, and what to call the file if none will do.
pub(crate) struct Blocks {
    pub(crate) all: Vec<Pem>,
    pub(crate) found: Found,
}

pub(crate) fn blocks(path: &Path) -> Result<Blocks, Fault> {
    let bytes = read(path, FILE_BYTES_MAX).map_err(|source| Fault::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    let all = pem::parse_many(text).map_err(|source| Fault::Damaged {
        path: path.to_owned(),
        source,
    })?;
    let found = match all.is_empty() {
        true => without_blocks(text),
        false => Found::Blocks(all.iter().map(|block| block.tag().to_owned()).collect()),
    };
    Ok(Blocks { all, found })
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    certificates_in(blocks(path)?, path)
}

/// The certificates among what was read from that file.
pub(crate) fn certificates_in(
    blocks: Blocks,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let Blocks { all, found } = blocks;
    let certificates: Vec<_> = all
        .into_iter()
        .filter(|block| CERTIFICATE_LABELS.contains(&block.tag()))
        .map(|block| CertificateDer::from(block.into_contents()))
        .collect();
    match certificates.is_empty() {
        true => Err(Fault::NoCertificate {
            path: path.to_owned(),
            found,
        }),
        false => Ok(certificates),
    }
}

fn without_blocks(bytes: &[u8]) -> Found {
    let has = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    match bytes {
        [] => Found::Nothing,
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Found::Utf16,
        // A sequence whose length takes more than a byte.
        [0x30, 0x81..=0x84, ..] => Found::Der,
        _ if has(b"-----BEGIN ") => Found::Unended,
        _ => Found::OtherText,
    }
}
