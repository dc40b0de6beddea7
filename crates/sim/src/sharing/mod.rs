//! Six tenants in one arena: how many misses a policy costs them together.
//!
//! Every policy sees the same requests in the same order. Each tenant's requests are spread evenly over the time that
//! it is there. So misses can be compared, and nothing depends on how fast a disk is.

mod comparison;
mod items;
mod pages;
mod trace_sets;

use sublet_policy::Policy;
use sublet_policy::catalogue::{PolicyChoiceError, make};
use sublet_types::Second;

pub use comparison::{SharingComparison, SharingRow};
pub use items::play_items;
pub use pages::play_pages;
pub use trace_sets::{SETS, TenantTrace, TraceSet, TraceSetError};

use crate::machine::tier_store::StoreTierError;

/// The seed of stores if none is given. It is the seed of the figures in the documents.
pub const SEED: u64 = 1;

/// Requests of all tenants per second.
pub const REQUESTS_A_SECOND: u64 = 1000;

/// Why a set was not replayed.
#[derive(Debug, thiserror::Error)]
pub enum SharingError {
    /// The policy is not in the catalogue.
    #[error(transparent)]
    Policy(#[from] PolicyChoiceError),
    /// The store cannot be made.
    #[error(transparent)]
    Store(#[from] StoreTierError),
}

/// One tenant's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MissCounts {
    /// Requests for something that the store may have.
    pub gets: u64,
    /// Those of the requests that missed.
    pub misses: u64,
}

/// A request of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TenantRequest {
    tenant: usize,
    id: u64,
}

/// The requests of all streams of a set, in order.
fn requests(set: &TraceSet) -> impl Iterator<Item = TenantRequest> {
    let mut next: Vec<usize> = vec![0; set.streams.len()];
    std::iter::from_fn(move || {
        let due = |tenant: &usize| set.streams[*tenant].at(next[*tenant]);
        let waiting =
            (0..next.len()).filter(|tenant| next[*tenant] < set.streams[*tenant].ids.len());
        let tenant = waiting.min_by(|a, b| due(a).total_cmp(&due(b)))?;
        let id = set.streams[tenant].ids[next[tenant]];
        next[tenant] += 1;
        Some(TenantRequest { tenant, id })
    })
}

/// A policy by its name and knobs, as `mrc gain=3`.
fn policy(written: &str) -> Result<Box<dyn Policy>, PolicyChoiceError> {
    let mut words = written.split_whitespace();
    let name = words.next().unwrap_or_default();
    make(name, words.filter_map(|word| word.split_once('=')))
}

/// The second in which request number `request` comes.
fn second_of(request: u64) -> Second {
    Second((request / REQUESTS_A_SECOND) as u32 + 1)
}

#[cfg(test)]
mod tests {
    use sublet_types::EvictionKind;

    use super::*;
    use crate::traces::synthetic::SyntheticTrace;

    /// The beginnings of four synthetic traces.
    fn small(most: usize) -> TraceSet {
        let traces = [
            SyntheticTrace::Drift,
            SyntheticTrace::Zipf,
            SyntheticTrace::ZipfScan,
            SyntheticTrace::Loop,
        ];
        let stream = |made: SyntheticTrace| TenantTrace {
            name: made.name().to_owned(),
            ids: made
                .ids(1, |_| Err(std::io::ErrorKind::NotFound.into()))
                .expect("no file is asked for")
                .take(most)
                .collect(),
            comes: 0.0,
            goes: 1.0,
        };
        TraceSet {
            name: "small".to_owned(),
            percent: 15.0,
            streams: traces.map(stream).into(),
        }
    }

    fn sum(tenants: &[MissCounts], of: fn(&MissCounts) -> u64) -> u64 {
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

    /// It judges the sets as `sublet-lab sim sharing` judges them in full, but on a small scale.
    #[test]
    fn pooled_misses_no_more_than_mrc_and_equal_shares() {
        let set = small(25_000);
        let play =
            |policy| play_pages(&set, policy, EvictionKind::XS3h.into(), SEED).expect("played");
        let [mrc, fixed, pooled] = ["mrc", "static-alloc", "pooled"].map(play);
        for (other, most) in [(&mrc, 1005), (&fixed, 1000)] {
            assert_eq!(
                sum(&pooled, |counts| counts.gets),
                sum(other, |counts| counts.gets)
            );
            let (ours, theirs) = (sum(&pooled, |a| a.misses), sum(other, |a| a.misses));
            assert!(ours * 1000 <= theirs * most, "{ours} {theirs}");
        }
    }

    /// If everything fits, each tenant misses only what it never asked for before.
    #[test]
    fn pooled_takes_nothing_from_anybody_while_memory_is_free() {
        let set = TraceSet {
            percent: 115.0,
            ..small(25_000)
        };
        let new: Vec<u64> = set.streams.iter().map(TenantTrace::footprint).collect();
        let misses =
            |all: Vec<MissCounts>| -> Vec<u64> { all.iter().map(|counts| counts.misses).collect() };
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
        assert_eq!(sum(&pooled, |counts| counts.gets), 100_000);
        let (ours, theirs) = (sum(&pooled, |a| a.misses), sum(&mrc, |a| a.misses));
        assert!(ours * 100 <= theirs * 101, "{ours} {theirs}");
    }
}
