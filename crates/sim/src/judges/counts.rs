//! Checks that the tier counts correctly.

use super::{Judge, TierEvent, Violation};
use crate::machine::tier::{TierCounts, TierGetOutcome, TierPutOutcome};
use crate::virtual_time::VirtualInstant;

/// Checks that the tier's counts match the events.
#[derive(Debug)]
pub(super) struct CountsJudge {
    tenants: Vec<ObservedCounts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ObservedCounts {
    puts: u64,
    refused: u64,
    gets: u64,
    hits: u64,
}

impl CountsJudge {
    pub(super) fn of(tenants: usize) -> CountsJudge {
        CountsJudge {
            tenants: vec![ObservedCounts::default(); tenants],
        }
    }

    fn compare(&self, counts: &TierCounts) -> Option<Violation> {
        let pairs = (0u16..).zip(&self.tenants).zip(&counts.tenants);
        for ((tenant, happened), counted) in pairs {
            let figures = [
                ("puts", counted.puts, happened.puts),
                ("refused puts", counted.refused, happened.refused),
                ("gets", counted.gets, happened.gets),
                ("hits", counted.hits, happened.hits),
            ];
            let differing = figures.iter().find(|(_, a, b)| a != b);
            if let Some(&(what, counted, happened)) = differing {
                return Some(Violation::Count {
                    tenant,
                    what,
                    counted,
                    happened,
                });
            }
        }
        None
    }
}

impl Judge for CountsJudge {
    fn name(&self) -> &'static str {
        "sums"
    }

    fn check(&mut self, _: VirtualInstant, event: &TierEvent<'_>) -> Option<Violation> {
        match event {
            TierEvent::Put(page, _, put) => {
                let happened = &mut self.tenants[usize::from(page.tenant.0)];
                happened.puts += 1;
                happened.refused += u64::from(*put == TierPutOutcome::Refused);
                None
            }
            TierEvent::Get(page, outcome) => {
                let happened = &mut self.tenants[usize::from(page.tenant.0)];
                happened.gets += 1;
                happened.hits += u64::from(*outcome != TierGetOutcome::Miss);
                None
            }
            TierEvent::Counts(counts) => self.compare(counts),
            _ => None,
        }
    }
}
