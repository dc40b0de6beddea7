//! Reads numbers from bytes whose checksum was verified.

use crate::api::RestoreError;

/// The bytes of a part, read from the beginning.
pub(crate) struct FieldReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> FieldReader<'a> {
    /// Skips the first `at` bytes.
    pub(crate) fn after(bytes: &'a [u8], at: usize) -> FieldReader<'a> {
        FieldReader { bytes, at }
    }

    /// The position of the next field.
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

    /// Reads a byte that must be one of the values that this version knows.
    ///
    /// # Errors
    ///
    /// The byte is none of them, so a newer version wrote it.
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
