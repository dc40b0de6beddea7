//! What a request's header says, and whether its buffers fit it: bytes in, a decision out.

use crate::block::{Fault, REQUEST_BYTES_MAX, SECTOR_BYTES, Shape};

/// Bytes of a request's header.
pub const HEADER_BYTES: u64 = 16;

/// Bytes of one range of a discard or a write of zeroes.
pub const RANGE_BYTES: u64 = 16;

/// Bytes of a disk's name as [`Asked::Name`] gives it.
pub(crate) const NAME_BYTES: usize = 20;

/// The most sectors of one discard: 2 GiB.
pub(crate) const DISCARD_SECTORS_MAX: u32 = 4 << 20;

/// The most sectors of one write of zeroes: it may take as long as a write.
pub(crate) const ZEROES_SECTORS_MAX: u32 = REQUEST_BYTES_MAX / SECTOR_BYTES as u32;

const UNMAP: u32 = 1;

/// How a request ended, as the guest's driver reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Carried out.
    Ok = 0,
    /// Failed, or made no sense.
    IoErr = 1,
    /// Not by this device.
    Unsupp = 2,
}

impl Status {
    /// What a disk's fault is called in this protocol.
    pub fn of(fault: Fault) -> Status {
        match fault {
            Fault::NotSupported => Status::Unsupp,
            Fault::OutOfRange | Fault::ReadOnly | Fault::NoSpace | Fault::Io | Fault::Leaving => {
                Status::IoErr
            }
        }
    }
}

/// What is asked. Ranges lie on the disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Fills what is writable.
    Read {
        /// From here.
        at: u64,
        /// So many bytes.
        len: u32,
    },
    /// Writes what is readable after the header.
    Write {
        /// To here.
        at: u64,
        /// So many bytes.
        len: u32,
    },
    /// Makes what was answered last.
    Flush,
    /// The disk's name, or as much of it as has room.
    Name,
    /// A range that nobody needs follows the header.
    Discard,
    /// A range that becomes zero follows the header.
    Zeroes,
}

/// Sizes of a request's buffers in bytes, header and status apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// What the device reads.
    pub readable: u64,
    /// What it writes.
    pub writable: u64,
}

/// Understands a header.
///
/// # Errors
///
/// How the request ends at once: its kind is unknown, or its buffers or its range do not fit.
pub fn parse(header: [u8; 16], sizes: Sizes, shape: &Shape) -> Result<Asked, Status> {
    let [a, b, c, d, _, _, _, _, sector @ ..] = header;
    let sector = u64::from_le_bytes(sector);
    match u32::from_le_bytes([a, b, c, d]) {
        0 => {
            let (at, len) = range(sector, sizes.writable, shape)?;
            Ok(Asked::Read { at, len })
        }
        1 => {
            may_write(shape)?;
            let (at, len) = range(sector, sizes.readable, shape)?;
            Ok(Asked::Write { at, len })
        }
        4 => Ok(Asked::Flush),
        8 => Ok(Asked::Name),
        11 if !shape.trims => Err(Status::Unsupp),
        11 => one_range(sizes, shape).map(|()| Asked::Discard),
        13 => one_range(sizes, shape).map(|()| Asked::Zeroes),
        _ => Err(Status::Unsupp),
    }
}

fn may_write(shape: &Shape) -> Result<(), Status> {
    match shape.read_only {
        true => Err(Status::IoErr),
        false => Ok(()),
    }
}

fn one_range(sizes: Sizes, shape: &Shape) -> Result<(), Status> {
    may_write(shape)?;
    match sizes.readable {
        RANGE_BYTES => Ok(()),
        _ => Err(Status::IoErr),
    }
}

fn range(sector: u64, len: u64, shape: &Shape) -> Result<(u64, u32), Status> {
    let is_whole = len > 0 && len.is_multiple_of(SECTOR_BYTES);
    if !is_whole || len > u64::from(REQUEST_BYTES_MAX) {
        return Err(Status::IoErr);
    }
    let at = sector.checked_mul(SECTOR_BYTES).ok_or(Status::IoErr)?;
    shape.check(at, len).map_err(Status::of)?;
    Ok((at, len as u32))
}

/// A range of a discard or a write of zeroes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub at: u64,
    /// How many; may be 0.
    pub len: u64,
    /// The backing may make a hole.
    pub unmap: bool,
}

/// Understands a discard's range.
///
/// # Errors
///
/// How the request ends at once: a flag is set, or the range is too long or beyond the disk's end.
pub fn discard(bytes: [u8; 16], shape: &Shape) -> Result<Range, Status> {
    let (range, flags) = range_of(bytes, DISCARD_SECTORS_MAX, shape)?;
    match flags {
        0 => Ok(range),
        _ => Err(Status::Unsupp),
    }
}

/// Understands a range that becomes zero.
///
/// # Errors
///
/// As [`discard`]'s; the flag that lets it make a hole is known here.
pub fn zeroes(bytes: [u8; 16], shape: &Shape) -> Result<Range, Status> {
    let (range, flags) = range_of(bytes, ZEROES_SECTORS_MAX, shape)?;
    match flags {
        0 | UNMAP => Ok(range),
        _ => Err(Status::Unsupp),
    }
}

fn range_of(bytes: [u8; 16], sectors_max: u32, shape: &Shape) -> Result<(Range, u32), Status> {
    let [s0, s1, s2, s3, s4, s5, s6, s7, n0, n1, n2, n3, flags @ ..] = bytes;
    let sector = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    let sectors = u32::from_le_bytes([n0, n1, n2, n3]);
    let flags = u32::from_le_bytes(flags);
    if sectors > sectors_max {
        return Err(Status::IoErr);
    }
    let at = sector.checked_mul(SECTOR_BYTES).ok_or(Status::IoErr)?;
    let len = u64::from(sectors) * SECTOR_BYTES;
    shape.check(at, len).map_err(Status::of)?;
    let unmap = flags & UNMAP != 0;
    Ok((Range { at, len, unmap }, flags))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHAPE: Shape = Shape {
        bytes: 1 << 20,
        read_only: false,
        trims: true,
    };

    fn header(kind: u32, sector: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[8..].copy_from_slice(&sector.to_le_bytes());
        bytes
    }

    fn asked(kind: u32, sector: u64, readable: u64, writable: u64) -> Result<Asked, Status> {
        let sizes = Sizes { readable, writable };
        parse(header(kind, sector), sizes, &SHAPE)
    }

    fn range(sector: u64, sectors: u32, flags: u32) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&sector.to_le_bytes());
        bytes[8..12].copy_from_slice(&sectors.to_le_bytes());
        bytes[12..].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    #[test]
    fn every_kind_is_understood() {
        assert_eq!(asked(0, 2, 0, 512), Ok(Asked::Read { at: 1024, len: 512 }));
        assert_eq!(
            asked(1, 8, 4096, 0),
            Ok(Asked::Write {
                at: 4096,
                len: 4096
            })
        );
        assert_eq!(asked(4, 0, 0, 0), Ok(Asked::Flush));
        assert_eq!(asked(8, 0, 0, 20), Ok(Asked::Name));
        assert_eq!(asked(8, 0, 0, 8), Ok(Asked::Name));
        assert_eq!(asked(11, 0, 16, 0), Ok(Asked::Discard));
        assert_eq!(asked(13, 0, 16, 0), Ok(Asked::Zeroes));
        assert_eq!(asked(99, 0, 0, 0), Err(Status::Unsupp));
    }

    #[test]
    fn what_does_not_fit_fails() {
        for (kind, sector, readable, writable) in [
            (0, 0, 0, 0),
            (0, 0, 0, 513),
            (0, 2048, 0, 512),
            (0, u64::MAX, 0, 512),
            (0, 0, 0, u64::from(REQUEST_BYTES_MAX) + 512),
            (1, 2047, 1024, 0),
            (11, 0, 32, 0),
            (13, 0, 15, 0),
        ] {
            assert_eq!(asked(kind, sector, readable, writable), Err(Status::IoErr));
        }
    }

    #[test]
    fn a_read_only_disk_is_not_written_and_one_without_trims_not_trimmed() {
        let sizes = Sizes {
            readable: 16,
            writable: 0,
        };
        let fixed = Shape {
            read_only: true,
            ..SHAPE
        };
        assert_eq!(parse(header(11, 0), sizes, &fixed), Err(Status::IoErr));
        assert_eq!(parse(header(1, 0), sizes, &fixed), Err(Status::IoErr));
        let kept = Shape {
            trims: false,
            ..SHAPE
        };
        assert_eq!(parse(header(11, 0), sizes, &kept), Err(Status::Unsupp));
    }

    #[test]
    fn ranges_know_their_flags() {
        let hole = Range {
            at: 512,
            len: 1024,
            unmap: true,
        };
        assert_eq!(zeroes(range(1, 2, 1), &SHAPE), Ok(hole));
        assert_eq!(discard(range(1, 2, 1), &SHAPE), Err(Status::Unsupp));
        assert_eq!(zeroes(range(1, 2, 2), &SHAPE), Err(Status::Unsupp));
        assert_eq!(discard(range(2047, 2, 0), &SHAPE), Err(Status::IoErr));
        assert_eq!(
            zeroes(range(0, ZEROES_SECTORS_MAX + 1, 0), &SHAPE),
            Err(Status::IoErr)
        );
    }

    proptest! {
        /// What is let through lies on the disk.
        #[test]
        fn nothing_beyond_the_disk(bytes: [u8; 16], readable in 0u64..9000, writable in 0u64..9000) {
            if let Ok(Asked::Read { at, len } | Asked::Write { at, len }) = parse(bytes, Sizes { readable, writable }, &SHAPE) {
                prop_assert!(at + u64::from(len) <= SHAPE.bytes);
            }
            for understood in [discard(bytes, &SHAPE), zeroes(bytes, &SHAPE)].into_iter().flatten() {
                prop_assert!(understood.at + understood.len <= SHAPE.bytes);
            }
        }
    }
}
