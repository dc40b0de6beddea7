//! The words of a line, separated by one or more spaces.

use memchr::memchr;

/// The words of a line that are not read yet.
#[derive(Clone, Copy, Debug)]
pub(in crate::memcached) struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// Splits this line into words.
    pub(in crate::memcached) fn of(line: &'a [u8]) -> Words<'a> {
        Words(line)
    }

    /// Returns the rest of the line.
    pub(in crate::memcached) fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Returns whether the line ends with the word `noreply`.
    pub(in crate::memcached) fn ends_with_noreply(&self) -> bool {
        const NOREPLY: &[u8] = b"noreply";
        let text = self.0.trim_ascii_end();
        match text.strip_suffix(NOREPLY) {
            Some(before) => before.is_empty() || before.ends_with(b" "),
            None => false,
        }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let mut text = self.0;
        while let [b' ', rest @ ..] = text {
            text = rest;
        }
        if text.is_empty() {
            self.0 = text;
            return None;
        }
        let end = memchr(b' ', text).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parted_by_spaces() {
        let words: Vec<&[u8]> = Words::of(b"  stats   settings ").collect();
        assert_eq!(words, [b"stats".as_slice(), b"settings"]);
        assert_eq!(Words::of(b"").next(), None);
    }

    #[test]
    fn silence_is_asked_by_the_last_word() {
        for (line, silent) in [
            ("k 0 noreply", true),
            ("k noreply ", true),
            ("noreply", true),
            ("noreply 0", false),
            ("k xnoreply", false),
            ("", false),
        ] {
            assert_eq!(
                Words::of(line.as_bytes()).ends_with_noreply(),
                silent,
                "{line}"
            );
        }
    }
}
