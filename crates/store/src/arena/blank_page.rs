//! The bytes of a page that is being put.

use std::ops::{Deref, DerefMut};

use super::same_word::SameWord;

/// The bytes of a page that is being put. The writer writes all of them and reads none before, because they are those
/// of the frame's last page, perhaps another tenant's (R-T7).
///
/// Use it as a slice, or write it in one go with [`write`](UnwrittenPage::write). If there are many pages, `write` bypasses
/// the processor's caches, where the page would displace what the next pages need.
#[derive(Debug)]
pub struct UnwrittenPage<'a> {
    bytes: &'a mut [u8],
    streams: bool,
    /// Whether the last write went past the caches. Looking at the bytes would fetch them again.
    is_past_caches: bool,
}

/// Bytes that are copied at a time past the caches.
const STRIDE: usize = 128;

/// The required alignment of the first byte.
const ALIGN: usize = 32;

impl<'a> From<&'a mut [u8]> for UnwrittenPage<'a> {
    /// A page that is written like any other memory.
    fn from(bytes: &'a mut [u8]) -> UnwrittenPage<'a> {
        UnwrittenPage {
            bytes,
            streams: false,
            is_past_caches: false,
        }
    }
}

impl<'a> UnwrittenPage<'a> {
    /// A page that is written past the caches if possible. Its maker calls [`fence_streamed`] before another thread may
    /// look.
    pub(crate) fn streaming(bytes: &'a mut [u8]) -> UnwrittenPage<'a> {
        let fits = !bytes.is_empty()
            && bytes.len().is_multiple_of(STRIDE)
            && bytes.as_ptr().addr().is_multiple_of(ALIGN);
        UnwrittenPage {
            streams: fits && can_stream(),
            bytes,
            is_past_caches: false,
        }
    }

    /// Writes the whole page.
    ///
    /// # Panics
    ///
    /// `page` is longer or shorter than the page.
    #[inline]
    pub fn write(&mut self, page: &[u8]) {
        assert_eq!(page.len(), self.bytes.len(), "a whole page");
        self.is_past_caches = self.streams && SameWord::of(page).is_none();
        match self.is_past_caches {
            // SAFETY: both are borrowed for as many bytes, one of them exclusively. `streaming` saw that the page fits,
            // and its maker fences.
            true => unsafe { stream(page.as_ptr(), self.bytes.as_mut_ptr(), page.len()) },
            false => self.bytes.copy_from_slice(page),
        }
    }

    /// The word of the page, if it was written and all of its words are equal.
    pub(crate) fn same_word(&self) -> Option<SameWord> {
        match self.is_past_caches {
            true => None,
            false => SameWord::of(self.bytes),
        }
    }

    /// Writes the whole page from memory that other threads may write meanwhile. Such bytes arrive old, new or mixed.
    /// Returns whether it did; if not, the caller has to find another way. A page whose first words are equal is left to
    /// the caller.
    ///
    /// # Safety
    ///
    /// From `page` on there are as many readable bytes as the page has, none of them in the page.
    #[inline]
    pub unsafe fn write_racing(&mut self, page: *const u8) -> bool {
        // SAFETY: the caller vouches for the source. A volatile read may race with writes of others.
        let word = |n: usize| unsafe { page.cast::<[u8; 8]>().add(n).read_volatile() };
        self.is_past_caches = self.streams && word(0) != word(1);
        if self.is_past_caches {
            // SAFETY: the caller vouches for the source, and as in `write`. The compiler knows nothing of how the bytes
            // are read.
            unsafe { stream(page, self.bytes.as_mut_ptr(), self.bytes.len()) };
        }
        self.is_past_caches
    }
}

impl Deref for UnwrittenPage<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl DerefMut for UnwrittenPage<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.is_past_caches = false;
        self.bytes
    }
}

#[inline]
fn can_stream() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Makes other threads see all that was written past the caches before anything that is written later.
#[inline]
pub(crate) fn fence_streamed() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Copies past the caches.
///
/// # Safety
///
/// `from` and `to` are valid for `len` bytes, which do not overlap. `to` is aligned to [`ALIGN`]. `len` is a nonzero
/// multiple of [`STRIDE`]. The processor can stream.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: it reads and writes exactly the bytes that the caller vouches for, and no stack. `vzeroupper` changes all
    // of the registers that are named.
    unsafe {
        std::arch::asm!(
            "2:",
            "vmovdqu ymm0, [{from} + {at}]",
            "vmovdqu ymm1, [{from} + {at} + 32]",
            "vmovdqu ymm2, [{from} + {at} + 64]",
            "vmovdqu ymm3, [{from} + {at} + 96]",
            "vmovntdq [{to} + {at}], ymm0",
            "vmovntdq [{to} + {at} + 32], ymm1",
            "vmovntdq [{to} + {at} + 64], ymm2",
            "vmovntdq [{to} + {at} + 96], ymm3",
            "add {at}, {stride}",
            "cmp {at}, {len}",
            "jb 2b",
            "vzeroupper",
            from = in(reg) from,
            to = in(reg) to,
            len = in(reg) len,
            at = inout(reg) 0usize => _,
            stride = const STRIDE,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack),
        );
    }
}

/// Never called, because nothing streams here.
///
/// # Safety
///
/// As on x86-64.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller vouches for both.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct AlignedPage([u8; 4096]);

    fn counted() -> Vec<u8> {
        (0..4096 + 8).map(|n| (n % 251) as u8).collect()
    }

    #[test]
    fn a_page_is_written_whole_whichever_way() {
        let from = counted();
        for begin in 0..8 {
            let page = &from[begin..begin + 4096];
            let (mut plain, mut streamed, mut racing) = (
                AlignedPage([1; 4096]),
                AlignedPage([2; 4096]),
                AlignedPage([3; 4096]),
            );
            UnwrittenPage::from(&mut plain.0[..]).write(page);
            UnwrittenPage::streaming(&mut streamed.0[..]).write(page);
            let mut blank = UnwrittenPage::streaming(&mut racing.0[..]);
            // SAFETY: `page` has as many bytes.
            if !unsafe { blank.write_racing(page.as_ptr()) } {
                blank.copy_from_slice(page);
            }
            fence_streamed();
            assert!(plain.0 == *page && streamed.0 == *page && racing.0 == *page);
        }
    }

    #[test]
    fn what_does_not_fit_is_written_all_the_same() {
        let from = counted();
        let mut page = AlignedPage([0; 4096]);
        for range in [0..0, 0..16, 0..4000, 1..129, 32..160, 8..4096] {
            let len = range.len();
            UnwrittenPage::streaming(&mut page.0[range.clone()]).write(&from[..len]);
            fence_streamed();
            assert_eq!(page.0[range], from[..len]);
        }
    }

    #[test]
    #[should_panic(expected = "a whole page")]
    fn half_a_page_is_none() {
        UnwrittenPage::from(&mut [0; 64][..]).write(&[0; 32]);
    }
}
