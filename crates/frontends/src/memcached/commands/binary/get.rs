//! get, touch and get-and-touch, with and without the key.

use sublet_store::{Item, ReadKind};

use super::request::BinaryRequest;
use crate::memcached::map::Key;
use crate::memcached::operate;
use crate::memcached::outcome::RequestOutcome;
use crate::memcached::wire::packet::{GetOptions, Quiet, ResponseStatus};

/// The length of a reply's extras, which are the client flags.
const FLAGS: usize = 4;

impl BinaryRequest<'_> {
    pub(super) fn get(&self, shape: GetOptions, out: &mut Vec<u8>) -> RequestOutcome {
        let Some(key) = Key::new(self.packet.key()) else {
            return self.fail(ResponseStatus::InvalidArguments, out);
        };
        let mark = out.len();
        let found = match shape.touches {
            false => operate::read(self.caller, &key, ReadKind::Use, |item| {
                self.show(shape, item, out)
            }),
            true => {
                let expiry = self.caller.expiry(self.packet.extra_32(0).into());
                operate::touch(self.caller, &key, expiry, |item| {
                    out.truncate(mark);
                    self.show(shape, item, out);
                })
            }
        };
        if found.is_none() {
            out.truncate(mark);
            self.miss(shape, out);
        }
        RequestOutcome::Done { body: 0 }
    }

    fn miss(&self, shape: GetOptions, out: &mut Vec<u8>) {
        match (self.quiet, shape.key) {
            (Quiet::Yes, _) => {}
            (Quiet::No, true) => self.packet.miss_with_key(out),
            (Quiet::No, false) => self.packet.fail(ResponseStatus::NotFound, out),
        }
    }

    fn show(&self, shape: GetOptions, item: &Item<'_>, out: &mut Vec<u8>) {
        let key: &[u8] = if shape.key { item.key() } else { b"" };
        let value = if shape.value { item.value().len() } else { 0 };
        self.packet
            .reply(FLAGS, key.len(), value, self.caller.item_cas(item), out);
        out.extend_from_slice(&item.flags().to_be_bytes());
        out.extend_from_slice(key);
        if shape.value {
            item.value().copy_to(out);
        }
    }
}
