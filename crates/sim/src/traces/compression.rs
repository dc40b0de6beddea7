//! Reading compressed files.

use std::io::{self, BufReader, Read};

use lzma_rust2::XzReader;

use super::faults::{TraceError, TraceFault, TraceName, TracePosition};

/// The most memory that the unpacking of an xz file may take. The output of `xz -9` needs 65 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 256 << 10;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip, `.gz`.
    Gzip,
    /// zstandard, `.zst`.
    Zstd,
    /// `.xz`.
    Xz,
}

impl Compression {
    /// The compression that the ending of a file's name tells.
    pub fn of_name(name: &str) -> Compression {
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            Some("xz") => Compression::Xz,
            _ => Compression::Plain,
        }
    }

    /// The name without the ending of the compression.
    pub(crate) fn stem_of(self, name: &str) -> &str {
        match self {
            Compression::Plain => name,
            _ => name.rsplit_once('.').map_or(name, |(stem, _)| stem),
        }
    }
}

/// Unpacks `bytes`, which are compressed as the source's name says.
pub(super) fn reader(
    source: &TraceName,
    bytes: impl Read + 'static,
) -> Result<Box<dyn Read>, TraceError> {
    let unreadable = |cause| source.wrong(TracePosition::Byte(0), TraceFault::Unreadable(cause));
    match Compression::of_name(&source.0) {
        Compression::Plain => Ok(Box::new(bytes)),
        Compression::Gzip => Ok(Box::new(flate2::read::MultiGzDecoder::new(bytes))),
        Compression::Zstd => ruzstd::decoding::StreamingDecoder::new(BufReader::new(bytes))
            .map(|plain| Box::new(plain) as Box<dyn Read>)
            .map_err(|cause| unreadable(io::Error::other(cause))),
        Compression::Xz => {
            let bytes = BufReader::new(bytes);
            // Files that were compressed one by one and then joined count as one file, as they do for `xz`.
            let plain = XzReader::new_mem_limit(bytes, true, XZ_MEMORY_KIB_MAX);
            Ok(Box::new(plain))
        }
    }
}
