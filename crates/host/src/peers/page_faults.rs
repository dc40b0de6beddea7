//! What peers do wrong on connections that carry pages. Whoever serves such a connection reports it, and the control
//! thread counts it as a refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use parking_lot::Mutex;
use sublet_lend::ids::PeerId;

/// The most pairs of a party and a fault that wait to be counted. Further ones are counted by their fault alone.
const PARTIES_MAX: usize = 256;

/// Forged pages and broken protocols in a row after which a lender is reported as a liar.
pub(super) const LIES_IN_A_ROW_MAX: u64 = 3;

/// What is wrong with a connection that carries pages, or with an answer that came on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum PageFault {
    /// Its first bytes are no hello.
    #[error(
        "a connection for pages began with what is no hello; see who else connects to this port"
    )]
    BadHello,
    /// No session lets it in: its session is over, its proof is wrong, or there are too many.
    #[error(
        "a connection for pages named a session that does not let it in; the peer connects again by itself"
    )]
    NotAdmitted,
    /// Its hello did not come in time, or others came meanwhile for which there was no room.
    #[error("a connection for pages said no hello in time; see who else connects to this port")]
    NoHello,
    /// There was no room for it.
    #[error(
        "there was no room for one more connection for pages; see how many threads its hosts have"
    )]
    NoRoom,
    /// The peer broke the protocol.
    #[error(
        "it broke the protocol of pages; see whether both hosts run the same version, and what lies between them"
    )]
    BrokenProtocol,
    /// The lender says that it never lent a block whose page was read.
    #[error("it refused to read pages that it took; see whether it restarted")]
    ReadRefused,
    /// The lender answered no write.
    #[error("it answered no write of pages in time; see its load and its `lend.rate`")]
    Silent,
}

impl PageFault {
    /// Its name as the cause of a refusal.
    pub fn label(self) -> &'static str {
        match self {
            PageFault::BadHello => "page-hello",
            PageFault::NotAdmitted => "page-session",
            PageFault::NoHello => "page-no-hello",
            PageFault::NoRoom => "page-no-room",
            PageFault::BrokenProtocol => "page-protocol",
            PageFault::ReadRefused => "page-read-refused",
            PageFault::Silent => "page-silent",
        }
    }
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultParty {
    /// A peer that proved who it is.
    Peer(PeerId),
    /// Somebody at this address.
    Address(IpAddr),
}

/// Faults of one party and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedFaults {
    /// Whose faults they are. `None` for those of the parties for which there was no room.
    pub party: Option<FaultParty>,
    /// Which fault.
    pub fault: PageFault,
    /// How many.
    pub count: u64,
}

/// Faults that wait to be counted as refusals, and lenders to be distrusted. None is lost.
#[derive(Debug, Default)]
pub struct PageFaults {
    counts: Mutex<BTreeMap<(Option<FaultParty>, PageFault), u64>>,
    /// There are no more than members.
    liars: Mutex<BTreeSet<PeerId>>,
}

impl PageFaults {
    /// Reports a fault. Any thread may, and none waits.
    pub(super) fn report(&self, party: FaultParty, fault: PageFault) {
        let mut waiting = self.counts.lock();
        let known = (Some(party), fault);
        let has_room = waiting.len() < PARTIES_MAX || waiting.contains_key(&known);
        let key = if has_room { known } else { (None, fault) };
        *waiting.entry(key).or_default() += 1;
    }

    /// Reports a lender that lied [`LIES_IN_A_ROW_MAX`] times in a row, or more.
    pub(super) fn report_liar(&self, lender: PeerId) {
        self.liars.lock().insert(lender);
    }

    /// The lenders that were reported as liars since the last call.
    pub(super) fn take_liars(&self) -> BTreeSet<PeerId> {
        std::mem::take(&mut *self.liars.lock())
    }

    /// The faults since the last call.
    pub(super) fn take(&self) -> Vec<CountedFaults> {
        let waiting = std::mem::take(&mut *self.counts.lock());
        let counted = waiting.into_iter();
        counted
            .map(|((party, fault), count)| CountedFaults {
                party,
                fault,
                count,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn each_fault_counts_and_the_parties_are_bounded() {
        let faults = PageFaults::default();
        let party = |n: u32| FaultParty::Address(Ipv4Addr::from(n).into());
        for n in 0..2 * PARTIES_MAX as u32 {
            faults.report(party(n), PageFault::BadHello);
            faults.report(party(0), PageFault::BadHello);
        }
        let taken = faults.take();
        assert_eq!(taken.len(), PARTIES_MAX + 1);
        let sum: u64 = taken.iter().map(|faults| faults.count).sum();
        assert_eq!(sum, 4 * PARTIES_MAX as u64);
        let of = |party| {
            taken
                .iter()
                .find(|faults| faults.party == party)
                .map(|it| it.count)
        };
        assert_eq!(of(Some(party(0))), Some(2 * PARTIES_MAX as u64 + 1));
        assert_eq!(of(None), Some(PARTIES_MAX as u64));
        assert_eq!(faults.take(), []);
    }
}
