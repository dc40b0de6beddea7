//! The block of bytes that holds the value of a storage command.

/// The longest value that a line may announce.
pub(in crate::memcached) const VALUE_MAX: usize = i32::MAX as usize - 2;

/// The block behind the line of a storage command.
pub(in crate::memcached) enum ValueBlock<'a> {
    /// It has not come whole yet.
    Awaited,
    /// It does not end with `\r\n`.
    Bad,
    /// It holds this value.
    Value(&'a [u8]),
}

/// The bytes that end a block.
const BLOCK_END: &[u8] = b"\r\n";

/// Returns the length of the block of a value, including its end.
pub(in crate::memcached) fn value_block_len(value: usize) -> usize {
    value + BLOCK_END.len()
}

/// Returns the block of `len` bytes in what follows the line.
pub(in crate::memcached) fn value_block(after: &[u8], len: usize) -> ValueBlock<'_> {
    match after.get(..value_block_len(len)) {
        None => ValueBlock::Awaited,
        Some(block) => block
            .strip_suffix(BLOCK_END)
            .map_or(ValueBlock::Bad, ValueBlock::Value),
    }
}
