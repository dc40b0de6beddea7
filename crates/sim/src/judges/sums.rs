//! Whether the tier counts right.

use super::{Happening, Judge, Wrong};
use crate::machine::tier::{Census, Get, Put};
use crate::virtual_time::Moment;

/// The tier's counts are of what happened.
#[derive(Debug)]
pub(super) struct Sums {
    tenants: Vec<Happened>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Happened {
    puts: u64,
    refused: u64,
    gets: u64,
    hits: u64,
}

impl Sums {
    pub(super) fn of(tenants: usize) -> Sums {
        Sums {
            tenants: vec![Happened::default(); tenants],
        }
    }

    fn compare(&self, census: &Census) -> Option<Wrong> {
        let pairs = (0u16..).zip(&self.tenants).zip(&census.tenants);
        for ((tenant, happened), counted) in pairs {
            let figures = [
                ("puts", counted.puts, happened.puts),
                ("refused puts", counted.refused, happened.refused),
                ("gets", counted.gets, happened.gets),
                ("hits", counted.hits, happened.hits),
            ];
            let differing = figures.iter().find(|(_, a, b)| a != b);
            if let Some(&(what, counted, happened)) = differing {
                return Some(Wrong::Count {
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

impl Judge for Sums {
    fn name(&self) -> &'static str {
        "sums"
    }

    fn hear(&mut self, _: Moment, happening: &Happening<'_>) -> Option<Wrong> {
        match happening {
            Happening::Put(page, _, put) => {
                let happened = &mut self.tenants[usize::from(page.tenant.0)];
                happened.puts += 1;
                happened.refused += u64::from(*put == Put::Refused);
                None
            }
            Happening::Get(page, got) => {
                let happened = &mut self.tenants[usize::from(page.tenant.0)];
                happened.gets += 1;
                happened.hits += u64::from(*got != Get::Miss);
                None
            }
            Happening::Counted(census) => self.compare(census),
            _ => None,
        }
    }
}
