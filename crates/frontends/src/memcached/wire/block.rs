//! The block that a storage command's value stands in.

/// The longest value that a line may announce.
pub(in crate::memcached) const VALUE_MAX: usize = i32::MAX as usize - 2;

/// The block behind a storage command's line.
pub(in crate::memcached) enum Block<'a> {
    /// It has not come whole.
    Awaited,
    /// It does not end where it should.
    Bad,
    /// This.
    Value(&'a [u8]),
}

/// The bytes that end a block.
const BLOCK_END: &[u8] = b"\r\n";

/// Bytes that a block of this length takes, its end included.
pub(in crate::memcached) fn block_len(value: usize) -> usize {
    value + BLOCK_END.len()
}

/// The block of `len` bytes in what follows the line.
pub(in crate::memcached) fn block(after: &[u8], len: usize) -> Block<'_> {
    match after.get(..block_len(len)) {
        None => Block::Awaited,
        Some(block) => block
            .strip_suffix(BLOCK_END)
            .map_or(Block::Bad, Block::Value),
    }
}
