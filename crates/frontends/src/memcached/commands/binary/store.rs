//! set, add, replace, append, prepend.

use sublet_store::NewCas;
use sublet_types::Expiry;

use super::request::{Request, value};
use crate::memcached::map::Key;
use crate::memcached::operate::{self, Store};
use crate::memcached::outcome::{After, Ran};
use crate::memcached::verbs::{Mode, Older, Stored};
use crate::memcached::wire::packet::{Quiet, Status};

impl Request<'_> {
    pub(super) fn store(&self, mode: Mode, after: After<'_>, out: &mut Vec<u8>) -> Ran {
        let flags = self.packet.extra_32(0);
        let expiry = self.caller.expiry(self.packet.extra_32(4).into());
        let compared = match self.packet.compare() {
            Some(_) => Mode::Cas,
            None => mode,
        };
        self.put(mode, compared, flags, expiry, after, out)
    }

    pub(super) fn join(&self, mode: Mode, after: After<'_>, out: &mut Vec<u8>) -> Ran {
        self.put(mode, mode, 0, Expiry::Never, after, out)
    }

    fn put(
        &self,
        asked: Mode,
        mode: Mode,
        flags: u32,
        expiry: Expiry,
        after: After<'_>,
        out: &mut Vec<u8>,
    ) -> Ran {
        let Some(key) = Key::new(self.packet.key()) else {
            return self.fail(Status::InvalidArguments, out);
        };
        let store = Store {
            key,
            mode,
            flags,
            expiry,
            compare: self.packet.compare(),
            older: Older::Fails,
            vivify: None,
            cas: match self.quiet {
                Quiet::Yes => NewCas::Fresh,
                Quiet::No => NewCas::Told,
            },
            binary_key: false,
        };
        let body = self.packet.value_len();
        if self.caller.too_large(store.key.bytes().len(), flags, body) {
            return self.refuse(asked, &store, Stored::TooLarge, out);
        }
        let After::Input(after) = after else {
            return self.refuse(asked, &store, Stored::NoMemory, out);
        };
        match value(self.packet, after) {
            Err(awaits) => awaits,
            Ok(value) => self.tell(asked, operate::store(self.caller, &store, value), out),
        }
    }

    fn refuse(&self, asked: Mode, store: &Store<'_>, why: Stored, out: &mut Vec<u8>) -> Ran {
        operate::refuse(self.caller, store, why);
        if asked == Mode::Set {
            operate::remove(self.caller, &store.key);
        }
        self.packet.fail(why.into(), out);
        Ran::Swallow {
            body: self.packet.value_len(),
        }
    }

    fn tell(&self, asked: Mode, stored: Stored, out: &mut Vec<u8>) -> Ran {
        match (asked, stored) {
            (_, Stored::Done { cas, .. }) => self.succeed_with(self.caller.kept_cas(cas), out),
            (Mode::Add, Stored::Unmet) => self.fail(Status::Exists, out),
            (Mode::Replace, Stored::Unmet) => self.fail(Status::NotFound, out),
            _ => self.fail(stored.into(), out),
        };
        Ran::Done {
            after: self.packet.value_len(),
        }
    }
}
