//! memcached's binary protocol: a head of 24 bytes, extras, a key, a value; replies of the same form.

mod change;
mod get;
mod request;
mod sasl;
mod stat;
mod store;

use crate::memcached::caller::Caller;
use crate::memcached::instance::VERSION;
use crate::memcached::outcome::{After, Gate, Next, Ran};
use crate::memcached::wire::packet::{Opcode, Packet, Status, Verb};
use request::{Request, hang_up};

/// Runs one request: its head, extras and key, and what follows them.
pub(in crate::memcached) fn run(
    caller: Caller<'_>,
    gate: Gate,
    head: &[u8],
    after: After<'_>,
    out: &mut Vec<u8>,
) -> Ran {
    let packet = Packet::parse(head);
    if let Err(status) = packet.bounds() {
        return hang_up(&packet, status, out);
    }
    let Some(Opcode { verb, quiet }) = Opcode::of(packet.opcode) else {
        packet.fail(Status::UnknownCommand, out);
        return Ran::Swallow {
            body: packet.value_len(),
        };
    };
    if gate == Gate::Shut && !sasl::is_open_to_all(verb) {
        return hang_up(&packet, Status::AuthFailure, out);
    }
    if !packet.key_fits() || !verb.fits(&packet) {
        return hang_up(&packet, Status::InvalidArguments, out);
    }
    let request = Request {
        caller,
        packet: &packet,
        quiet,
    };
    match verb {
        Verb::Get(shape) => request.get(shape, out),
        Verb::Store(mode) => request.store(mode, after, out),
        Verb::Join(mode) => request.join(mode, after, out),
        Verb::Count(direction) => request.count(direction, out),
        Verb::Delete => request.delete(out),
        Verb::Flush => request.flush(out),
        Verb::Stat => request.stat(after, out),
        Verb::Noop => request.succeed(out),
        Verb::Version => request.say(VERSION.as_bytes(), out),
        Verb::Quit => {
            request.succeed(out);
            Ran::Stop(Next::Close)
        }
        Verb::SaslList => request.list_mechanisms(out),
        Verb::SaslAuth => request.authenticate(after, out),
        Verb::SaslStep => request.step(after, out),
    }
}
