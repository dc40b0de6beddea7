//! One message of pages to a lender, sealed straight to where the socket takes them from.
//!
//! ```text
//!  0              begin          HEAD_ROOM                  end
//!  | unused       | head, ranges | page | page | … | page   |
//! ```
//!
//! How many ranges there are is known when the pages are. So the head ends where the pages begin.

use std::io::{self, Write};

use sublet_lend::wire::{
    BorrowerChannel, HEAD_BYTES, HELLO_BYTES, MAC_BYTES, PAGE_BYTES, RANGE_BYTES,
};
use sublet_store::{LeaseSlot, OutboundPage, SealTag, Worker};

use crate::peers::byte_buffers::{SocketProgress, write_some};
use crate::peers::lease_routes::LeaseRoute;
use crate::peers::page_ranges::page_ranges;

/// The most pages of a message. The lender serves one message at a time, and a read waits for it.
pub(super) const BATCH_PAGES_MAX: usize = 32;

/// Room for a head with a range for each page.
const HEAD_ROOM: usize = HEAD_BYTES + BATCH_PAGES_MAX * RANGE_BYTES + MAC_BYTES;

/// A page that was taken out of the outbox, and the tag of its seal.
#[derive(Debug)]
pub(super) struct SealedPage {
    pub(super) page: OutboundPage,
    pub(super) tag: SealTag,
}

/// A message and what of it is not sent. Its memory is fixed.
pub(super) struct WriteMessage {
    bytes: Box<[u8]>,
    begin: usize,
    end: usize,
    /// The head, before it is put before the pages.
    head: Vec<u8>,
}

impl WriteMessage {
    /// An empty message.
    pub(super) fn new() -> WriteMessage {
        WriteMessage {
            bytes: vec![0; HEAD_ROOM + BATCH_PAGES_MAX * PAGE_BYTES].into(),
            begin: 0,
            end: 0,
            head: Vec::with_capacity(HEAD_ROOM),
        }
    }

    /// Makes it a hello.
    pub(super) fn set_hello(&mut self, hello: &[u8; HELLO_BYTES]) {
        self.bytes[..HELLO_BYTES].copy_from_slice(hello);
        (self.begin, self.end) = (0, HELLO_BYTES);
    }

    /// Takes pages of a lease out of the outbox, oldest first, seals them, and makes the message a write of them, which the
    /// channel knows from then on. `pages` gets them in their order. If none waits, there is no message.
    pub(super) fn fill_from_outbox(
        &mut self,
        worker: &Worker,
        lease: LeaseSlot,
        route: &LeaseRoute,
        channel: &mut BorrowerChannel,
        pages: &mut Vec<SealedPage>,
    ) {
        let sealed = &mut self.bytes[HEAD_ROOM..];
        worker.take_outbound(lease, BATCH_PAGES_MAX, |page, bytes| {
            let plain = bytes
                .first_chunk()
                .expect("the store's pages are the wire's");
            let at = pages.len() * PAGE_BYTES;
            let into = sealed[at..].first_chunk_mut().expect("room for a batch");
            let tag = route.seal(page.address, page.sequence, plain, into);
            pages.push(SealedPage { page, tag });
        });
        if pages.is_empty() {
            return;
        }
        let ranges = page_ranges(pages.iter().map(|sealed| sealed.page.address));
        self.head.clear();
        let request = channel.request(route.lease.0, &ranges, &mut self.head);
        request.expect("the channel has room, and the message has pages");
        self.begin = HEAD_ROOM - self.head.len();
        self.end = HEAD_ROOM + pages.len() * PAGE_BYTES;
        self.bytes[self.begin..HEAD_ROOM].copy_from_slice(&self.head);
    }

    /// Writes until all is sent or the socket takes nothing more.
    ///
    /// # Errors
    ///
    /// The socket failed.
    pub(super) fn send(&mut self, socket: &mut impl Write) -> io::Result<SocketProgress> {
        while self.begin < self.end {
            match write_some(socket, &self.bytes[self.begin..self.end])? {
                Some(sent) => self.begin += sent,
                None => return Ok(SocketProgress::Blocked),
            }
        }
        Ok(SocketProgress::More)
    }
}
