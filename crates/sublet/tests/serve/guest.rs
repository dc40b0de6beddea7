//! A guest of one disk, over NBD: as much of the protocol as tests of the daemon need.

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

    /// Asks for a page to be written, and waits for no answer.
    pub(crate) fn ask_to_write(&mut self, page: u64, byte: u8) {
        self.begin(WRITE, page, 4096, &[byte; 4096]);
    }

    /// Writes a page; the errno that came back.
    pub(crate) fn write_page(&mut self, page: u64, byte: u8) -> u32 {
        self.ask(WRITE, page, &[byte; 4096])
    }

    /// What is in a page.
    pub(crate) fn read_page(&mut self, page: u64) -> [u8; 4096] {
        assert_eq!(self.ask(READ, page, &[]), 0, "an error");
        let mut bytes = [0; 4096];
        self.0.read_exact(&mut bytes).expect("a page");
        bytes
    }

    /// Has what was written last; the errno that came back.
    pub(crate) fn flush(&mut self) -> u32 {
        self.send(FLUSH, 0, 0, &[])
    }

    /// Asks for the disk's first bytes.
    pub(crate) fn ask_for(&mut self, bytes: u32) {
        self.begin(READ, 0, bytes, &[]);
    }

    /// Takes what it asked for.
    pub(crate) fn hear(&mut self, bytes: u32) {
        self.0.read_exact(&mut [0; 16]).expect("a reply");
        let taken = std::io::copy(&mut (&mut self.0).take(bytes.into()), &mut std::io::sink());
        assert_eq!(taken.expect("bytes"), u64::from(bytes));
    }

    fn ask(&mut self, verb: u16, page: u64, payload: &[u8]) -> u32 {
        self.send(verb, page, 4096, payload)
    }

    fn send(&mut self, verb: u16, page: u64, len: u32, payload: &[u8]) -> u32 {
        self.begin(verb, page, len, payload);
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).expect("a reply");
        u32::from_be_bytes(reply[4..8].try_into().expect("four bytes"))
    }

    fn begin(&mut self, verb: u16, page: u64, len: u32, payload: &[u8]) {
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
