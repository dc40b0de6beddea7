//! stat: a packet for each figure.

use super::super::stats::{self, Group};
use super::request::{Request, value};
use crate::memcached::operate::listing::{Form, Listing};
use crate::memcached::operate::sizes::Sizes;
use crate::memcached::outcome::{After, Ran};
use crate::memcached::wire::packet::{Packet, Status};
use crate::memcached::wire::rows::Rows;

impl Request<'_> {
    pub(super) fn stat(&self, after: After<'_>, out: &mut Vec<u8>) -> Ran {
        let After::Input(after) = after else {
            self.packet.fail(Status::OutOfMemory, out);
            return Ran::Swallow {
                body: self.packet.value_len(),
            };
        };
        if let Err(awaits) = value(self.packet, after) {
            return awaits;
        }
        let done = Ran::Done {
            after: self.packet.value_len(),
        };
        let instance = self.caller.instance;
        match self.packet.key() {
            b"reset" => instance.reset(self.caller.tenancy),
            b"detail on" => instance.prefixes.collect(),
            b"detail off" => instance.prefixes.stop(),
            b"detail dump" => self.detail(out),
            name => match Group::named(name) {
                Some(Group::Sizes) if instance.settings.track_sizes => return self.sizes(),
                Some(group) => stats::write(
                    self.caller,
                    group,
                    &mut Figures {
                        packet: self.packet,
                        out,
                    },
                ),
                None => {
                    self.packet.fail(Status::NotFound, out);
                    return done;
                }
            },
        }
        self.packet.reply(0, 0, 0, 0, out);
        done
    }

    fn sizes(&self) -> Ran {
        let packet = self.packet.bare();
        let tell = move |sizes: &Sizes, out: &mut Vec<u8>| {
            let packet = &packet;
            sizes.write(&mut Figures { packet, out });
            packet.reply(0, 0, 0, 0, out);
        };
        Ran::List {
            after: self.packet.value_len(),
            listing: Box::new(Listing::new(Form::Sizes(Sizes::default(), Box::new(tell)))),
        }
    }

    fn detail(&self, out: &mut Vec<u8>) {
        let mut dump = Vec::new();
        self.caller.instance.prefixes.dump(&mut dump);
        Figures {
            packet: self.packet,
            out,
        }
        .packet_of(b"detailed", &dump);
    }
}

/// Figures as packets.
struct Figures<'a> {
    packet: &'a Packet<'a>,
    out: &'a mut Vec<u8>,
}

impl Figures<'_> {
    fn packet_of(&mut self, name: &[u8], value: &[u8]) {
        self.packet.reply(0, name.len(), value.len(), 0, self.out);
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(value);
    }
}

impl Rows for Figures<'_> {
    fn row(&mut self, name: &str, value: &str) {
        self.packet_of(name.as_bytes(), value.as_bytes());
    }
}
