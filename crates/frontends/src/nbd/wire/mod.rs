//! The bytes of the protocol: requests as types, replies as bytes. All numbers are big-endian.

pub mod options;
pub mod replies;
pub mod requests;

/// Reads numbers from the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct BigEndianReader<'a>(pub(super) &'a [u8]);

impl<'a> BigEndianReader<'a> {
    pub(super) fn u16(&mut self) -> Option<u16> {
        self.chunk().map(|bytes| u16::from_be_bytes(*bytes))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.chunk().map(|bytes| u64::from_be_bytes(*bytes))
    }

    /// Reads a length and a text of that length.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        let len = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn chunk<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (chunk, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(chunk)
    }
}
