//! What the pages of tests hold.

/// A page of these bytes, but the first. A page whose words are all equal would take no frame.
pub(crate) fn page_of(byte: u8) -> [u8; 4096] {
    let mut page = [byte; 4096];
    page[0] = !byte;
    page
}
