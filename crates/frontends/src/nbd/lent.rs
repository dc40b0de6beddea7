//! Replies that a client reads where they were written.
//!
//! `vmsplice` puts the pages of a reply into a pipe, and `splice` puts the pipe's pages into a Unix socket: the kernel
//! copies nothing until the client reads. So what was sent must stay as it is until then. `SIOCOUTQ` says how much is
//! unread, rather too much than too little; what may be among it is not written to: a fresh mapping takes its place,
//! and what is unmapped lives on in the socket. No other connection ever gets the memory.
//!
//! A client that splices what it is sent has read it, says the kernel, and still holds the pages. Hence only disks whose
//! owner says that no client does so are served like this.

#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{Advice, MmapMut};
use rustix::io::Errno;
use rustix::ioctl::{Getter, ioctl};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::pipe::{
    IoSliceRaw, PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice, vmsplice,
};
use sublet_types::Bytes;

use crate::doors::socket;

/// Bytes of a mapping: a huge page, whose parts travel as one.
const MAPPING_BYTES: usize = 2 << 20;

/// Fewer bytes than these are copied: that costs less than a pipe.
const SPLICED_MIN: usize = 32 << 10;

/// Room of the pipe, bytes; what the kernel lets anybody have. Where it does not, replies go in smaller pieces.
const PIPE_BYTES: usize = 1 << 20;

/// What the socket takes before its reader has read any of it, bytes; the kernel doubles that for its own overhead, and
/// may allow less. It holds no memory of its own for these, and a few large replies fit: nobody waits for a reader in
/// the midst of one.
const UNREAD_BYTES: usize = 512 << 10;

/// `SIOCOUTQ` of linux/sockios.h, which is a terminal's `TIOCOUTQ`.
const SIOCOUTQ: u32 = 0x5411;

/// Memory for one connection's replies, and the way that they take.
#[derive(Debug)]
pub(super) struct Lent {
    /// The connection's socket once more.
    socket: OwnedFd,
    /// Where pages go in, and where they come out.
    pipe: (OwnedFd, OwnedFd),
    /// Bytes that are in the pipe.
    piped: usize,
    /// What is written to now.
    here: Mapping,
    /// Bytes that left `here`.
    sent: u64,
    /// What was written to before; the client may have to read it yet.
    before: Option<Mapping>,
}

impl Lent {
    /// Memory for the replies to the client of a Unix socket that never blocks.
    pub(super) fn to(socket: &OwnedFd) -> io::Result<Lent> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let _ = fcntl_setpipe_size(&into, PIPE_BYTES);
        let _ = set_socket_send_buffer_size(socket, UNREAD_BYTES);
        Ok(Lent {
            socket: socket.try_clone()?,
            pipe: (into, out),
            piped: 0,
            here: Mapping::new(MAPPING_BYTES)?,
            sent: 0,
            before: None,
        })
    }

    /// What is written to now.
    pub(super) fn bytes(&self) -> &[u8] {
        self.here.bytes()
    }

    /// The same. Nothing that was sent may be written to.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.here.bytes_mut()
    }

    /// Memory that it holds, bytes.
    pub(super) fn held(&self) -> usize {
        self.here.len + self.before.as_ref().map_or(0, |before| before.len)
    }

    /// Whether part of a reply is on its way to the socket.
    pub(super) fn is_under_way(&self) -> bool {
        self.piped > 0
    }

    /// Sends some of the bytes there, or some that were said to be sent before. Says how many bytes are done with, and
    /// whether they were spliced.
    pub(super) fn send(&mut self, waiting: Range<usize>) -> io::Result<(usize, bool)> {
        if self.piped > 0 {
            self.pass_on()?;
            return Ok((0, true));
        }
        let bytes = &self.here.bytes()[waiting];
        let is_spliced = bytes.len() >= SPLICED_MIN;
        let count = match is_spliced {
            true => self.put_into_pipe(bytes)?,
            false => socket::send(&self.socket, bytes)?,
        };
        if is_spliced {
            self.piped = count;
        }
        self.sent += count as u64;
        Ok((count, is_spliced))
    }

    fn put_into_pipe(&self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = [IoSliceRaw::from_slice(bytes)];
        // SAFETY: the kernel reads these bytes, now and until the client has; they are mapped now, and it holds their
        // pages from then on.
        retry(|| unsafe { vmsplice(&self.pipe.0, &bytes, SpliceFlags::NONBLOCK) })
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let (out, socket) = (&self.pipe.1, &self.socket);
        match retry(|| splice(out, None, socket, None, self.piped, SpliceFlags::NONBLOCK))? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            count => {
                self.piped -= count;
                Ok(())
            }
        }
    }

    /// Goes on in memory that no client has to read, with room for `wanted` bytes. What waits in this one becomes the
    /// first of it.
    pub(super) fn go_on(&mut self, waiting: Range<usize>, wanted: usize) {
        let mut next = match self.before.take() {
            Some(before) if before.len >= wanted && self.has_read_before() => before,
            _ => Mapping::new(wanted.max(MAPPING_BYTES))
                .unwrap_or_else(|_| handle_alloc_error(Layout::new::<[u8; MAPPING_BYTES]>())),
        };
        let count = waiting.len();
        next.bytes_mut()[..count].copy_from_slice(&self.here.bytes()[waiting]);
        let left = std::mem::replace(&mut self.here, next);
        // A larger one was for one reply.
        self.before = Some(left).filter(|left| left.len == MAPPING_BYTES);
        self.sent = 0;
    }

    /// Gives up memory that was for one large reply, now that it is sent; says whether it did. Whoever rests after such a
    /// reply holds no more than others.
    pub(super) fn give_up_large(&mut self) -> bool {
        let is_large = self.here.len > MAPPING_BYTES;
        if is_large {
            self.go_on(0..0, 0);
        }
        is_large
    }

    /// Whether all that the client has to read yet was sent from here.
    fn has_read_before(&self) -> bool {
        // SAFETY: `SIOCOUTQ` writes one `int`.
        let unread = unsafe { ioctl(&self.socket, Getter::<SIOCOUTQ, c_int>::new()) };
        let unread = unread.ok().and_then(|unread| u64::try_from(unread).ok());
        unread.is_some_and(|unread| unread + self.piped as u64 <= self.sent)
    }
}

/// Bytes of all mappings of this process.
static LENT: AtomicUsize = AtomicUsize::new(0);

/// What this process has for replies that are read where they were written, at the most.
pub fn lent_bytes() -> Bytes {
    Bytes(LENT.load(Ordering::Relaxed) as u64)
}

/// Memory of its own, on huge pages where there are any. Another never gets it while somebody can read it.
#[derive(Debug)]
struct Mapping {
    map: MmapMut,
    from: usize,
    len: usize,
}

impl Mapping {
    fn new(len: usize) -> io::Result<Mapping> {
        let map = MmapMut::map_anon(len + MAPPING_BYTES)?;
        let _ = map.advise(Advice::HugePage);
        let from = map.as_ptr().align_offset(MAPPING_BYTES);
        LENT.fetch_add(len, Ordering::Relaxed);
        Ok(Mapping { map, from, len })
    }

    fn bytes(&self) -> &[u8] {
        &self.map[self.from..][..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map[self.from..][..self.len]
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        LENT.fetch_sub(self.len, Ordering::Relaxed);
    }
}

fn retry(mut call: impl FnMut() -> Result<usize, Errno>) -> io::Result<usize> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            outcome => return Ok(outcome?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::nbd::queue::Queue;

    /// A reply's worth, small enough for the socket to take many.
    const PIECE: usize = SPLICED_MIN;

    fn pair() -> (Lent, UnixStream) {
        let (here, there) = UnixStream::pair().expect("a pair");
        here.set_nonblocking(true).expect("it never blocks");
        (Lent::to(&here.into()).expect("memory"), there)
    }

    fn send(lent: &mut Lent, byte: u8) {
        lent.bytes_mut()[..PIECE].fill(byte);
        assert_eq!(lent.send(0..PIECE).expect("taken"), (PIECE, true));
        while lent.is_under_way() {
            lent.send(PIECE..PIECE).expect("passed on");
        }
    }

    fn read(there: &mut UnixStream, byte: u8) {
        let mut bytes = vec![0; PIECE];
        there.read_exact(&mut bytes).expect("bytes");
        assert!(bytes.iter().all(|got| *got == byte), "not {byte}");
    }

    #[test]
    fn what_a_client_has_yet_to_read_is_never_written_to() {
        let (mut lent, mut there) = pair();
        for byte in 0..4 {
            send(&mut lent, byte);
            lent.go_on(0..0, PIECE);
        }
        (0..4).for_each(|byte| read(&mut there, byte));
    }

    #[test]
    fn memory_that_was_read_is_used_again() {
        let (mut lent, mut there) = pair();
        let mut seen = std::collections::BTreeSet::new();
        for byte in 0..20 {
            send(&mut lent, byte);
            seen.insert(lent.bytes().as_ptr());
            read(&mut there, byte);
            lent.go_on(0..0, PIECE);
        }
        assert_eq!(seen.len(), 2);
    }

    #[test]
    fn what_is_unmapped_is_still_read() {
        let (mut lent, mut there) = pair();
        send(&mut lent, 7);
        drop(lent);
        read(&mut there, 7);
    }

    #[test]
    fn a_client_that_rests_after_a_large_reply_holds_little() {
        const LARGE: usize = 4 * MAPPING_BYTES;
        let (here, mut there) = UnixStream::pair().expect("a pair");
        here.set_nonblocking(true).expect("it never blocks");
        let here = here.into();
        let mut queue = Queue::lent(Lent::to(&here).expect("memory"));
        queue.space(LARGE).fill(5);
        let reader = std::thread::spawn(move || {
            let mut bytes = vec![0; LARGE];
            there.read_exact(&mut bytes).expect("bytes");
            bytes.iter().all(|got| *got == 5)
        });
        while !queue.is_empty() {
            if queue.send(&here).is_err() {
                std::thread::yield_now();
            }
        }
        assert_eq!(queue.held(), MAPPING_BYTES);
        assert!(reader.join().expect("no panic"), "other bytes");
    }

    #[test]
    fn a_reply_that_is_larger_than_the_rest_gets_memory_of_its_own() {
        let (mut lent, mut there) = pair();
        lent.bytes_mut()[..2].copy_from_slice(b"ab");
        lent.go_on(1..2, 3 * MAPPING_BYTES);
        assert_eq!(
            (lent.bytes().len(), lent.bytes()[0]),
            (3 * MAPPING_BYTES, b'b')
        );
        send(&mut lent, 9);
        lent.go_on(0..0, 1);
        assert_eq!(lent.bytes().len(), MAPPING_BYTES);
        read(&mut there, 9);
        assert_eq!(lent.held(), MAPPING_BYTES);
    }
}
