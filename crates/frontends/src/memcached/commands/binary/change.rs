//! increment, decrement, delete, flush.

use sublet_store::NewCas;

use super::request::BinaryRequest;
use crate::memcached::map::Key;
use crate::memcached::operate::{self, CountOutcome, Delta, InitialNumber};
use crate::memcached::outcome::RequestOutcome;
use crate::memcached::verbs::{DeleteOutcome, Direction};
use crate::memcached::watch_event::DeleteCommand;
use crate::memcached::wire::packet::{Quiet, ResponseStatus};

/// The expiration that means: do not create a missing number.
const NO_SEED: u32 = 0xffff_ffff;

/// The offset of the amount in the extras of a count.
const DELTA_AT: usize = 0;
const INITIAL_AT: usize = 8;
const EXPIRATION_AT: usize = 16;

impl BinaryRequest<'_> {
    pub(super) fn count(&self, direction: Direction, out: &mut Vec<u8>) -> RequestOutcome {
        let Some(key) = Key::new(self.packet.key()) else {
            return self.fail(ResponseStatus::InvalidArguments, out);
        };
        let expiration = self.packet.extra_32(EXPIRATION_AT);
        let delta = Delta {
            key,
            direction,
            by: self.packet.extra_64(DELTA_AT),
            compare: self.packet.compare(),
            initial: (expiration != NO_SEED).then(|| InitialNumber {
                number: self.packet.extra_64(INITIAL_AT),
                expiry: self.caller.expiry(expiration.into()),
            }),
            expiry: None,
            cas: match self.quiet {
                Quiet::Yes => NewCas::Fresh,
                Quiet::No => NewCas::Reported,
            },
            binary_key: false,
        };
        match operate::count(self.caller, &delta) {
            CountOutcome::Changed { number, cas, .. }
            | CountOutcome::Created { number, cas, .. } => self.reply_number(number, cas, out),
            CountOutcome::Missing => self.fail(ResponseStatus::NotFound, out),
            CountOutcome::Exists => self.fail(ResponseStatus::Exists, out),
            CountOutcome::NotANumber => self.fail(ResponseStatus::NotANumber, out),
            CountOutcome::NoMemory => self.fail(ResponseStatus::OutOfMemory, out),
        }
    }

    fn reply_number(&self, number: u64, cas: u64, out: &mut Vec<u8>) -> RequestOutcome {
        if self.quiet == Quiet::No {
            let number = number.to_be_bytes();
            self.packet
                .reply(0, 0, number.len(), self.caller.stored_cas(cas), out);
            out.extend_from_slice(&number);
        }
        RequestOutcome::Done { body: 0 }
    }

    pub(super) fn delete(&self, out: &mut Vec<u8>) -> RequestOutcome {
        let Some(key) = Key::new(self.packet.key()) else {
            return self.fail(ResponseStatus::InvalidArguments, out);
        };
        match operate::delete(
            self.caller,
            &key,
            self.packet.compare(),
            DeleteCommand::Delete,
        ) {
            DeleteOutcome::Done => self.succeed(out),
            DeleteOutcome::NotFound => self.fail(ResponseStatus::NotFound, out),
            DeleteOutcome::Exists => self.fail(ResponseStatus::Exists, out),
        }
    }

    pub(super) fn flush(&self, out: &mut Vec<u8>) -> RequestOutcome {
        self.caller.counters().cmd_flush.bump();
        if !self.caller.instance.settings.flush {
            return self.fail(ResponseStatus::AuthFailure, out);
        }
        let delay = match self.packet.extras_len() {
            0 => 0,
            _ => self.packet.extra_32(0),
        };
        self.caller
            .instance
            .flush(self.caller.tenancy, delay.into());
        self.succeed(out)
    }
}
