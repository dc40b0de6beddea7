//! The lines of a streamed answer. The gateway ends each message of a stream by a line feed.

/// The most bytes of a line. etcd tells the changes of up to a thousand revisions in one.
pub const LINE_BYTES_MAX: usize = 8 << 20;

/// Cuts bytes into lines, however the bytes come.
#[derive(Debug, Default)]
pub struct LineReader {
    /// Bytes that have come.
    bytes: Vec<u8>,
    /// Where the next line begins.
    begin: usize,
    /// Up to here there is no line feed after `begin`.
    searched: usize,
}

/// A line exceeds [`LINE_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong;

impl LineReader {
    /// Adds bytes. Lines are to be taken before more are added.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.begin);
        self.searched -= self.begin;
        self.begin = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next line that is complete, without its end. Empty lines are skipped.
    ///
    /// # Errors
    ///
    /// The line is too long, complete or not.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, LineTooLong> {
        while let Some(length) = self.next_end() {
            let begin = self.begin;
            self.begin = begin + length + 1;
            self.searched = self.begin;
            if length > LINE_BYTES_MAX {
                return Err(LineTooLong);
            }
            if length > 0 {
                return Ok(Some(&self.bytes[begin..begin + length]));
            }
        }
        self.searched = self.bytes.len();
        match self.bytes.len() - self.begin > LINE_BYTES_MAX {
            true => Err(LineTooLong),
            false => Ok(None),
        }
    }

    /// The length of the line that begins at `begin`, if its end has come.
    fn next_end(&self) -> Option<usize> {
        let fresh = &self.bytes[self.searched..];
        let end = fresh.iter().position(|byte| *byte == b'\n')?;
        Some(self.searched + end - self.begin)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut reader = LineReader::default();
        let mut lines = Vec::new();
        for piece in pieces {
            reader.push(piece);
            while let Some(line) = reader.next_line().expect("short") {
                lines.push(line.to_vec());
            }
        }
        lines
    }

    proptest! {
        #[test]
        fn however_bytes_are_cut_the_lines_are_the_same(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..64),
            size in 1..9_usize,
        ) {
            let whole = lines(&[&text]);
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            prop_assert_eq!(&lines(&pieces), &whole);
            let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let expected: Vec<&[u8]> = text[..complete]
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
                .collect();
            prop_assert_eq!(whole, expected);
        }
    }

    #[test]
    fn a_line_has_a_bound_whether_its_end_comes_or_not() {
        let mut reader = LineReader::default();
        reader.push(&vec![b'a'; LINE_BYTES_MAX]);
        assert_eq!(reader.next_line(), Ok(None));
        reader.push(b"\n");
        assert_eq!(
            reader.next_line().map(|line| line.map(<[u8]>::len)),
            Ok(Some(LINE_BYTES_MAX))
        );
        reader.push(&vec![b'a'; LINE_BYTES_MAX + 1]);
        assert_eq!(reader.next_line(), Err(LineTooLong));
        let mut reader = LineReader::default();
        reader.push(&[vec![b'a'; LINE_BYTES_MAX + 1], b"\n".to_vec()].concat());
        assert_eq!(reader.next_line(), Err(LineTooLong));
    }
}
