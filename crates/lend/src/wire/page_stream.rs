//! The pages behind a message, as they arrive.

use super::limits::PAGE_BYTES;
use super::page_set::PageSet;

/// A stretch of one page's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSpan {
    /// The page in the order of the request's ranges, from 0.
    pub ordinal: usize,
    /// The first byte in the page.
    pub offset: usize,
    /// The number of bytes.
    pub len: usize,
}

/// More bytes were put into pages than the message has. The caller read beyond the message's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{bytes} bytes of pages arrived where {missing} were missing; read no further than the last page"
)]
pub struct ExcessPageBytes {
    /// The bytes that the caller put into pages.
    pub bytes: usize,
    /// The bytes that the message still had.
    pub missing: usize,
}

/// Which bytes of a message's pages have arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageStream {
    pages: PageSet,
    arrived: usize,
}

impl PageStream {
    /// The pages of a message of which nothing has arrived.
    pub(super) fn new(pages: PageSet) -> PageStream {
        PageStream { pages, arrived: 0 }
    }

    /// Bytes that must still arrive.
    pub(super) fn missing(&self) -> usize {
        self.pages.len() * PAGE_BYTES - self.arrived
    }

    /// The rest of the page that arrives next.
    pub(super) fn next_span(&self) -> Option<PageSpan> {
        let offset = self.arrived % PAGE_BYTES;
        Some(PageSpan {
            ordinal: self.pages.nth(self.arrived / PAGE_BYTES)?,
            offset,
            len: PAGE_BYTES - offset,
        })
    }

    /// The rests of all pages that must still arrive, in order. Only the first may have begun.
    pub(super) fn spans(mut self) -> impl Iterator<Item = PageSpan> {
        std::iter::from_fn(move || {
            let span = self.next_span()?;
            self.arrived += span.len;
            Some(span)
        })
    }

    /// Counts bytes as arrived.
    pub(super) fn advance(&mut self, bytes: usize) -> Result<(), ExcessPageBytes> {
        let missing = self.missing();
        if bytes > missing {
            return Err(ExcessPageBytes { bytes, missing });
        }
        self.arrived += bytes;
        Ok(())
    }

    /// Takes bytes of one page from the front of `input`. `None` if there are none, or nothing is missing.
    pub(super) fn take<'i>(&mut self, input: &mut &'i [u8]) -> Option<(PageSpan, &'i [u8])> {
        let rest_of_page = self.next_span()?;
        let len = rest_of_page.len.min(input.len());
        if len == 0 {
            return None;
        }
        let (bytes, rest) = input.split_at(len);
        *input = rest;
        self.arrived += len;
        Some((
            PageSpan {
                len,
                ..rest_of_page
            },
            bytes,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(ordinal: usize, offset: usize, len: usize) -> PageSpan {
        PageSpan {
            ordinal,
            offset,
            len,
        }
    }

    #[test]
    fn pages_arrive_in_order_and_in_pieces() {
        let mut stream = PageStream::new(PageSet(0b1001));
        let bytes = vec![5; 5000];
        let mut input = &bytes[..];
        let (first, taken) = stream.take(&mut input).expect("bytes of page 0");
        assert_eq!((first, taken.len()), (span(0, 0, 4096), 4096));
        let (second, _) = stream.take(&mut input).expect("bytes of page 3");
        assert_eq!(second, span(3, 0, 904));
        assert!(stream.take(&mut input).is_none());
        assert_eq!(stream.missing(), 4096 - 904);
        assert!(stream.spans().eq([span(3, 904, 4096 - 904)]));
    }

    #[test]
    fn bytes_may_be_put_into_several_pages_at_once() {
        let mut stream = PageStream::new(PageSet(0b111));
        assert_eq!(stream.advance(4096 + 10), Ok(()));
        let rests = [span(1, 10, 4086), span(2, 0, 4096)];
        assert!(stream.spans().eq(rests));
        let (bytes, missing) = (4086 + 4097, 4086 + 4096);
        let excess = Err(ExcessPageBytes { bytes, missing });
        assert_eq!(stream.advance(bytes), excess);
        assert_eq!(stream.advance(missing), Ok(()));
        assert_eq!(stream.next_span(), None);
    }
}
