//! Pages of a disk: which ones a range of bytes touches, and their keys.

use std::ops::Range;

use sublet_store::PageKey;
use sublet_types::{BLOCK_BYTES, ObjectId, PAGE_BYTES, PageIndex, PoolId};

/// Pages of an object: 2 MiB of the disk, which is also a cluster of Linux's swap.
pub(super) const OBJECT_PAGES: u64 = BLOCK_BYTES / PAGE_BYTES;

pub(super) const PAGE: usize = PAGE_BYTES as usize;

/// Cuts a range of pages where objects end.
pub(super) fn by_object(pages: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut from = pages.start;
    std::iter::from_fn(move || {
        let to = pages.end.min((from / OBJECT_PAGES + 1) * OBJECT_PAGES);
        let piece = from..to;
        from = to;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The key of a disk's page.
pub(super) fn key(pool: PoolId, page: u64) -> PageKey {
    PageKey {
        pool,
        object: ObjectId(page / OBJECT_PAGES),
        index: PageIndex((page % OBJECT_PAGES) as u32),
    }
}

/// A range of bytes, and the pages that it touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageSpan {
    at: u64,
    len: usize,
    pub(super) pages: Range<u64>,
}

impl PageSpan {
    pub(super) fn of(at: u64, len: usize) -> PageSpan {
        let end = at + len as u64;
        PageSpan {
            at,
            len,
            pages: at / PAGE_BYTES..end.div_ceil(PAGE_BYTES),
        }
    }

    /// Pages.
    pub(super) fn count(&self) -> u64 {
        self.pages.end - self.pages.start
    }

    /// Bytes of its pages.
    pub(super) fn bytes(&self) -> usize {
        self.count() as usize * PAGE
    }

    /// The span of all bytes of its pages.
    pub(super) fn widened(&self) -> PageSpan {
        PageSpan::of(self.pages.start * PAGE_BYTES, self.bytes())
    }

    /// Returns whether the range is exactly these pages.
    pub(super) fn is_exact(&self) -> bool {
        self.bytes() == self.len
    }

    /// The position of the range's bytes among those of its pages.
    pub(super) fn within(&self) -> Range<usize> {
        let from = (self.at - self.pages.start * PAGE_BYTES) as usize;
        from..from + self.len
    }

    /// The span in pieces of at most this many pages.
    pub(super) fn pieces(&self, pages: u64) -> impl Iterator<Item = PageSpan> {
        let (end, mut at) = (self.at + self.len as u64, self.at);
        std::iter::from_fn(move || {
            let most = (at / PAGE_BYTES)
                .saturating_add(pages)
                .saturating_mul(PAGE_BYTES);
            let piece = PageSpan::of(at, (end.min(most) - at) as usize);
            at += piece.len as u64;
            (piece.len > 0).then_some(piece)
        })
    }

    /// The position of a page's bytes among those of the span's pages.
    pub(super) fn page_bytes(&self, page: u64) -> Range<usize> {
        let from = (page - self.pages.start) as usize * PAGE;
        from..from + PAGE
    }

    /// A page's part of the range: where in the page, and where in the range.
    pub(super) fn piece(&self, page: u64) -> (Range<usize>, Range<usize>) {
        let begin = page * PAGE_BYTES;
        let from = self.at.max(begin);
        let to = (self.at + self.len as u64).min(begin + PAGE_BYTES);
        let of = |base: u64| (from - base) as usize..(to - base) as usize;
        (of(begin), of(self.at))
    }

    /// The pages of which the range has every byte.
    pub(super) fn whole(&self) -> Range<u64> {
        let first = self.at.div_ceil(PAGE_BYTES);
        let last = (self.at + self.len as u64) / PAGE_BYTES;
        first..last.max(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_where_pages_do() {
        let cover = PageSpan::of(512, 5 * PAGE);
        let pieces: Vec<PageSpan> = cover.pieces(2).collect();
        let ends = [
            (512, 2 * PAGE - 512),
            (2 * PAGE as u64, 2 * PAGE),
            (4 * PAGE as u64, PAGE + 512),
        ];
        assert_eq!(pieces, ends.map(|(at, len)| PageSpan::of(at, len)));
        assert_eq!(cover.pieces(u64::MAX).collect::<Vec<_>>(), [cover]);
    }

    #[test]
    fn ranges_are_cut_where_objects_end() {
        let pieces: Vec<_> = by_object(500..1030).collect();
        assert_eq!(pieces, [500..512, 512..1024, 1024..1030]);
        assert_eq!(by_object(7..7).count(), 0);
    }

    #[test]
    fn a_range_touches_the_pages_that_it_touches() {
        let cover = PageSpan::of(4000, 200);
        assert_eq!((cover.pages.clone(), cover.bytes()), (0..2, 8192));
        assert_eq!(cover.within(), 4000..4200);
        assert_eq!(cover.piece(0), (4000..4096, 0..96));
        assert_eq!(cover.piece(1), (0..104, 96..200));
        assert!(cover.whole().is_empty() && !cover.is_exact());
        assert_eq!(cover.widened(), PageSpan::of(0, 8192));
        let exact = PageSpan::of(8192, 8192);
        assert!(exact.is_exact());
        assert_eq!((exact.whole(), exact.page_bytes(3)), (2..4, 4096..8192));
    }
}
