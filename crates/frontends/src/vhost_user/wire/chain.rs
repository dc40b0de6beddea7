//! A request's descriptors. The walk goes over tables that the guest may change at any time, so it reads each
//! descriptor once.

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: u64 = 16;

/// The most descriptors of a request that the daemon carries out, including those of its indirect table. QEMU has the
/// same limit, and drivers that ignore `seg_max` rely on it.
pub const DESCRIPTORS_MAX: usize = 1024;

/// The most descriptors that the walk follows to find where a request's status goes.
pub const WALK_MAX: usize = 4 * DESCRIPTORS_MAX;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// A piece of the guest's memory, by the guest's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The address of the first byte. `at + len` does not overflow.
    pub at: u64,
    /// How many bytes, never 0.
    pub len: u32,
}

/// A table of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorTable {
    /// The guest's address of the first descriptor.
    pub at: u64,
    /// How many descriptors.
    pub count: u16,
}

/// Why nobody can tell the guest how a request ended: its chain leads to no status byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// A descriptor's number is not in its table.
    #[error("descriptor {0} is not in its table")]
    OutOfTable(u16),
    /// The chain is a loop, or too long.
    #[error("the chain has more than {WALK_MAX} descriptors, or goes in circles")]
    Endless,
    /// There is an indirect table where none may be, or one of a wrong size.
    #[error("an indirect table of {0} bytes is out of place")]
    Indirect(u32),
    /// The last descriptor does not have at least one byte that the device may write.
    #[error("the chain does not end in a byte for the status")]
    NoStatus,
    /// A table is not in the guest's memory.
    #[error("there is no memory at {0:#x}, where a descriptor should be")]
    Unreadable(u64),
}

/// The descriptors of one request: first those that the device reads, then those that it writes.
#[derive(Clone, Debug, Default)]
pub struct DescriptorChain {
    segments: Vec<Segment>,
    readable: usize,
    is_sound: bool,
}

/// A descriptor as the guest wrote it.
#[derive(Clone, Copy)]
struct Descriptor {
    at: u64,
    len: u32,
    flags: u16,
    next: u16,
}

impl DescriptorChain {
    /// Follows the chain that begins at `head`, and returns the address of its status byte. `fetch` reads the
    /// descriptor at a guest's address. The walk ends after at most [`WALK_MAX`] descriptors and one indirect table,
    /// whatever the guest writes.
    ///
    /// # Errors
    ///
    /// The chain leads to no status byte. The segments collected so far are of no use then.
    pub fn follow(
        &mut self,
        table: DescriptorTable,
        head: u16,
        mut fetch: impl FnMut(u64) -> Option<[u8; 16]>,
    ) -> Result<u64, ChainError> {
        self.segments.clear();
        (self.readable, self.is_sound) = (0, true);
        let mut table = table;
        let mut index = head;
        let mut is_indirect = false;
        for _ in 0..=WALK_MAX {
            let descriptor = descriptor_of(table, index, &mut fetch)?;
            if descriptor.flags & INDIRECT != 0 {
                if is_indirect || descriptor.flags & NEXT != 0 {
                    return Err(ChainError::Indirect(descriptor.len));
                }
                table = indirect(descriptor)?;
                (is_indirect, index) = (true, 0);
                continue;
            }
            self.is_sound &= self.add(descriptor);
            if descriptor.flags & NEXT == 0 {
                return status_of(descriptor);
            }
            index = descriptor.next;
        }
        Err(ChainError::Endless)
    }

    /// Returns whether the daemon can carry out the request: its descriptors are in order, in bounds, and not too many.
    pub fn is_sound(&self) -> bool {
        self.is_sound
    }

    /// Adds a descriptor. Returns false if it cannot be part of a request. A descriptor without bytes adds nothing and
    /// does no harm.
    fn add(&mut self, descriptor: Descriptor) -> bool {
        let Descriptor { at, len, flags, .. } = descriptor;
        if len == 0 {
            return true;
        }
        let is_readable = flags & WRITE == 0;
        let is_in_order = !is_readable || self.readable == self.segments.len();
        let is_in_bounds = at.checked_add(u64::from(len)).is_some();
        if !is_in_order || !is_in_bounds || self.segments.len() == DESCRIPTORS_MAX {
            return false;
        }
        self.readable += usize::from(is_readable);
        self.segments.push(Segment { at, len });
        true
    }

    /// The segments that the device reads.
    pub fn readable(&self) -> &[Segment] {
        &self.segments[..self.readable]
    }

    /// The segments that the device writes.
    pub fn writable(&self) -> &[Segment] {
        &self.segments[self.readable..]
    }
}

fn descriptor_of(
    table: DescriptorTable,
    index: u16,
    fetch: &mut impl FnMut(u64) -> Option<[u8; 16]>,
) -> Result<Descriptor, ChainError> {
    if index >= table.count {
        return Err(ChainError::OutOfTable(index));
    }
    let at = table
        .at
        .checked_add(u64::from(index) * DESCRIPTOR_BYTES)
        .ok_or(ChainError::Unreadable(table.at))?;
    let bytes = fetch(at).ok_or(ChainError::Unreadable(at))?;
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    let [i, j, k, l, m, n, o, p] = rest;
    Ok(Descriptor {
        at: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        len: u32::from_le_bytes([i, j, k, l]),
        flags: u16::from_le_bytes([m, n]),
        next: u16::from_le_bytes([o, p]),
    })
}

/// The status is the last byte of the last descriptor. An earlier byte cannot replace it, because the driver reads the
/// status where it put it.
fn status_of(last: Descriptor) -> Result<u64, ChainError> {
    let is_writable = last.flags & WRITE != 0;
    let end = last.at.checked_add(u64::from(last.len));
    match end {
        Some(end) if is_writable && last.len > 0 => Ok(end - 1),
        _ => Err(ChainError::NoStatus),
    }
}

fn indirect(descriptor: Descriptor) -> Result<DescriptorTable, ChainError> {
    let count = u64::from(descriptor.len) / DESCRIPTOR_BYTES;
    let is_whole = u64::from(descriptor.len).is_multiple_of(DESCRIPTOR_BYTES);
    match u16::try_from(count) {
        Ok(count @ 1..) if is_whole => Ok(DescriptorTable {
            at: descriptor.at,
            count,
        }),
        _ => Err(ChainError::Indirect(descriptor.len)),
    }
}

/// The bytes of all segments together.
pub fn total_bytes(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.len)).sum()
}

/// The segments without their first `skip` bytes, and without everything after the next `keep` bytes.
pub fn subrange(segments: &[Segment], skip: u64, keep: u64) -> impl Iterator<Item = Segment> {
    let mut to_skip = skip;
    let mut to_keep = keep;
    segments.iter().filter_map(move |segment| {
        let skipped = to_skip.min(u64::from(segment.len));
        to_skip -= skipped;
        let len = (u64::from(segment.len) - skipped).min(to_keep);
        to_keep -= len;
        let at = segment.at + skipped;
        let len = u32::try_from(len).ok().filter(|len| *len > 0)?;
        Some(Segment { at, len })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const TABLE: DescriptorTable = DescriptorTable {
        at: 0x1000,
        count: 8,
    };

    fn bytes(at: u64, len: u32, flags: u16, next: u16) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&at.to_le_bytes());
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        bytes[12..14].copy_from_slice(&flags.to_le_bytes());
        bytes[14..].copy_from_slice(&next.to_le_bytes());
        bytes
    }

    fn memory(rows: &[(u64, [u8; 16])]) -> HashMap<u64, [u8; 16]> {
        rows.iter().copied().collect()
    }

    fn follow(rows: &[(u64, [u8; 16])], head: u16) -> Result<DescriptorChain, ChainError> {
        let memory = memory(rows);
        let mut chain = DescriptorChain::default();
        chain.follow(TABLE, head, |at| memory.get(&at).copied())?;
        Ok(chain)
    }

    #[test]
    fn a_plain_chain_is_split_by_direction() {
        let rows = [
            (0x1010, bytes(0x5000, 16, NEXT, 3)),
            (0x1030, bytes(0x6000, 4096, NEXT | WRITE, 0)),
            (0x1000, bytes(0x7000, 1, WRITE, 99)),
        ];
        let chain = follow(&rows, 1).expect("a chain");
        assert_eq!(
            chain.readable(),
            [Segment {
                at: 0x5000,
                len: 16
            }]
        );
        assert_eq!(total_bytes(chain.writable()), 4097);
    }

    #[test]
    fn an_indirect_table_is_followed_and_none_in_it() {
        let rows = [
            (0x1000, bytes(0x2000, 32, INDIRECT, 0)),
            (0x2000, bytes(0x5000, 16, NEXT, 1)),
            (0x2010, bytes(0x7000, 1, WRITE, 0)),
        ];
        let chain = follow(&rows, 0).expect("a chain");
        assert_eq!((chain.readable().len(), chain.writable().len()), (1, 1));
        let nested = [
            (0x1000, bytes(0x2000, 16, INDIRECT, 0)),
            (0x2000, bytes(0x2000, 16, INDIRECT, 0)),
        ];
        assert_eq!(follow(&nested, 0).err(), Some(ChainError::Indirect(16)));
        let odd = [(0x1000, bytes(0x2000, 17, INDIRECT, 0))];
        assert_eq!(follow(&odd, 0).err(), Some(ChainError::Indirect(17)));
        let huge = [(0x1000, bytes(0x2000, 16 << 16, INDIRECT, 0))];
        assert_eq!(follow(&huge, 0).err(), Some(ChainError::Indirect(16 << 16)));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let circle = [(0x1000, bytes(0x5000, 16, NEXT, 0))];
        assert_eq!(follow(&circle, 0).err(), Some(ChainError::Endless));
        assert_eq!(follow(&circle, 8).err(), Some(ChainError::OutOfTable(8)));
        assert_eq!(
            follow(&circle, 7).err(),
            Some(ChainError::Unreadable(0x1070))
        );
        for last in [(0x5000, 16, 0), (0x5000, 0, WRITE), (u64::MAX, 2, WRITE)] {
            let rows = [(0x1000, bytes(last.0, last.1, last.2, 0))];
            assert_eq!(
                follow(&rows, 0).err(),
                Some(ChainError::NoStatus),
                "{last:?}"
            );
        }
    }

    #[test]
    fn what_cannot_be_carried_out_has_its_status_all_the_same() {
        let status = (0x1020, bytes(0x9000, 1, WRITE, 0));
        let back = (0x1010, bytes(0x5000, 16, NEXT, 2));
        let beyond = (0x1010, bytes(u64::MAX, 2, NEXT | WRITE, 2));
        for flaw in [back, beyond] {
            let rows = [(0x1000, bytes(0x5000, 16, NEXT | WRITE, 1)), flaw, status];
            let chain = follow(&rows, 0).expect("it has an end");
            assert!(!chain.is_sound(), "{flaw:?}");
            let memory = memory(&rows);
            let fetch = |at| memory.get(&at).copied();
            let status_at = DescriptorChain::default().follow(TABLE, 0, fetch);
            assert_eq!(status_at, Ok(0x9000));
        }
    }

    #[test]
    fn a_descriptor_without_bytes_is_none() {
        let rows = [
            (0x1000, bytes(0x5000, 16, NEXT, 1)),
            (0x1010, bytes(0, 0, NEXT, 2)),
            (0x1020, bytes(0, 0, NEXT | WRITE, 3)),
            (0x1030, bytes(0x9000, 1, WRITE, 0)),
        ];
        let chain = follow(&rows, 0).expect("a chain");
        assert!(chain.is_sound());
        assert_eq!((chain.readable().len(), chain.writable().len()), (1, 1));
    }

    #[test]
    fn a_chain_of_up_to_1024_is_carried_out_and_a_longer_one_told_so() {
        for (count, is_sound) in [(DESCRIPTORS_MAX, true), (DESCRIPTORS_MAX + 1, false)] {
            let table = DescriptorTable {
                at: 0,
                count: count as u16,
            };
            let fetch = |at: u64| {
                let index = (at / 16) as usize;
                let flags = if index + 1 < count {
                    NEXT | WRITE
                } else {
                    WRITE
                };
                Some(bytes(0x5000, 1, flags, index as u16 + 1))
            };
            let mut chain = DescriptorChain::default();
            assert_eq!(chain.follow(table, 0, fetch), Ok(0x5000));
            assert_eq!(chain.is_sound(), is_sound, "{count}");
        }
    }

    proptest! {
        /// Whatever the memory holds, the walk ends. Its result is within bounds and in order.
        #[test]
        fn any_memory_is_survived(
            rows in prop::collection::vec((any::<u64>(), 0u32..600, 0u16..8, 0u16..10), 1..40),
            head in 0u16..10,
        ) {
            let mut fetched = 0;
            let mut chain = DescriptorChain::default();
            let result = chain.follow(TABLE, head, |at| {
                fetched += 1;
                let row = rows.get((at / 16) as usize % rows.len())?;
                Some(bytes(row.0 % 0x10_0000, row.1, row.2, row.3))
            });
            prop_assert!(fetched <= WALK_MAX + 1);
            if result.is_ok() {
                let all = chain.readable().len() + chain.writable().len();
                prop_assert!((1..=DESCRIPTORS_MAX).contains(&all));
                prop_assert!(chain.readable().iter().chain(chain.writable()).all(|part| part.len > 0));
            }
        }

        /// Cutting segments gives the same bytes as cutting an array.
        #[test]
        fn cutting_agrees_with_bytes(
            parts in prop::collection::vec((0u64..1000, 1u32..50), 0..8),
            skip in 0u64..200,
            keep in 0u64..200,
        ) {
            let each = |segment: Segment| (segment.at..segment.at + u64::from(segment.len)).collect::<Vec<_>>();
            let segments: Vec<Segment> = parts.iter().map(|&(at, len)| Segment { at, len }).collect();
            let all: Vec<u64> = segments.iter().flat_map(|segment| each(*segment)).collect();
            let want: Vec<u64> = all.into_iter().skip(skip as usize).take(keep as usize).collect();
            let got: Vec<u64> = subrange(&segments, skip, keep).flat_map(each).collect();
            prop_assert_eq!(got, want);
        }
    }
}
