//! Parses a request's header and checks whether its buffers fit it. Bytes go in, a decision comes out.

use crate::block_device::{DiskFault, DiskShape, Hole, REQUEST_BYTES_MAX, SECTOR_BYTES};

/// Bytes of a request's header.
pub const HEADER_BYTES: u64 = 16;

/// Bytes of one range of a discard or a write of zeroes.
pub const RANGE_BYTES: u64 = 16;

/// Bytes of a disk's name, as [`VirtioBlkRequest::GetId`] returns it.
pub(crate) const NAME_BYTES: usize = 20;

/// The most sectors of one discard: 2 GiB.
pub(crate) const DISCARD_SECTORS_MAX: u32 = 4 << 20;

/// The most sectors of one write of zeroes. It may take as long as a write.
pub(crate) const ZEROES_SECTORS_MAX: u32 = REQUEST_BYTES_MAX / SECTOR_BYTES as u32;

const UNMAP: u32 = 1;

/// How a request ended, as the guest's driver reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The device carried the request out.
    Ok = 0,
    /// The request failed, or made no sense.
    IoErr = 1,
    /// The device cannot do that.
    Unsupp = 2,
}

impl Status {
    /// The status that this protocol has for a disk's fault.
    pub fn of(fault: DiskFault) -> Status {
        match fault {
            DiskFault::NotSupported => Status::Unsupp,
            DiskFault::OutOfRange
            | DiskFault::ReadOnly
            | DiskFault::NoSpace
            | DiskFault::Io
            | DiskFault::Leaving => Status::IoErr,
        }
    }
}

/// A request to the disk. Ranges lie on the disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtioBlkRequest {
    /// Fills the writable segments.
    Read {
        /// The first byte.
        at: u64,
        /// How many bytes.
        len: u32,
    },
    /// Writes the readable segments after the header.
    Write {
        /// The first byte.
        at: u64,
        /// How many bytes.
        len: u32,
    },
    /// Makes every answered change durable.
    Flush,
    /// Returns the disk's name, or as much of it as fits.
    GetId,
    /// Drops a range, which follows the header.
    Discard,
    /// Makes a range zero, which follows the header.
    WriteZeroes,
}

/// The sizes of a request's buffers in bytes, without header and status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    /// Bytes that the device reads.
    pub readable: u64,
    /// Bytes that the device writes.
    pub writable: u64,
}

/// Parses a request's header.
///
/// # Errors
///
/// The status with which the request ends at once: its type is unknown, or its buffers or its range do not fit.
pub fn parse(
    header: [u8; 16],
    sizes: BufferSizes,
    shape: &DiskShape,
) -> Result<VirtioBlkRequest, Status> {
    let [a, b, c, d, _, _, _, _, sector @ ..] = header;
    let sector = u64::from_le_bytes(sector);
    match u32::from_le_bytes([a, b, c, d]) {
        0 => {
            let (at, len) = check_range(sector, sizes.writable, shape)?;
            Ok(VirtioBlkRequest::Read { at, len })
        }
        1 => {
            check_writable(shape)?;
            let (at, len) = check_range(sector, sizes.readable, shape)?;
            Ok(VirtioBlkRequest::Write { at, len })
        }
        4 => Ok(VirtioBlkRequest::Flush),
        8 => Ok(VirtioBlkRequest::GetId),
        11 if !shape.trims => Err(Status::Unsupp),
        11 => check_single_range(sizes, shape).map(|()| VirtioBlkRequest::Discard),
        13 => check_single_range(sizes, shape).map(|()| VirtioBlkRequest::WriteZeroes),
        _ => Err(Status::Unsupp),
    }
}

fn check_writable(shape: &DiskShape) -> Result<(), Status> {
    match shape.read_only {
        true => Err(Status::IoErr),
        false => Ok(()),
    }
}

fn check_single_range(sizes: BufferSizes, shape: &DiskShape) -> Result<(), Status> {
    check_writable(shape)?;
    match sizes.readable {
        RANGE_BYTES => Ok(()),
        _ => Err(Status::IoErr),
    }
}

fn check_range(sector: u64, len: u64, shape: &DiskShape) -> Result<(u64, u32), Status> {
    let is_whole = len > 0 && len.is_multiple_of(SECTOR_BYTES);
    if !is_whole || len > u64::from(REQUEST_BYTES_MAX) {
        return Err(Status::IoErr);
    }
    let at = sector.checked_mul(SECTOR_BYTES).ok_or(Status::IoErr)?;
    shape.check(at, len).map_err(Status::of)?;
    Ok((at, len as u32))
}

/// The range of a discard or of a write of zeroes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscardWriteZeroes {
    /// The first byte.
    pub at: u64,
    /// How many bytes; may be 0.
    pub len: u64,
    /// Whether the backing may punch a hole.
    pub hole: Hole,
}

/// Parses the range of a discard.
///
/// # Errors
///
/// The status with which the request ends at once: a flag is set, or the range is too long or passes the disk's end.
pub fn discard(bytes: [u8; 16], shape: &DiskShape) -> Result<DiscardWriteZeroes, Status> {
    let (range, flags) = range_of(bytes, DISCARD_SECTORS_MAX, shape)?;
    match flags {
        0 => Ok(range),
        _ => Err(Status::Unsupp),
    }
}

/// Parses the range of a write of zeroes.
///
/// # Errors
///
/// As for [`discard`], but the flag that allows a hole is valid.
pub fn zeroes(bytes: [u8; 16], shape: &DiskShape) -> Result<DiscardWriteZeroes, Status> {
    let (range, flags) = range_of(bytes, ZEROES_SECTORS_MAX, shape)?;
    match flags {
        0 | UNMAP => Ok(range),
        _ => Err(Status::Unsupp),
    }
}

fn range_of(
    bytes: [u8; 16],
    sectors_max: u32,
    shape: &DiskShape,
) -> Result<(DiscardWriteZeroes, u32), Status> {
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
    let hole = match flags & UNMAP {
        0 => Hole::Forbidden,
        _ => Hole::Allowed,
    };
    Ok((DiscardWriteZeroes { at, len, hole }, flags))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHAPE: DiskShape = DiskShape {
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

    fn parse_fields(
        kind: u32,
        sector: u64,
        readable: u64,
        writable: u64,
    ) -> Result<VirtioBlkRequest, Status> {
        let sizes = BufferSizes { readable, writable };
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
        assert_eq!(
            parse_fields(0, 2, 0, 512),
            Ok(VirtioBlkRequest::Read { at: 1024, len: 512 })
        );
        assert_eq!(
            parse_fields(1, 8, 4096, 0),
            Ok(VirtioBlkRequest::Write {
                at: 4096,
                len: 4096
            })
        );
        assert_eq!(parse_fields(4, 0, 0, 0), Ok(VirtioBlkRequest::Flush));
        assert_eq!(parse_fields(8, 0, 0, 20), Ok(VirtioBlkRequest::GetId));
        assert_eq!(parse_fields(8, 0, 0, 8), Ok(VirtioBlkRequest::GetId));
        assert_eq!(parse_fields(11, 0, 16, 0), Ok(VirtioBlkRequest::Discard));
        assert_eq!(
            parse_fields(13, 0, 16, 0),
            Ok(VirtioBlkRequest::WriteZeroes)
        );
        assert_eq!(parse_fields(99, 0, 0, 0), Err(Status::Unsupp));
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
            assert_eq!(
                parse_fields(kind, sector, readable, writable),
                Err(Status::IoErr)
            );
        }
    }

    #[test]
    fn a_read_only_disk_is_not_written_and_one_without_trims_not_trimmed() {
        let sizes = BufferSizes {
            readable: 16,
            writable: 0,
        };
        let fixed = DiskShape {
            read_only: true,
            ..SHAPE
        };
        assert_eq!(parse(header(11, 0), sizes, &fixed), Err(Status::IoErr));
        assert_eq!(parse(header(1, 0), sizes, &fixed), Err(Status::IoErr));
        let kept = DiskShape {
            trims: false,
            ..SHAPE
        };
        assert_eq!(parse(header(11, 0), sizes, &kept), Err(Status::Unsupp));
    }

    #[test]
    fn ranges_know_their_flags() {
        let hole = DiscardWriteZeroes {
            at: 512,
            len: 1024,
            hole: Hole::Allowed,
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
        /// Whatever passes the checks lies on the disk.
        #[test]
        fn nothing_beyond_the_disk(bytes: [u8; 16], readable in 0u64..9000, writable in 0u64..9000) {
            if let Ok(VirtioBlkRequest::Read { at, len } | VirtioBlkRequest::Write { at, len }) = parse(bytes, BufferSizes { readable, writable }, &SHAPE) {
                prop_assert!(at + u64::from(len) <= SHAPE.bytes);
            }
            for understood in [discard(bytes, &SHAPE), zeroes(bytes, &SHAPE)].into_iter().flatten() {
                prop_assert!(understood.at + understood.len <= SHAPE.bytes);
            }
        }
    }
}
