//! Looking through a file's packing.

use std::io::{self, BufReader, Read, Write};

use super::faults::{Fault, Place, Source, TraceError, UNPACKED_MAX};

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
    pub fn stem_of(self, name: &str) -> &str {
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
        Packing::Xz => unxz(source, bytes),
    }
}

/// What could be unpacked, then the error that ended it, if one did.
fn unxz(source: &Source, bytes: impl Read) -> Result<Box<dyn Read>, TraceError> {
    let mut plain = Bounded::default();
    let unpacked = lzma_rs::xz_decompress(&mut BufReader::new(bytes), &mut plain);
    if plain.is_full {
        return Err(source.wrong(Place::Byte(UNPACKED_MAX as u64), Fault::TooLarge));
    }
    let rest = Ending(unpacked.err().map(io::Error::other));
    Ok(Box::new(io::Cursor::new(plain.bytes).chain(rest)))
}

/// Memory that takes no more than [`UNPACKED_MAX`] bytes.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    is_full: bool,
}

impl Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + more.len() > UNPACKED_MAX {
            self.is_full = true;
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The end of a file: an error once, where unpacking it failed.
struct Ending(Option<io::Error>);

impl Read for Ending {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
