//! memcached's binary protocol. A request is a head of 24 bytes, extras, a key and a value. Replies have the same form.

mod change;
mod get;
mod request;
mod sasl;
mod stat;
mod store;

use crate::memcached::caller::Caller;
use crate::memcached::instance::VERSION;
use crate::memcached::outcome::{AuthGate, LoopAction, RequestBody, RequestOutcome};
use crate::memcached::wire::packet::{BinaryCommand, Opcode, Packet, ResponseStatus};
use request::{BinaryRequest, hang_up};

/// Runs one request. `head` is its head with extras and key, and `after` is what follows them.
pub(in crate::memcached) fn run(
    caller: Caller<'_>,
    gate: AuthGate,
    head: &[u8],
    after: RequestBody<'_>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    let packet = Packet::parse(head);
    if let Err(status) = packet.check_lengths() {
        return hang_up(&packet, status, out);
    }
    let Some(Opcode {
        command: verb,
        quiet,
    }) = Opcode::of(packet.opcode)
    else {
        packet.fail(ResponseStatus::UnknownCommand, out);
        return RequestOutcome::Swallow {
            body: packet.value_len(),
        };
    };
    if gate == AuthGate::Shut && !sasl::needs_no_login(verb) {
        return hang_up(&packet, ResponseStatus::AuthFailure, out);
    }
    if !packet.key_fits() || !verb.fits(&packet) {
        return hang_up(&packet, ResponseStatus::InvalidArguments, out);
    }
    let request = BinaryRequest {
        caller,
        packet: &packet,
        quiet,
    };
    match verb {
        BinaryCommand::Get(shape) => request.get(shape, out),
        BinaryCommand::Store(mode) => request.store(mode, after, out),
        BinaryCommand::Concatenate(mode) => request.concatenate(mode, after, out),
        BinaryCommand::Count(direction) => request.count(direction, out),
        BinaryCommand::Delete => request.delete(out),
        BinaryCommand::Flush => request.flush(out),
        BinaryCommand::Stat => request.stat(after, out),
        BinaryCommand::Noop => request.succeed(out),
        BinaryCommand::Version => request.reply_text(VERSION.as_bytes(), out),
        BinaryCommand::Quit => {
            request.succeed(out);
            RequestOutcome::Stop(LoopAction::Close)
        }
        BinaryCommand::SaslList => request.list_mechanisms(out),
        BinaryCommand::SaslAuth => request.authenticate(after, out),
        BinaryCommand::SaslStep => request.step(after, out),
    }
}
