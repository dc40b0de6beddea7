//! Numbers out of bytes whose sum holds.

use crate::api::RestoreError;

/// The bytes of a part, read from their begin on.
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// All that come after the first `at`.
    pub(crate) fn after(bytes: &'a [u8], at: usize) -> Fields<'a> {
        Fields { bytes, at }
    }

    /// Where the next one is.
    pub(crate) fn at(&self) -> u64 {
        self.at as u64
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    pub(crate) fn u128(&mut self) -> u128 {
        u128::from_le_bytes(self.take())
    }

    /// A byte that is one of the values that this version knows.
    ///
    /// # Errors
    ///
    /// It is none of them, so that a newer version wrote it.
    pub(crate) fn known<T>(
        &mut self,
        meaning: impl FnOnce(u8) -> Option<T>,
    ) -> Result<T, RestoreError> {
        let at = self.at();
        meaning(self.u8()).ok_or(RestoreError::Unknown(at))
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        array
    }
}
