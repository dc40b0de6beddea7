//! stat: a packet per figure.

use super::super::stats::{self, StatsGroup};
use super::request::{BinaryRequest, value};
use crate::memcached::operate::listing::{Listing, ListingKind};
use crate::memcached::operate::sizes::SizeHistogram;
use crate::memcached::outcome::{RequestBody, RequestOutcome};
use crate::memcached::wire::packet::{Packet, ResponseStatus};
use crate::memcached::wire::stat_writer::StatWriter;

impl BinaryRequest<'_> {
    pub(super) fn stat(&self, after: RequestBody<'_>, out: &mut Vec<u8>) -> RequestOutcome {
        let RequestBody::Input(after) = after else {
            self.packet.fail(ResponseStatus::OutOfMemory, out);
            return RequestOutcome::Swallow {
                body: self.packet.value_len(),
            };
        };
        if let Err(awaits) = value(self.packet, after) {
            return awaits;
        }
        let done = RequestOutcome::Done {
            body: self.packet.value_len(),
        };
        let instance = self.caller.instance;
        match self.packet.key() {
            b"reset" => instance.reset(self.caller.tenancy),
            b"detail on" => instance.prefixes.collect(),
            b"detail off" => instance.prefixes.stop(),
            b"detail dump" => self.detail(out),
            name => match StatsGroup::named(name) {
                Some(StatsGroup::Sizes) if instance.settings.track_sizes => return self.sizes(),
                Some(group) => stats::write(
                    self.caller,
                    group,
                    &mut StatPackets {
                        packet: self.packet,
                        out,
                    },
                ),
                None => {
                    self.packet.fail(ResponseStatus::NotFound, out);
                    return done;
                }
            },
        }
        self.packet.reply(0, 0, 0, 0, out);
        done
    }

    fn sizes(&self) -> RequestOutcome {
        let packet = self.packet.head_only();
        let reply_sizes = move |sizes: &SizeHistogram, out: &mut Vec<u8>| {
            let packet = &packet;
            sizes.write(&mut StatPackets { packet, out });
            packet.reply(0, 0, 0, 0, out);
        };
        RequestOutcome::List {
            body: self.packet.value_len(),
            listing: Box::new(Listing::new(ListingKind::Sizes(
                SizeHistogram::default(),
                Box::new(reply_sizes),
            ))),
        }
    }

    fn detail(&self, out: &mut Vec<u8>) {
        let mut dump = Vec::new();
        self.caller.instance.prefixes.dump(&mut dump);
        StatPackets {
            packet: self.packet,
            out,
        }
        .packet_of(b"detailed", &dump);
    }
}

/// Writes figures as packets.
struct StatPackets<'a> {
    packet: &'a Packet<'a>,
    out: &'a mut Vec<u8>,
}

impl StatPackets<'_> {
    fn packet_of(&mut self, name: &[u8], value: &[u8]) {
        self.packet.reply(0, name.len(), value.len(), 0, self.out);
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(value);
    }
}

impl StatWriter for StatPackets<'_> {
    fn write_stat(&mut self, name: &str, value: &str) {
        self.packet_of(name.as_bytes(), value.as_bytes());
    }
}
