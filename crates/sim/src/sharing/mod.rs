//! Six tenants in one arena: how many misses a policy costs them together.
//!
//! Every policy sees the same requests in the same order: those of each tenant are spread evenly over the time that it is there. So
//! misses can be compared, and nothing depends on how fast a disk is.

mod items;
mod pages;
mod sets;
mod table;

use sublet_policy::Policy;
use sublet_policy::catalogue::{ChoiceError, make};
use sublet_types::Second;

pub use items::play_items;
pub use pages::play_pages;
pub use sets::{SETS, Set, SetError, Stream};
pub use table::{Sharing, SharingRow};

use crate::machine::tier_store::StoreTierError;

/// The seed of stores where none is given: that of the figures in the documents.
pub const SEED: u64 = 1;

/// Requests of all tenants in a second.
pub const REQUESTS_A_SECOND: u64 = 1000;

/// Why a set was not played.
#[derive(Debug, thiserror::Error)]
pub enum SharingError {
    /// The policy is not in the catalogue.
    #[error(transparent)]
    Policy(#[from] ChoiceError),
    /// The store cannot be made.
    #[error(transparent)]
    Store(#[from] StoreTierError),
}

/// What one tenant came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Asked {
    /// Requests for what the store may have.
    pub gets: u64,
    /// Of these, what it had not.
    pub misses: u64,
}

/// A request of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    tenant: usize,
    id: u64,
}

/// The requests of all streams of a set, in their order.
fn requests(set: &Set) -> impl Iterator<Item = Request> {
    let mut next: Vec<usize> = vec![0; set.streams.len()];
    std::iter::from_fn(move || {
        let due = |tenant: &usize| set.streams[*tenant].at(next[*tenant]);
        let waiting =
            (0..next.len()).filter(|tenant| next[*tenant] < set.streams[*tenant].ids.len());
        let tenant = waiting.min_by(|a, b| due(a).total_cmp(&due(b)))?;
        let id = set.streams[tenant].ids[next[tenant]];
        next[tenant] += 1;
        Some(Request { tenant, id })
    })
}

/// A policy by its name and knobs, as `mrc gain=3`.
fn policy(written: &str) -> Result<Box<dyn Policy>, ChoiceError> {
    let mut words = written.split_whitespace();
    let name = words.next().unwrap_or_default();
    make(name, words.filter_map(|word| word.split_once('=')))
}

/// The second in which the nth request comes.
fn second_of(request: u64) -> Second {
    Second((request / REQUESTS_A_SECOND) as u32 + 1)
}

#[cfg(test)]
mod tests {
    use sublet_types::EvictionKind;

    use super::*;
    use crate::traces::made::Made;

    /// Four made traces, the beginnings of them.
    fn small(most: usize) -> Set {
        let traces = [Made::Drift, Made::Zipf, Made::ZipfScan, Made::Loop];
        let stream = |made: Made| Stream {
            name: made.name().to_owned(),
            ids: made
                .ids(1, |_| Err(std::io::ErrorKind::NotFound.into()))
                .expect("no file is asked for")
                .take(most)
                .collect(),
            comes: 0.0,
            goes: 1.0,
        };
        Set {
            name: "small".to_owned(),
            percent: 15.0,
            streams: traces.map(stream).into(),
        }
    }

    fn sum(tenants: &[Asked], of: fn(&Asked) -> u64) -> u64 {
        tenants.iter().map(of).sum()
    }

    #[test]
    fn requests_are_spread_over_the_time_that_a_tenant_is_there() {
        let mut set = small(100);
        set.streams.truncate(2);
        (set.streams[0].goes, set.streams[1].comes) = (0.5, 0.5);
        let order: Vec<usize> = requests(&set).map(|request| request.tenant).collect();
        assert_eq!(order.len(), 200);
        assert!(order[..100].iter().all(|tenant| *tenant == 0));
        set.streams[0].goes = 1.0;
        let both = requests(&set).skip(50).map(|request| request.tenant);
        assert_eq!(both.take(100).filter(|tenant| *tenant == 1).count(), 67);
    }

    /// As the sets in full are judged by `sublet-lab sim sharing`, in small.
    #[test]
    fn pooled_misses_no_more_than_mrc_and_equal_shares() {
        let set = small(25_000);
        let play =
            |policy| play_pages(&set, policy, EvictionKind::XS3h.into(), SEED).expect("played");
        let [mrc, fixed, pooled] = ["mrc", "static-alloc", "pooled"].map(play);
        for (other, most) in [(&mrc, 1005), (&fixed, 1000)] {
            assert_eq!(
                sum(&pooled, |asked| asked.gets),
                sum(other, |asked| asked.gets)
            );
            let (ours, theirs) = (sum(&pooled, |a| a.misses), sum(other, |a| a.misses));
            assert!(ours * 1000 <= theirs * most, "{ours} {theirs}");
        }
    }

    /// Where all fits, everybody misses what it never asked for before, and nothing else.
    #[test]
    fn pooled_takes_nothing_from_anybody_while_memory_is_free() {
        let set = Set {
            percent: 115.0,
            ..small(25_000)
        };
        let new: Vec<u64> = set.streams.iter().map(Stream::footprint).collect();
        let misses =
            |all: Vec<Asked>| -> Vec<u64> { all.iter().map(|asked| asked.misses).collect() };
        for policy in ["pooled", "pooled kept=0"] {
            let pages = play_pages(&set, policy, EvictionKind::XS3h.into(), SEED).expect("played");
            assert_eq!(misses(pages), new, "{policy}");
            let items = play_items(&set, policy, SEED).expect("played");
            assert_eq!(misses(items), new, "{policy}, items");
        }
    }

    #[test]
    fn items_are_asked_for_alike_under_every_policy() {
        let set = small(25_000);
        let play = |policy| play_items(&set, policy, SEED).expect("played");
        let [mrc, pooled] = ["mrc", "pooled"].map(play);
        assert_eq!(sum(&pooled, |asked| asked.gets), 100_000);
        let (ours, theirs) = (sum(&pooled, |a| a.misses), sum(&mrc, |a| a.misses));
        assert!(ours * 100 <= theirs * 101, "{ours} {theirs}");
    }
}
