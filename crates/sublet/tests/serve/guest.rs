//! A guest of one disk over NBD, with as much of the protocol as the tests need.

use crate::content::page_of;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const EXPORT_NAME: u32 = 1;
const NO_ZEROES: u32 = 3;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;

/// A guest that has its disk.
pub(crate) struct Guest(UnixStream);

impl Guest {
    /// Connects to the disk of that name at a Unix socket.
    pub(crate) fn of(socket: &Path, disk: &str) -> Guest {
        let mut stream = UnixStream::connect(socket).expect("connected");
        stream.read_exact(&mut [0; 18]).expect("a greeting");
        let mut asked = NO_ZEROES.to_be_bytes().to_vec();
        asked.extend(OPTION_MAGIC);
        asked.extend(EXPORT_NAME.to_be_bytes());
        asked.extend((disk.len() as u32).to_be_bytes());
        asked.extend(disk.as_bytes());
        stream.write_all(&asked).expect("sent");
        stream.read_exact(&mut [0; 10]).expect("size and flags");
        Guest(stream)
    }

    /// Sends a write of a page, and waits for no answer.
    pub(crate) fn send_write(&mut self, page: u64, byte: u8) {
        self.send_request(WRITE, page, 4096, &page_of(byte));
    }

    /// Writes a page. Returns the errno of the answer.
    pub(crate) fn write_page(&mut self, page: u64, byte: u8) -> u32 {
        self.call(WRITE, page, &page_of(byte))
    }

    /// The content of a page.
    pub(crate) fn read_page(&mut self, page: u64) -> [u8; 4096] {
        assert_eq!(self.call(READ, page, &[]), 0, "an error");
        let mut bytes = [0; 4096];
        self.0.read_exact(&mut bytes).expect("a page");
        bytes
    }

    /// Flushes what was written last. Returns the errno of the answer.
    pub(crate) fn flush(&mut self) -> u32 {
        self.send(FLUSH, 0, 0, &[])
    }

    /// Sends a read of the disk's first bytes.
    pub(crate) fn send_read(&mut self, bytes: u32) {
        self.send_request(READ, 0, bytes, &[]);
    }

    /// Receives the bytes of the read.
    pub(crate) fn receive_read(&mut self, bytes: u32) {
        self.0.read_exact(&mut [0; 16]).expect("a reply");
        let taken = std::io::copy(&mut (&mut self.0).take(bytes.into()), &mut std::io::sink());
        assert_eq!(taken.expect("bytes"), u64::from(bytes));
    }

    fn call(&mut self, verb: u16, page: u64, payload: &[u8]) -> u32 {
        self.send(verb, page, 4096, payload)
    }

    fn send(&mut self, verb: u16, page: u64, len: u32, payload: &[u8]) -> u32 {
        self.send_request(verb, page, len, payload);
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).expect("a reply");
        u32::from_be_bytes(reply[4..8].try_into().expect("four bytes"))
    }

    fn send_request(&mut self, verb: u16, page: u64, len: u32, payload: &[u8]) {
        let mut request = REQUEST_MAGIC.to_be_bytes().to_vec();
        request.extend(0u16.to_be_bytes());
        request.extend(verb.to_be_bytes());
        request.extend(page.to_be_bytes());
        request.extend((page * 4096).to_be_bytes());
        request.extend(len.to_be_bytes());
        request.extend(payload);
        self.0.write_all(&request).expect("sent");
    }
}
