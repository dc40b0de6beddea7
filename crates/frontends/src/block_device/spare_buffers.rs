//! Keeps idle buffers for later requests, so that a guest that swaps does not make the daemon allocate.

use super::Buffer;

/// The largest buffer that counts as small. Most requests need no more.
const SMALL_BYTES: usize = 256 << 10;

/// The largest buffer that is kept: as much as Linux sends in one request.
const LARGE_BYTES: usize = 1280 << 10;

/// How many large buffers are kept.
const LARGE_MAX: usize = 4;

/// Idle buffers for later requests.
pub(crate) struct SpareBuffers {
    small: Vec<Buffer>,
    small_max: usize,
    large: Vec<Buffer>,
}

impl SpareBuffers {
    /// An empty store, which keeps at most `small_max` small buffers and a few large ones.
    pub(crate) fn new(small_max: usize) -> SpareBuffers {
        SpareBuffers {
            small: Vec::with_capacity(small_max),
            small_max,
            large: Vec::with_capacity(LARGE_MAX),
        }
    }

    /// A buffer of `len` bytes, whose contents are not defined.
    pub(crate) fn take(&mut self, len: usize) -> Buffer {
        let spare = self.size_class(len).and_then(|(spares, _)| spares.pop());
        let mut buffer = spare.unwrap_or_default();
        buffer.resize(len);
        buffer
    }

    /// Takes back a buffer that nobody needs any more.
    pub(crate) fn give_back(&mut self, buffer: Buffer) {
        let Some((spares, limit)) = self.size_class(buffer.largest_len()) else {
            return;
        };
        if spares.len() < limit {
            spares.push(buffer);
        }
    }

    /// The list for buffers of this size, and how many it keeps. `None` if the buffer is empty or too large to keep.
    fn size_class(&mut self, bytes: usize) -> Option<(&mut Vec<Buffer>, usize)> {
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
            let mut spares = SpareBuffers::new(1);
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
        let mut spares = SpareBuffers::new(2);
        for len in [0, 4096, LARGE_BYTES, 2 * LARGE_BYTES] {
            let many: Vec<Buffer> = (0..9).map(|_| spares.take(len)).collect();
            many.into_iter().for_each(|buffer| spares.give_back(buffer));
        }
        assert_eq!((spares.small.len(), spares.large.len()), (2, LARGE_MAX));
    }
}
