//! A stand-in for the seal of pages: one multiplication in place of a cipher, with the cipher's rule for nonces.

use sublet_store::{FarAddress, SealTag};

use super::content::STAMP_BYTES;
use super::mutation::Mutation;
use crate::rng::mixed;

/// Bytes as a lender keeps them.
pub(super) type SealedBytes = [u8; STAMP_BYTES];

const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// What is never used twice under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SealNonce {
    /// The block's index in the lease.
    pub(super) index: u32,
    /// The page's place in the block.
    pub(super) place: u16,
    /// The number of the write.
    pub(super) sequence: u32,
}

impl SealNonce {
    /// The nonce of a write.
    pub(super) fn of(address: FarAddress, sequence: u32, mutation: Option<Mutation>) -> SealNonce {
        let sequence = match mutation {
            Some(Mutation::NonceWithoutSequence) => 0,
            _ => sequence,
        };
        SealNonce {
            index: address.index,
            place: address.place,
            sequence,
        }
    }

    fn word(self) -> u64 {
        mixed(u64::from(self.index) << 16 | u64::from(self.place)) ^ u64::from(self.sequence)
    }
}

/// The key of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FakeKey(pub(super) u64);

impl FakeKey {
    /// Seals a page.
    pub(super) fn seal(self, nonce: SealNonce, plain: SealedBytes) -> (SealedBytes, SealTag) {
        let sealed = self.masked(nonce, plain);
        (sealed, self.tag(nonce, sealed))
    }

    /// Opens a page. `None` if the bytes are not those that were sealed.
    pub(super) fn open(
        self,
        nonce: SealNonce,
        tag: SealTag,
        sealed: SealedBytes,
    ) -> Option<SealedBytes> {
        (self.tag(nonce, sealed) == tag).then(|| self.masked(nonce, sealed))
    }

    /// Takes the mask of a nonce off bytes, or lays it on, whatever the tag.
    pub(super) fn masked(self, nonce: SealNonce, bytes: SealedBytes) -> SealedBytes {
        let mask = u128::from(self.0 ^ nonce.word()).wrapping_mul(ODD);
        (u128::from_le_bytes(bytes) ^ mask).to_le_bytes()
    }

    fn tag(self, nonce: SealNonce, sealed: SealedBytes) -> SealTag {
        let key = u128::from(self.0) << 64 | u128::from(nonce.word());
        let tag = (u128::from_le_bytes(sealed) ^ key).wrapping_mul(ODD);
        SealTag((tag ^ tag >> 61).to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use sublet_store::LeaseSlot;

    use super::*;

    fn nonce(index: u32, place: u16, sequence: u32) -> SealNonce {
        let address = FarAddress {
            lease: LeaseSlot(0),
            index,
            place,
        };
        SealNonce::of(address, sequence, None)
    }

    #[test]
    fn a_page_opens_under_its_own_key_place_and_number_and_no_other() {
        let (key, plain) = (FakeKey(77), [5; STAMP_BYTES]);
        let (sealed, tag) = key.seal(nonce(1, 2, 3), plain);
        assert_ne!(sealed, plain);
        assert_eq!(key.open(nonce(1, 2, 3), tag, sealed), Some(plain));
        for other in [nonce(0, 2, 3), nonce(1, 3, 3), nonce(1, 2, 4)] {
            assert_eq!(key.open(other, tag, sealed), None);
        }
        assert_eq!(FakeKey(78).open(nonce(1, 2, 3), tag, sealed), None);
        for bit in 0..8 * STAMP_BYTES {
            let mut altered = sealed;
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(nonce(1, 2, 3), tag, altered), None, "bit {bit}");
        }
    }
}
