//! Buffers that nobody uses just now, kept for the next request: who swaps is not to make the daemon allocate.

use super::Buffer;

/// Bytes that most requests have at the most.
const SMALL_BYTES: usize = 256 << 10;

/// The largest that is kept: what Linux sends together.
const LARGE_BYTES: usize = 1280 << 10;

/// Large ones that are kept.
const LARGE_MAX: usize = 4;

/// Buffers for further requests.
pub(crate) struct Spares {
    small: Vec<Buffer>,
    small_max: usize,
    large: Vec<Buffer>,
}

impl Spares {
    /// None yet; at most so many small ones, and a few large ones.
    pub(crate) fn new(small_max: usize) -> Spares {
        Spares {
            small: Vec::with_capacity(small_max),
            small_max,
            large: Vec::with_capacity(LARGE_MAX),
        }
    }

    /// A buffer of `len` bytes, whatever they are.
    pub(crate) fn take(&mut self, len: usize) -> Buffer {
        let spare = self.shelf(len).and_then(|(shelf, _)| shelf.pop());
        let mut buffer = spare.unwrap_or_default();
        buffer.resize(len);
        buffer
    }

    /// Nobody needs it any more.
    pub(crate) fn give_back(&mut self, buffer: Buffer) {
        let Some((shelf, most)) = self.shelf(buffer.made_for()) else {
            return;
        };
        if shelf.len() < most {
            shelf.push(buffer);
        }
    }

    /// Where buffers of so many bytes are kept, and how many of them; nowhere where there is nothing to keep, or too much.
    fn shelf(&mut self, bytes: usize) -> Option<(&mut Vec<Buffer>, usize)> {
        if bytes == 0 || bytes > LARGE_BYTES {
            None
        } else if bytes <= SMALL_BYTES {
            Some((&mut self.small, self.small_max))
        } else {
            Some((&mut self.large, LARGE_MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_any_size_that_is_kept_is_used_again() {
        for len in [1, 4096, SMALL_BYTES, SMALL_BYTES + 1, LARGE_BYTES] {
            let mut spares = Spares::new(1);
            let mut buffer = spares.take(len);
            (buffer[0], buffer[len - 1]) = (7, 7);
            let at = buffer.as_ptr();
            spares.give_back(buffer);
            let again = spares.take(len);
            assert_eq!(
                (again.as_ptr(), again.len(), again[0]),
                (at, len, 7),
                "{len}"
            );
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut spares = Spares::new(2);
        for len in [0, 4096, LARGE_BYTES, 2 * LARGE_BYTES] {
            let many: Vec<Buffer> = (0..9).map(|_| spares.take(len)).collect();
            many.into_iter().for_each(|buffer| spares.give_back(buffer));
        }
        assert_eq!((spares.small.len(), spares.large.len()), (2, LARGE_MAX));
    }
}
