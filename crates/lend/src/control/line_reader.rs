//! Cuts what a connection brings into control lines.

use super::LINE_BYTES_MAX;
use super::error::ControlError;
use super::line::decode_line;
use super::message::ControlLine;

/// Cuts bytes, however they arrive, into lines. It keeps at most one unfinished line of [`LINE_BYTES_MAX`] bytes.
#[derive(Debug, Default)]
pub struct LineReader {
    unfinished: Vec<u8>,
}

impl LineReader {
    /// Takes bytes from the front of `input` up to the end of a line, and decodes the line. `None` means that `input`
    /// is used up and the line goes on. After an error the connection is to be closed.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<ControlLine>, ControlError> {
        let room = LINE_BYTES_MAX - self.unfinished.len();
        let seen = &input[..input.len().min(room)];
        let Some(end) = seen.iter().position(|&byte| byte == b'\n') else {
            if seen.len() == room {
                return Err(ControlError::Long);
            }
            self.unfinished.extend_from_slice(seen);
            *input = &[];
            return Ok(None);
        };
        let (line, rest) = (&input[..end], &input[end + 1..]);
        let decoded = if self.unfinished.is_empty() {
            decode_line(line)
        } else {
            self.unfinished.extend_from_slice(line);
            decode_line(&self.unfinished)
        };
        self.unfinished.clear();
        *input = rest;
        decoded.map(Some)
    }
}
