//! set, add, replace, append, prepend.

use sublet_store::NewCas;
use sublet_types::Expiry;

use super::request::{BinaryRequest, value};
use crate::memcached::map::Key;
use crate::memcached::operate::{self, StoreRequest};
use crate::memcached::outcome::{RequestBody, RequestOutcome};
use crate::memcached::verbs::{OlderCas, StoreMode, StoreOutcome};
use crate::memcached::wire::packet::{Quiet, ResponseStatus};

impl BinaryRequest<'_> {
    pub(super) fn store(
        &self,
        mode: StoreMode,
        after: RequestBody<'_>,
        out: &mut Vec<u8>,
    ) -> RequestOutcome {
        let flags = self.packet.extra_32(0);
        let expiry = self.caller.expiry(self.packet.extra_32(4).into());
        let compared = match self.packet.compare() {
            Some(_) => StoreMode::Cas,
            None => mode,
        };
        self.put(mode, compared, flags, expiry, after, out)
    }

    pub(super) fn concatenate(
        &self,
        mode: StoreMode,
        after: RequestBody<'_>,
        out: &mut Vec<u8>,
    ) -> RequestOutcome {
        self.put(mode, mode, 0, Expiry::Never, after, out)
    }

    fn put(
        &self,
        requested: StoreMode,
        mode: StoreMode,
        flags: u32,
        expiry: Expiry,
        after: RequestBody<'_>,
        out: &mut Vec<u8>,
    ) -> RequestOutcome {
        let Some(key) = Key::new(self.packet.key()) else {
            return self.fail(ResponseStatus::InvalidArguments, out);
        };
        let store = StoreRequest {
            key,
            mode,
            flags,
            expiry,
            compare: self.packet.compare(),
            older_cas: OlderCas::Fails,
            vivify: None,
            cas: match self.quiet {
                Quiet::Yes => NewCas::Fresh,
                Quiet::No => NewCas::Reported,
            },
            binary_key: false,
        };
        let body = self.packet.value_len();
        if self.caller.too_large(store.key.bytes().len(), flags, body) {
            return self.refuse(requested, &store, StoreOutcome::TooLarge, out);
        }
        let RequestBody::Input(after) = after else {
            return self.refuse(requested, &store, StoreOutcome::NoMemory, out);
        };
        match value(self.packet, after) {
            Err(awaits) => awaits,
            Ok(value) => {
                self.reply_outcome(requested, operate::store(self.caller, &store, value), out)
            }
        }
    }

    fn refuse(
        &self,
        requested: StoreMode,
        store: &StoreRequest<'_>,
        why: StoreOutcome,
        out: &mut Vec<u8>,
    ) -> RequestOutcome {
        operate::refuse(self.caller, store, why);
        if requested == StoreMode::Set {
            operate::remove(self.caller, &store.key);
        }
        self.packet.fail(why.into(), out);
        RequestOutcome::Swallow {
            body: self.packet.value_len(),
        }
    }

    fn reply_outcome(
        &self,
        requested: StoreMode,
        stored: StoreOutcome,
        out: &mut Vec<u8>,
    ) -> RequestOutcome {
        match (requested, stored) {
            (_, StoreOutcome::Done { cas, .. }) => {
                self.succeed_with(self.caller.stored_cas(cas), out)
            }
            (StoreMode::Add, StoreOutcome::ConditionUnmet) => {
                self.fail(ResponseStatus::Exists, out)
            }
            (StoreMode::Replace, StoreOutcome::ConditionUnmet) => {
                self.fail(ResponseStatus::NotFound, out)
            }
            _ => self.fail(stored.into(), out),
        };
        RequestOutcome::Done {
            body: self.packet.value_len(),
        }
    }
}
