//! A request of the binary protocol, and the replies that its commands share.

use crate::memcached::caller::Caller;
use crate::memcached::outcome::RequestOutcome;
use crate::memcached::wire::packet::{Packet, Quiet, ResponseStatus};

/// One request with its caller, and whether its success gets a reply.
pub(super) struct BinaryRequest<'a> {
    pub(super) caller: Caller<'a>,
    pub(super) packet: &'a Packet<'a>,
    pub(super) quiet: Quiet,
}

impl BinaryRequest<'_> {
    /// Replies with success and nothing else. A quiet request gets no reply.
    pub(super) fn succeed(&self, out: &mut Vec<u8>) -> RequestOutcome {
        self.succeed_with(0, out)
    }

    /// Replies in the same way, with a cas unique.
    pub(super) fn succeed_with(&self, cas: u64, out: &mut Vec<u8>) -> RequestOutcome {
        if self.quiet == Quiet::No {
            self.packet.reply(0, 0, 0, cas, out);
        }
        RequestOutcome::Done { body: 0 }
    }

    /// Replies with an error.
    pub(super) fn fail(&self, status: ResponseStatus, out: &mut Vec<u8>) -> RequestOutcome {
        self.packet.fail(status, out);
        RequestOutcome::Done { body: 0 }
    }

    /// Replies with a text.
    pub(super) fn reply_text(&self, text: &[u8], out: &mut Vec<u8>) -> RequestOutcome {
        self.packet.reply(0, 0, text.len(), 0, out);
        out.extend_from_slice(text);
        RequestOutcome::Done { body: 0 }
    }
}

/// Returns the value behind a request's head, or the outcome without it.
pub(super) fn value<'a>(packet: &Packet<'_>, after: &'a [u8]) -> Result<&'a [u8], RequestOutcome> {
    let body = packet.value_len();
    after.get(..body).ok_or(RequestOutcome::Awaits { body })
}

/// Replies with an error, then closes.
pub(super) fn hang_up(
    packet: &Packet<'_>,
    status: ResponseStatus,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    packet.fail(status, out);
    RequestOutcome::ProtocolError
}
