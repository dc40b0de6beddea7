//! Bytes between a socket and its session. A connection that has nothing unfinished holds no buffer;
//! those that a worker lends out come back empty.

use super::Outgoing;

/// Buffers that a worker keeps for reuse.
const SPARE_MAX: usize = 16;

/// What they may have together: two of them hold the largest value by default. The rest goes back to the allocator.
const SPARE_BYTES_MAX: usize = 4 << 20;

/// Buffers that are lent to connections with something unfinished.
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

/// Bytes that wait, and how far the front of them is done with.
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

    /// Memory that it holds, bytes.
    pub(crate) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// The end of the queue, for whoever appends to it.
    pub(crate) fn tail(&mut self, pool: &mut BufferPool) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = pool.lend();
        }
        &mut self.bytes
    }

    pub(crate) fn push(&mut self, pool: &mut BufferPool, bytes: &[u8]) {
        self.drop_done();
        self.tail(pool).extend_from_slice(bytes);
    }

    /// The front `count` bytes are done with; an empty queue gives its buffer back.
    pub(crate) fn finish(&mut self, pool: &mut BufferPool, count: usize) {
        self.done += count;
        if self.is_empty() {
            self.done = 0;
            pool.take_back(std::mem::take(&mut self.bytes));
        }
    }

    fn drop_done(&mut self) {
        if self.done > 0 {
            self.bytes.drain(..self.done);
            self.done = 0;
        }
    }
}

/// A queue whose bytes are sent, and where its buffer goes once they are.
pub(crate) struct Sending<'a> {
    queue: &'a mut ByteQueue,
    pool: &'a mut BufferPool,
}

impl ByteQueue {
    /// What waits, to be sent.
    pub(crate) fn sending<'a>(&'a mut self, pool: &'a mut BufferPool) -> Sending<'a> {
        Sending { queue: self, pool }
    }
}

impl Outgoing for Sending<'_> {
    fn waiting(&self) -> &[u8] {
        self.queue.waiting()
    }

    fn finish(&mut self, count: usize) {
        self.queue.finish(self.pool, count);
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
        queue.finish(&mut pool, 1);
        queue.push(&mut pool, b"de");
        assert_eq!(queue.waiting(), b"bcde");
        assert_eq!(queue.len(), 4);
    }

    #[test]
    fn an_empty_queue_holds_no_memory_and_large_buffers_are_not_kept() {
        let mut pool = BufferPool::new();
        let mut queue = ByteQueue::default();
        queue.push(&mut pool, b"abc");
        queue.finish(&mut pool, 3);
        assert_eq!(queue.held(), 0);
        assert_eq!(pool.spare.len(), 1);

        queue.push(&mut pool, &vec![0; SPARE_BYTES_MAX + 1]);
        queue.finish(&mut pool, SPARE_BYTES_MAX + 1);
        assert_eq!(queue.held(), 0);
        assert_eq!(pool.spare.len(), 0, "the grown buffer is gone");
    }
}
