//! A client that gets keys, and sets those that it missed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use sublet_sim::rng::SimRng;

use super::load_generator::LoadError;
use super::request_stream::shown;

/// The most gets that are under way at once. A key that is under way is not asked for again.
const BATCH: usize = 64;

/// A server counts as broken if it answers nothing for this long.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The results of a replay.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplayCounts {
    /// Gets that missed.
    pub(super) misses: u64,
    /// Sets that were refused for want of memory.
    pub(super) refused: u64,
}

/// Keys by number, each with a value of its own size.
pub(super) struct TraceReplay<'a> {
    key_bytes: usize,
    value_bytes: &'a [u32],
    noise: Vec<u8>,
}

impl<'a> TraceReplay<'a> {
    /// Makes a replay. `value_bytes[n]` is the size of key number n's value.
    pub(super) fn new(key_bytes: usize, value_bytes: &'a [u32]) -> TraceReplay<'a> {
        let largest = value_bytes.iter().copied().max().unwrap_or(0) as usize;
        let mut rng = SimRng::seeded(0);
        TraceReplay {
            key_bytes,
            value_bytes,
            noise: (0..largest + SHIFTS).map(|_| rng.bits() as u8).collect(),
        }
    }

    /// Replays `requests`: key numbers in order.
    pub(super) fn run(
        &self,
        address: SocketAddr,
        requests: &[u32],
    ) -> Result<ReplayCounts, LoadError> {
        let mut line = BufferedConnection::open(address)?;
        let mut out = Vec::new();
        let mut missed = Vec::new();
        let mut replayed = ReplayCounts::default();
        for batch in batches(requests) {
            out.clear();
            batch.iter().for_each(|key| self.put_get(*key, &mut out));
            line.socket.write_all(&out)?;
            missed.clear();
            for &key in batch {
                if !self.is_hit(key, &mut line)? {
                    missed.push(key);
                }
            }
            replayed.misses += missed.len() as u64;
            replayed.refused += self.set_all(&missed, &mut out, &mut line)?;
        }
        Ok(replayed)
    }

    /// The keys that a server holds.
    pub(super) fn resident_keys(&self, address: SocketAddr) -> Result<Vec<u32>, LoadError> {
        let mut line = BufferedConnection::open(address)?;
        let mut out = Vec::new();
        let mut held = Vec::new();
        let keys: Vec<u32> = (0..self.value_bytes.len() as u32).collect();
        for batch in keys.chunks(BATCH) {
            out.clear();
            for &key in batch {
                out.extend_from_slice(b"mg ");
                self.put_key(key, &mut out);
                out.extend_from_slice(b"\r\n");
            }
            line.socket.write_all(&out)?;
            for &key in batch {
                let is_held = line.peek(HELD.len())? == HELD;
                line.expect(if is_held { HELD } else { ABSENT })?;
                held.extend(is_held.then_some(key));
            }
        }
        Ok(held)
    }

    fn put_key(&self, key: u32, out: &mut Vec<u8>) {
        // A write to a Vec cannot fail.
        let _ = write!(out, "{key:0width$}", width = self.key_bytes);
    }

    fn put_get(&self, key: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(b"get ");
        self.put_key(key, out);
        out.extend_from_slice(b"\r\n");
    }

    fn value(&self, key: u32) -> &[u8] {
        let from = key as usize * 61 % SHIFTS;
        &self.noise[from..][..self.value_bytes[key as usize] as usize]
    }

    /// Reads one reply to a get, and checks the value that comes with a hit.
    fn is_hit(&self, key: u32, line: &mut BufferedConnection) -> Result<bool, LoadError> {
        const END: &[u8] = b"END\r\n";
        if line.peek(END.len())? == END {
            line.skip(END.len());
            return Ok(false);
        }
        let mut head = b"VALUE ".to_vec();
        self.put_key(key, &mut head);
        let _ = write!(head, " 0 {}\r\n", self.value_bytes[key as usize]);
        line.expect(&head)?;
        line.expect(self.value(key))?;
        line.expect(b"\r\nEND\r\n")?;
        Ok(true)
    }

    /// Sets `keys`. Returns how many the server refused for want of memory.
    fn set_all(
        &self,
        keys: &[u32],
        out: &mut Vec<u8>,
        line: &mut BufferedConnection,
    ) -> Result<u64, LoadError> {
        out.clear();
        for &key in keys {
            out.extend_from_slice(b"set ");
            self.put_key(key, out);
            let _ = write!(out, " 0 0 {}\r\n", self.value_bytes[key as usize]);
            out.extend_from_slice(self.value(key));
            out.extend_from_slice(b"\r\n");
        }
        line.socket.write_all(out)?;
        let mut refused = 0;
        for _ in keys {
            if line.peek(STORED.len())? == STORED {
                line.skip(STORED.len());
            } else {
                let is_short = line.peek(NO_BUFFER.len())? == NO_BUFFER;
                line.expect(if is_short { NO_BUFFER } else { NO_MEMORY })?;
                refused += 1;
            }
        }
        Ok(refused)
    }
}

/// Splits `requests` into pieces in which no key comes twice. A second request for a key finds what was stored for the
/// first.
fn batches(mut requests: &[u32]) -> impl Iterator<Item = &[u32]> {
    std::iter::from_fn(move || {
        let most = requests.len().min(BATCH);
        let repeats = |at: &usize| requests[..*at].contains(&requests[*at]);
        let len = (0..most).find(repeats).unwrap_or(most);
        let (batch, rest) = requests.split_at(len);
        requests = rest;
        (len > 0).then_some(batch)
    })
}

const HELD: &[u8] = b"HD\r\n";
const ABSENT: &[u8] = b"EN\r\n";
const STORED: &[u8] = b"STORED\r\n";
/// memcached's reply if it finds no memory to read a value into.
const NO_BUFFER: &[u8] = b"SERVER_ERROR Out of memory during read\r\n";
const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";

/// Different values begin at this many different places of one block of noise.
const SHIFTS: usize = 4096;

/// A connection, and what came from it but was not read yet.
struct BufferedConnection {
    socket: TcpStream,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
}

impl BufferedConnection {
    fn open(address: SocketAddr) -> io::Result<BufferedConnection> {
        const BUFFER: usize = 2 << 20;
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(BufferedConnection {
            socket,
            buffer: vec![0; BUFFER],
            from: 0,
            to: 0,
        })
    }

    /// The next `wanted` bytes. They stay in the buffer.
    fn peek(&mut self, wanted: usize) -> Result<&[u8], LoadError> {
        if self.from + wanted > self.buffer.len() {
            self.buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        while self.to - self.from < wanted {
            match self.socket.read(&mut self.buffer[self.to..]) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(read) => self.to += read,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let so_far = &self.buffer[self.from..self.to];
                    return Err(LoadError::Silence(shown(so_far)));
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(&self.buffer[self.from..][..wanted])
    }

    fn skip(&mut self, bytes: usize) {
        self.from += bytes;
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }

    fn expect(&mut self, expected: &[u8]) -> Result<(), LoadError> {
        let received = self.peek(expected.len())?;
        if received != expected {
            return Err(LoadError::wrong(expected, received));
        }
        self.skip(expected.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_no_key_twice() {
        let parts: Vec<&[u32]> = batches(&[1, 2, 1, 1, 3]).collect();
        assert_eq!(parts, [&[1, 2][..], &[1], &[1, 3]]);
        let many: Vec<u32> = (0..100).collect();
        let lens: Vec<usize> = batches(&many).map(<[u32]>::len).collect();
        assert_eq!(lens, [64, 36]);
    }
}
