//! Nonces: no two writes under one key have the same.

/// The number of a write. The borrower counts the writes into each block, whatever their places, with one record of the
/// block for as long as its lease has it. When another block gets the record, the count goes on, or starts anew after
/// [`WriteSequence::MAX`]. That block has another index or the key of another lease, so no nonce comes twice. While a
/// block has its index, its count must not start anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteSequence(pub u32);

impl WriteSequence {
    /// The count of a block that nothing was ever written to.
    pub const UNWRITTEN: WriteSequence = WriteSequence(0);

    /// The last sequence. A block that has reached it is given back.
    pub const MAX: WriteSequence = WriteSequence(u32::MAX);

    /// Returns the sequence of the next write, or `None` after [`WriteSequence::MAX`].
    pub fn next(self) -> Option<WriteSequence> {
        self.0.checked_add(1).map(WriteSequence)
    }
}

/// Names one write of one frame of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageNonce {
    /// The index of the block in the lease. A lease never uses an index again.
    pub index: u32,
    /// The page's place in the block, in pages.
    pub place: u16,
    /// The number of the write.
    pub sequence: WriteSequence,
}

impl PageNonce {
    /// Returns the nonce for AEGIS: index, place, two zeros, sequence in 8 bytes, each little-endian.
    pub(super) fn wide(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.index.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.place.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.sequence.0.to_le_bytes());
        bytes
    }

    /// Returns the nonce for the other ciphers: index, place, sequence in 6 bytes, each little-endian.
    pub(super) fn narrow(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.index.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.place.to_le_bytes());
        bytes[6..10].copy_from_slice(&self.sequence.0.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: PageNonce = PageNonce {
        index: 0x0403_0201,
        place: 0x0605,
        sequence: WriteSequence(0x0a09_0807),
    };

    #[test]
    fn a_wide_nonce_is_index_place_zeros_and_sequence() {
        let bytes = [1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 9, 10, 0, 0, 0, 0];
        assert_eq!(NONCE.wide(), bytes);
    }

    #[test]
    fn a_narrow_nonce_is_index_place_and_sequence() {
        assert_eq!(NONCE.narrow(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0]);
    }

    #[test]
    fn sequences_rise_by_one_and_end() {
        let first = WriteSequence::UNWRITTEN.next();
        assert_eq!(first, Some(WriteSequence(1)));
        assert_eq!(
            WriteSequence(u32::MAX - 1).next(),
            Some(WriteSequence::MAX),
            "the last sequence is used"
        );
        assert_eq!(WriteSequence::MAX.next(), None);
    }
}
