//! Looking through a file's packing.

use std::io::{self, BufReader, Read};

use lzma_rust2::XzReader;

use super::faults::{Fault, Place, Source, TraceError};

/// The most memory that unpacking an xz file may take: what `xz -9` makes needs 65 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 256 << 10;

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    Plain,
    /// gzip, `.gz`.
    Gzip,
    /// zstandard, `.zst`.
    Zstd,
    /// `.xz`.
    Xz,
}

impl Packing {
    /// By the ending of its name.
    pub fn of_name(name: &str) -> Packing {
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("gz") => Packing::Gzip,
            Some("zst") => Packing::Zstd,
            Some("xz") => Packing::Xz,
            _ => Packing::Plain,
        }
    }

    /// The name without the packing's ending.
    pub(crate) fn stem_of(self, name: &str) -> &str {
        match self {
            Packing::Plain => name,
            _ => name.rsplit_once('.').map_or(name, |(stem, _)| stem),
        }
    }
}

/// The plain bytes of `bytes`, which are packed as the source's name says.
pub(super) fn reader(
    source: &Source,
    bytes: impl Read + 'static,
) -> Result<Box<dyn Read>, TraceError> {
    let unreadable = |cause| source.wrong(Place::Byte(0), Fault::Unreadable(cause));
    match Packing::of_name(&source.0) {
        Packing::Plain => Ok(Box::new(bytes)),
        Packing::Gzip => Ok(Box::new(flate2::read::MultiGzDecoder::new(bytes))),
        Packing::Zstd => ruzstd::decoding::StreamingDecoder::new(BufReader::new(bytes))
            .map(|plain| Box::new(plain) as Box<dyn Read>)
            .map_err(|cause| unreadable(io::Error::other(cause))),
        Packing::Xz => {
            let bytes = BufReader::new(bytes);
            // Files that were packed one by one and put together are one file, as to `xz`.
            let plain = XzReader::new_mem_limit(bytes, true, XZ_MEMORY_KIB_MAX);
            Ok(Box::new(plain))
        }
    }
}
