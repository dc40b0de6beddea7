//! Little-endian fields at fixed places of a byte array.

/// The field of `N` bytes at `at`, which must lie within `bytes`: both are constants of a layout.
pub(super) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has N bytes")
}

/// Puts `value` at `at`, which must leave room for it.
pub(super) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}
