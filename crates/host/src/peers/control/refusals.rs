//! Who was refused, and why: counted each time, and logged once a party and cause.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;

use sublet_types::NodeName;

/// The most pairs of a party and a cause that are told apart. Further ones are counted by their cause alone.
pub const REFUSED_PARTIES_MAX: usize = 1024;

/// Who was refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusedParty {
    /// The member that this node called.
    Member(NodeName),
    /// Somebody at this address, who called.
    Address(IpAddr),
}

/// Whether a refusal is to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusalNews {
    /// It is the first of its party and cause.
    First,
    /// It was logged before, or there is no room to remember it.
    Known,
}

/// How often who was refused. Causes have the names of [`sublet_tls::peer::PeerRefusal::label`], and on connections that
/// carry pages those of [`PageFault::label`](crate::peers::page_faults::PageFault::label). `garbled` is a line that is
/// none.
#[derive(Clone, Debug, Default)]
pub struct RefusalCounts {
    of_parties: BTreeMap<(RefusedParty, &'static str), u64>,
    of_causes: BTreeMap<&'static str, u64>,
}

impl RefusalCounts {
    /// Counts a refusal.
    pub(super) fn count(&mut self, party: RefusedParty, cause: &'static str) -> RefusalNews {
        self.count_many(Some(party), cause, 1)
    }

    /// Counts refusals of one party, if it is known, for one cause.
    pub(super) fn count_many(
        &mut self,
        party: Option<RefusedParty>,
        cause: &'static str,
        count: u64,
    ) -> RefusalNews {
        *self.of_causes.entry(cause).or_default() += count;
        let has_room = self.of_parties.len() < REFUSED_PARTIES_MAX;
        let Some(party) = party else {
            return RefusalNews::Known;
        };
        match self.of_parties.entry((party, cause)) {
            Entry::Occupied(mut known) => *known.get_mut() += count,
            Entry::Vacant(first) if has_room => {
                first.insert(count);
                return RefusalNews::First;
            }
            Entry::Vacant(_) => {}
        }
        RefusalNews::Known
    }

    /// How many refusals there were for a cause.
    pub fn of_cause(&self, cause: &str) -> u64 {
        self.of_causes.get(cause).copied().unwrap_or(0)
    }

    /// Each cause with the number of its refusals.
    pub fn causes(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.of_causes.iter().map(|(cause, count)| (*cause, *count))
    }

    /// Each party and cause with the number of its refusals, as far as there was room.
    pub fn parties(&self) -> impl Iterator<Item = (&RefusedParty, &'static str, u64)> {
        let rows = self.of_parties.iter();
        rows.map(|((party, cause), count)| (party, *cause, *count))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn party(n: u32) -> RefusedParty {
        RefusedParty::Address(Ipv4Addr::from(n).into())
    }

    #[test]
    fn a_party_and_a_cause_are_news_once_and_the_table_is_bounded() {
        let mut counts = RefusalCounts::default();
        assert_eq!(counts.count(party(0), "expired"), RefusalNews::First);
        assert_eq!(counts.count(party(0), "expired"), RefusalNews::Known);
        assert_eq!(counts.count(party(0), "denied"), RefusalNews::First);
        for n in 0..2 * REFUSED_PARTIES_MAX as u32 {
            counts.count(party(n), "denied");
        }
        assert_eq!(counts.parties().count(), REFUSED_PARTIES_MAX);
        assert_eq!(
            counts.of_cause("denied"),
            1 + 2 * REFUSED_PARTIES_MAX as u64
        );
        assert_eq!(
            counts.causes().map(|(cause, _)| cause).collect::<Vec<_>>(),
            ["denied", "expired"]
        );
        assert_eq!(counts.count(party(u32::MAX), "denied"), RefusalNews::Known);
    }
}
