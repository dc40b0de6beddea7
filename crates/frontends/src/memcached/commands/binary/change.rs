//! increment, decrement, delete, flush.

use sublet_store::NewCas;

use super::request::Request;
use crate::memcached::events::Command;
use crate::memcached::map::Key;
use crate::memcached::operate::{self, Counted, Delta, Seed};
use crate::memcached::outcome::Ran;
use crate::memcached::verbs::{Deleted, Direction};
use crate::memcached::wire::packet::{Quiet, Status};

/// The expiration that says: do not begin a missing number.
const NO_SEED: u32 = 0xffff_ffff;

/// Where the extras of a count lie.
const DELTA_AT: usize = 0;
const INITIAL_AT: usize = 8;
const EXPIRATION_AT: usize = 16;

impl Request<'_> {
    pub(super) fn count(&self, direction: Direction, out: &mut Vec<u8>) -> Ran {
        let Some(key) = Key::new(self.packet.key()) else {
            return self.fail(Status::InvalidArguments, out);
        };
        let expiration = self.packet.extra_32(EXPIRATION_AT);
        let delta = Delta {
            key,
            direction,
            by: self.packet.extra_64(DELTA_AT),
            compare: self.packet.compare(),
            seed: (expiration != NO_SEED).then(|| Seed {
                number: self.packet.extra_64(INITIAL_AT),
                expiry: self.caller.expiry(expiration.into()),
            }),
            expiry: None,
            cas: match self.quiet {
                Quiet::Yes => NewCas::Fresh,
                Quiet::No => NewCas::Told,
            },
            binary_key: false,
        };
        match operate::count(self.caller, &delta) {
            Counted::To { number, cas, .. } | Counted::Seeded { number, cas, .. } => {
                self.tell_number(number, cas, out)
            }
            Counted::Missing => self.fail(Status::NotFound, out),
            Counted::Exists => self.fail(Status::Exists, out),
            Counted::NotANumber => self.fail(Status::NotANumber, out),
            Counted::NoMemory => self.fail(Status::OutOfMemory, out),
        }
    }

    fn tell_number(&self, number: u64, cas: u64, out: &mut Vec<u8>) -> Ran {
        if self.quiet == Quiet::No {
            let number = number.to_be_bytes();
            self.packet
                .reply(0, 0, number.len(), self.caller.kept_cas(cas), out);
            out.extend_from_slice(&number);
        }
        Ran::Done { after: 0 }
    }

    pub(super) fn delete(&self, out: &mut Vec<u8>) -> Ran {
        let Some(key) = Key::new(self.packet.key()) else {
            return self.fail(Status::InvalidArguments, out);
        };
        match operate::delete(self.caller, &key, self.packet.compare(), Command::Delete) {
            Deleted::Done => self.succeed(out),
            Deleted::NotFound => self.fail(Status::NotFound, out),
            Deleted::Exists => self.fail(Status::Exists, out),
        }
    }

    pub(super) fn flush(&self, out: &mut Vec<u8>) -> Ran {
        self.caller.counters().cmd_flush.bump();
        if !self.caller.instance.settings.flush {
            return self.fail(Status::AuthFailure, out);
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
