//! Keys of memcached. The store uses the same bytes, once they are known to be short enough.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sublet_store::Marks;

/// The longest key, in bytes.
pub(super) const KEY_MAX: usize = 250;

/// A key of 1 to [`KEY_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key<'a>(Cow<'a, [u8]>);

impl<'a> Key<'a> {
    /// Makes a key of these bytes. Returns `None` if there are none or too many.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Key<'a>> {
        fits(bytes).then_some(Key(Cow::Borrowed(bytes)))
    }

    /// Returns the key whose base64 form this key is.
    pub(super) fn decoded(&self) -> Option<Key<'a>> {
        let bytes = STANDARD.decode(&self.0).ok()?;
        fits(&bytes).then_some(Key(Cow::Owned(bytes)))
    }

    /// Returns the bytes of the key.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// How a reply writes an item's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyForm {
    /// As the key's bytes.
    Plain,
    /// In base64, followed by the flag `b`.
    Base64,
}

impl KeyForm {
    /// Returns the form in which the client that stored the item gave its key.
    pub(super) fn of_item(marks: Marks) -> KeyForm {
        match marks.binary_key {
            true => KeyForm::Base64,
            false => KeyForm::Plain,
        }
    }
}

fn fits(bytes: &[u8]) -> bool {
    (1..=KEY_MAX).contains(&bytes.len())
}

/// Appends a key in base64.
pub(super) fn write_base64(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(STANDARD.encode(key).as_bytes());
}

/// Appends a key in a form without spaces and control characters.
pub(super) fn write_uri(out: &mut Vec<u8>, key: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte);
        } else {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            out.extend_from_slice(&[b'%', DIGITS[high], DIGITS[low]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_a_longest_length() {
        assert!(Key::new(b"").is_none());
        assert!(Key::new(&[b'k'; KEY_MAX]).is_some());
        assert!(Key::new(&[b'k'; KEY_MAX + 1]).is_none());
    }

    #[test]
    fn base64_keys_are_stored_decoded() {
        let key = Key::new(b"44OG44K544OI").expect("short enough");
        let decoded = key.decoded().expect("base64");
        assert_eq!(decoded.bytes(), "テスト".as_bytes());
        let mut out = Vec::new();
        write_base64(&mut out, decoded.bytes());
        assert_eq!(out, key.bytes());
        assert!(Key::new(b"!").and_then(|k| k.decoded()).is_none());
    }

    #[test]
    fn uris_hold_no_spaces() {
        let mut out = Vec::new();
        write_uri(&mut out, b"a b~\xff");
        assert_eq!(out, b"a%20b~%FF");
    }
}
