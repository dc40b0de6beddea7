//! The network to a lender: a round trip and a bandwidth.

use sublet_types::PAGE_BYTES;

use super::setting::LinkSpeed;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// A link that fetched and sent pages share. Those of one kind queue. If both kinds are under way, each gets half.
#[derive(Clone, Copy, Debug)]
pub(super) struct FarLink {
    round_trip: VirtualDuration,
    page: VirtualDuration,
    /// When the last fetched page has come.
    fetches_until: VirtualInstant,
    /// When the last sent page has left.
    sends_until: VirtualInstant,
}

impl FarLink {
    /// An idle link. `injected` makes each round trip longer, as netem did in the paper.
    pub(super) fn of(speed: LinkSpeed, injected: VirtualDuration) -> FarLink {
        let nanos = u128::from(PAGE_BYTES) * 1_000_000_000 / u128::from(speed.bandwidth.0.max(1));
        FarLink {
            round_trip: speed.round_trip + injected,
            page: VirtualDuration(nanos as u64),
            fetches_until: VirtualInstant::START,
            sends_until: VirtualInstant::START,
        }
    }

    /// The time of a ping.
    pub(super) fn ping(&self) -> VirtualDuration {
        self.round_trip
    }

    /// Fetches pages in one message. Returns when they are there.
    pub(super) fn fetch(&mut self, now: VirtualInstant, pages: u64) -> VirtualInstant {
        let begins = (now + self.round_trip).max(self.fetches_until);
        self.fetches_until = begins + self.transfer(begins, self.sends_until, pages);
        self.fetches_until
    }

    /// Sends pages in one message. Returns when the lender's answer is there.
    pub(super) fn send(&mut self, now: VirtualInstant, pages: u64) -> VirtualInstant {
        let begins = now.max(self.sends_until);
        self.sends_until = begins + self.transfer(begins, self.fetches_until, pages);
        self.sends_until + self.round_trip
    }

    fn transfer(
        &self,
        begins: VirtualInstant,
        others_until: VirtualInstant,
        pages: u64,
    ) -> VirtualDuration {
        match others_until > begins {
            true => self.page.times(2 * pages),
            false => self.page.times(pages),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sublet_types::Bytes;

    fn link() -> FarLink {
        let speed = LinkSpeed {
            round_trip: VirtualDuration::micros(100),
            bandwidth: Bytes(PAGE_BYTES * 1_000_000),
        };
        FarLink::of(speed, VirtualDuration::micros(50))
    }

    #[test]
    fn a_fetch_takes_a_round_trip_and_its_transfer() {
        let mut link = link();
        assert_eq!(link.ping(), VirtualDuration::micros(150));
        assert_eq!(link.fetch(VirtualInstant(0), 32), VirtualInstant(182_000));
        assert_eq!(link.fetch(VirtualInstant(0), 1), VirtualInstant(183_000));
    }

    #[test]
    fn fetched_and_sent_pages_share_the_link() {
        let mut link = link();
        assert_eq!(link.send(VirtualInstant(0), 500), VirtualInstant(650_000));
        assert_eq!(link.fetch(VirtualInstant(0), 32), VirtualInstant(214_000));
        assert_eq!(
            link.fetch(VirtualInstant(400_000), 32),
            VirtualInstant(582_000)
        );
        assert_eq!(
            link.send(VirtualInstant(550_000), 1),
            VirtualInstant(702_000)
        );
    }
}
