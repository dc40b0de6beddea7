//! What the pages of a bench hold.

/// Bytes whose words differ. A page whose words are all equal takes no frame.
pub(super) fn page_content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8).collect()
}
