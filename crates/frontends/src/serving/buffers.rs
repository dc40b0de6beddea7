//! Buffers for bytes between a socket and its session.
//!
//! A connection with nothing unfinished holds no buffer. The buffers that a worker lends come back empty.

use super::SendBuffer;

/// The most buffers that a worker keeps for reuse.
const SPARE_MAX: usize = 16;

/// The most bytes that the kept buffers have together. That is enough for two buffers, each of which holds the largest
/// value by default. The others go back to the allocator.
const SPARE_BYTES_MAX: usize = 4 << 20;

/// Buffers that a worker lends to connections with something unfinished.
pub(crate) struct BufferPool {
    spare: Vec<Vec<u8>>,
}

impl BufferPool {
    pub(crate) fn new() -> BufferPool {
        BufferPool {
            spare: Vec::with_capacity(SPARE_MAX),
        }
    }

    fn lend(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn take_back(&mut self, mut buffer: Vec<u8>) {
        let kept: usize = self.spare.iter().map(Vec::capacity).sum();
        let fits = kept + buffer.capacity() <= SPARE_BYTES_MAX;
        if self.spare.len() < SPARE_MAX && buffer.capacity() > 0 && fits {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

/// A queue of bytes, and how many at its front are done with.
#[derive(Default)]
pub(crate) struct ByteQueue {
    bytes: Vec<u8>,
    done: usize,
}

impl ByteQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.done == self.bytes.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.done
    }

    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.done..]
    }

    /// Returns the memory that the queue holds, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the end of the queue, to append to.
    pub(crate) fn tail(&mut self, pool: &mut BufferPool) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = pool.lend();
        }
        &mut self.bytes
    }

    pub(crate) fn push(&mut self, pool: &mut BufferPool, bytes: &[u8]) {
        self.drop_consumed();
        self.tail(pool).extend_from_slice(bytes);
    }

    /// Marks the front `count` bytes as done with. An empty queue gives its buffer back.
    pub(crate) fn consume(&mut self, pool: &mut BufferPool, count: usize) {
        self.done += count;
        if self.is_empty() {
            self.done = 0;
            pool.take_back(std::mem::take(&mut self.bytes));
        }
    }

    fn drop_consumed(&mut self) {
        if self.done > 0 {
            self.bytes.drain(..self.done);
            self.done = 0;
        }
    }
}

/// A queue whose bytes are to be sent, and the pool that gets its buffer back after that.
pub(crate) struct SendQueue<'a> {
    queue: &'a mut ByteQueue,
    pool: &'a mut BufferPool,
}

impl ByteQueue {
    /// Returns the queue in a form from which a stream sends.
    pub(crate) fn as_send_queue<'a>(&'a mut self, pool: &'a mut BufferPool) -> SendQueue<'a> {
        SendQueue { queue: self, pool }
    }
}

impl SendBuffer for SendQueue<'_> {
    fn waiting(&self) -> &[u8] {
        self.queue.waiting()
    }

    fn consume(&mut self, count: usize) {
        self.queue.consume(self.pool, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_order() {
        let mut pool = BufferPool::new();
        let mut queue = ByteQueue::default();
        queue.push(&mut pool, b"abc");
        queue.consume(&mut pool, 1);
        queue.push(&mut pool, b"de");
        assert_eq!(queue.waiting(), b"bcde");
        assert_eq!(queue.len(), 4);
    }

    #[test]
    fn an_empty_queue_holds_no_memory_and_large_buffers_are_not_kept() {
        let mut pool = BufferPool::new();
        let mut queue = ByteQueue::default();
        queue.push(&mut pool, b"abc");
        queue.consume(&mut pool, 3);
        assert_eq!(queue.held(), 0);
        assert_eq!(pool.spare.len(), 1);

        queue.push(&mut pool, &vec![0; SPARE_BYTES_MAX + 1]);
        queue.consume(&mut pool, SPARE_BYTES_MAX + 1);
        assert_eq!(queue.held(), 0);
        assert_eq!(pool.spare.len(), 0, "the grown buffer is gone");
    }
}
