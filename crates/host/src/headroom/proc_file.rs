//! Files of the kernel that are read again and again: into one buffer, and parsed without allocation. A few of them
//! stay open. Those of which there may be many never do.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// More than any of the files has. What goes beyond is not read.
const TEXT_MAX: usize = 64 << 10;
const TEXT_FIRST: usize = 8 << 10;

/// A file of the kernel, kept open.
#[derive(Debug)]
pub(super) struct ProcFile {
    path: PathBuf,
    file: File,
    text: Vec<u8>,
}

impl ProcFile {
    pub(super) fn open(path: impl AsRef<Path>) -> io::Result<ProcFile> {
        Ok(ProcFile {
            path: path.as_ref().to_owned(),
            file: File::open(path)?,
            text: vec![0; TEXT_FIRST],
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file's content now.
    pub(super) fn read(&mut self) -> io::Result<&[u8]> {
        read_whole(&self.file, &mut self.text)
    }
}

/// Reads files that are open only while they are read.
#[derive(Debug, Default)]
pub(super) struct ProcReader {
    text: Vec<u8>,
}

impl ProcReader {
    /// The content of a file now.
    pub(super) fn read(&mut self, path: &Path) -> io::Result<&[u8]> {
        self.text.resize(self.text.len().max(TEXT_FIRST), 0);
        read_whole(&File::open(path)?, &mut self.text)
    }
}

/// The kernel returns long files in pieces, so this reads until nothing comes.
fn read_whole<'a>(file: &File, text: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
    let mut len = 0;
    loop {
        if len == text.len() {
            if len >= TEXT_MAX {
                break;
            }
            text.resize(len * 2, 0);
        }
        match file.read_at(&mut text[len..], len as u64) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(&text[..len])
}

/// The lines of a text as words and the numbers that follow them: `MemFree:  123 kB`, `pswpout 0`.
pub(super) fn entries(text: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut words = line
            .split(|byte| matches!(byte, b' ' | b'\t'))
            .filter(|word| !word.is_empty());
        let key = words.next()?;
        Some((key, number(words.next()?)?))
    })
}

/// The number that is the whole of a text. `max` is the largest number.
pub(super) fn only_number(text: &[u8]) -> Option<u64> {
    match text.trim_ascii() {
        b"max" => Some(u64::MAX),
        digits => number(digits),
    }
}

/// The number after `name=` in a line that starts with `start` (`some avg10=0.00 … total=123`).
pub(super) fn field(text: &[u8], start: &[u8], name: &[u8]) -> Option<u64> {
    let line = text
        .split(|byte| *byte == b'\n')
        .find(|line| line.starts_with(start))?;
    line.split(|byte| *byte == b' ')
        .find_map(|word| number(word.strip_prefix(name)?))
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_are_found_and_other_lines_passed_over() {
        let text = b"MemFree:   123 kB\nHugePages_Total:       0\nnonsense\nx y\npswpout 7\n";
        let found: Vec<(&[u8], u64)> = entries(text).collect();
        assert_eq!(
            found,
            [
                (b"MemFree:".as_slice(), 123),
                (b"HugePages_Total:".as_slice(), 0),
                (b"pswpout".as_slice(), 7)
            ]
        );
    }

    #[test]
    fn a_limit_is_a_number_or_none_at_all() {
        assert_eq!(only_number(b"1048576\n"), Some(1 << 20));
        assert_eq!(only_number(b"max\n"), Some(u64::MAX));
        assert_eq!(only_number(b"-1\n"), None);
        assert_eq!(only_number(b"99999999999999999999\n"), None);
        assert_eq!(only_number(b""), None);
    }

    #[test]
    fn totals_are_read_from_their_own_line() {
        let text = b"some avg10=0.12 avg60=0.00 avg300=0.00 total=81\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
        assert_eq!(field(text, b"some", b"total="), Some(81));
        assert_eq!(field(text, b"full", b"total="), Some(9));
        assert_eq!(field(text, b"none", b"total="), None);
    }

    #[test]
    fn a_long_file_is_read_whole() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let text = "a 1\n".repeat(10_000);
        std::io::Write::write_all(&mut file, text.as_bytes()).expect("written");
        let mut proc_file = ProcFile::open(file.path()).expect("opened");
        assert_eq!(entries(proc_file.read().expect("read")).count(), 10_000);
    }
}
