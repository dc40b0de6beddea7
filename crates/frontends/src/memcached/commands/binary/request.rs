//! One request of the binary protocol, and the replies that its commands share.

use crate::memcached::caller::Caller;
use crate::memcached::outcome::Ran;
use crate::memcached::wire::packet::{Packet, Quiet, Status};

/// One request, with whose it is and whether its success is told.
pub(super) struct Request<'a> {
    pub(super) caller: Caller<'a>,
    pub(super) packet: &'a Packet<'a>,
    pub(super) quiet: Quiet,
}

impl Request<'_> {
    /// Replies with success and nothing else; says nothing where the client asked for silence.
    pub(super) fn succeed(&self, out: &mut Vec<u8>) -> Ran {
        self.succeed_with(0, out)
    }

    /// The same with a cas unique.
    pub(super) fn succeed_with(&self, cas: u64, out: &mut Vec<u8>) -> Ran {
        if self.quiet == Quiet::No {
            self.packet.reply(0, 0, 0, cas, out);
        }
        Ran::Done { after: 0 }
    }

    /// Replies with an error.
    pub(super) fn fail(&self, status: Status, out: &mut Vec<u8>) -> Ran {
        self.packet.fail(status, out);
        Ran::Done { after: 0 }
    }

    /// Replies with a text.
    pub(super) fn say(&self, text: &[u8], out: &mut Vec<u8>) -> Ran {
        self.packet.reply(0, 0, text.len(), 0, out);
        out.extend_from_slice(text);
        Ran::Done { after: 0 }
    }
}

/// The value behind a request's head, or what to do without it.
pub(super) fn value<'a>(packet: &Packet<'_>, after: &'a [u8]) -> Result<&'a [u8], Ran> {
    let body = packet.value_len();
    after.get(..body).ok_or(Ran::Awaits { body })
}

/// Replies with an error, then closes.
pub(super) fn hang_up(packet: &Packet<'_>, status: Status, out: &mut Vec<u8>) -> Ran {
    packet.fail(status, out);
    Ran::Break
}
