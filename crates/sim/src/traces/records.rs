//! Records of fixed size, and lines: every reader is built from these.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use super::faults::{TraceError, TraceFault, TraceName, TracePosition};

/// Reads records of `N` bytes.
pub(super) struct RecordReader<R, const N: usize> {
    bytes: BufReader<R>,
    offset: u64,
    pub(super) source: TraceName,
}

impl<R: Read, const N: usize> RecordReader<R, N> {
    pub(super) fn of(source: TraceName, bytes: R) -> RecordReader<R, N> {
        RecordReader {
            bytes: BufReader::with_capacity(1 << 16, bytes),
            offset: 0,
            source,
        }
    }

    /// The offset of the record that was read last.
    pub(super) fn place(&self) -> TracePosition {
        TracePosition::Byte(self.offset.saturating_sub(N as u64))
    }

    fn fill(&mut self, record: &mut [u8; N]) -> (usize, io::Result<()>) {
        let mut got = 0;
        while got < N {
            match self.bytes.read(&mut record[got..]) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return (got, Err(cause)),
            }
        }
        (got, Ok(()))
    }
}

impl<R: Read, const N: usize> Iterator for RecordReader<R, N> {
    type Item = Result<[u8; N], TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut record = [0; N];
        let at = TracePosition::Byte(self.offset);
        let fault = match self.fill(&mut record) {
            (0, Ok(())) => return None,
            (got, Ok(())) if got == N => {
                self.offset += N as u64;
                return Some(Ok(record));
            }
            (got, Ok(())) => TraceFault::MidRecord { got, wanted: N },
            (_, Err(cause)) => TraceFault::Unreadable(cause),
        };
        Some(Err(self.source.wrong(at, fault)))
    }
}

/// The longest line of a trace, in bytes.
const LINE_BYTES_MAX: usize = 1 << 16;

/// Reads lines, and counts them.
pub(super) struct LineReader<R> {
    bytes: BufReader<R>,
    line: String,
    number: u64,
    pub(super) source: TraceName,
}

impl<R: Read> LineReader<R> {
    pub(super) fn of(source: TraceName, bytes: R) -> LineReader<R> {
        LineReader {
            bytes: BufReader::with_capacity(1 << 16, bytes),
            line: String::new(),
            number: 0,
            source,
        }
    }

    /// The line that was read last.
    pub(super) fn text(&self) -> &str {
        self.line.trim()
    }

    /// Makes an error about that line.
    pub(super) fn wrong(&self, fault: TraceFault) -> TraceError {
        self.source.wrong(TracePosition::Line(self.number), fault)
    }

    /// Reads the next line that is neither empty nor a comment. Returns `false` at the end.
    pub(super) fn advance(&mut self) -> Result<bool, TraceError> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut bounded = (&mut self.bytes).take(LINE_BYTES_MAX as u64);
            let read = bounded.read_line(&mut self.line);
            match read {
                Ok(0) => return Ok(false),
                Ok(LINE_BYTES_MAX) => return Err(self.wrong(TraceFault::LongLine(LINE_BYTES_MAX))),
                Ok(_) if self.text().is_empty() || self.text().starts_with('#') => {}
                Ok(_) => return Ok(true),
                Err(cause) => return Err(self.wrong(TraceFault::Unreadable(cause))),
            }
        }
    }
}

/// The 16-bit little-endian number at `offset`. The record's type guarantees its length.
pub(super) fn u16_at(record: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(std::array::from_fn(|n| record[offset + n]))
}

/// The same with 32 bits.
pub(super) fn u32_at(record: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|n| record[offset + n]))
}

/// The same with 64 bits.
pub(super) fn u64_at(record: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|n| record[offset + n]))
}
