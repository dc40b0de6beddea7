//! The pages that all servers of the bench hold. A page's bytes follow from its number.

use sublet_types::PAGE_BYTES;

/// Bytes of a page.
pub(super) const BYTES: usize = PAGE_BYTES as usize;

/// A page, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TestPage(pub(super) u32);

impl TestPage {
    /// The word that begins the page.
    fn first(self) -> u64 {
        (u64::from(self.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Its bytes.
    pub(super) fn bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let words = bytes.chunks_exact_mut(size_of::<u64>());
        for (n, word) in (0..).zip(words) {
            word.copy_from_slice(&self.first().wrapping_add(n).to_le_bytes());
        }
        bytes
    }

    /// Returns whether these bytes begin as the page does. It costs too little to be seen in the figures.
    pub(super) fn begins(self, bytes: &[u8]) -> bool {
        bytes.first_chunk() == Some(&self.first().to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_differ_and_begin_as_themselves() {
        for number in [0, 1, 65_535] {
            let page = TestPage(number);
            assert!(page.begins(&page.bytes()));
            assert!(!TestPage(number + 1).begins(&page.bytes()));
        }
        assert!(!TestPage(0).begins(&[]));
    }
}
