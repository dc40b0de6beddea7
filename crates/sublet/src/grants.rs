//! The grants of a tenant: their options on the command line, and their form in output.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sublet_client::messages::{ChangeLifetime, Limit, TenantStatus};
use sublet_types::EvictionKind;

use crate::formatting::or_none;

/// Options of a tenant's grants.
#[derive(clap::Args)]
pub(crate) struct GrantOptions {
    /// Give it this share relative to the others' (100 unless said otherwise)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) weight: Option<u32>,
    /// Never let the others take this from it, such as 64MiB, or none
    #[arg(long)]
    pub(crate) floor: Option<Limit>,
    /// Never let it hold more than this, such as 2GiB, or none
    #[arg(long)]
    pub(crate) ceiling: Option<Limit>,
    /// Evict its pages in this order when another page needs the frame; its items have an order of their own
    #[arg(long, value_name = "NAME", value_parser = evictions())]
    pub(crate) eviction: Option<EvictionKind>,
    /// Let its evicted pages lie in memory that the host borrows (true unless said otherwise)
    #[arg(long, value_name = "BOOL")]
    pub(crate) borrow: Option<bool>,
}

/// Parses the name of an eviction.
fn evictions() -> impl TypedValueParser<Value = EvictionKind> {
    let named = |(_, name, help): (EvictionKind, _, _)| PossibleValue::new(name).help(help);
    PossibleValuesParser::new(EvictionKind::ALL.map(named)).try_map(|name| name.parse())
}

/// How long a change lasts.
#[derive(clap::Args)]
pub(crate) struct TemporaryFlag {
    /// Keep the change only until the daemon ends
    #[arg(long)]
    pub(crate) temporary: bool,
}

impl TemporaryFlag {
    pub(crate) fn lasts(&self) -> ChangeLifetime {
        match self.temporary {
            true => ChangeLifetime::UntilRestart,
            false => ChangeLifetime::Always,
        }
    }
}

/// The line that shows a tenant's grants.
pub(crate) fn grants_line(tenant: &TenantStatus) -> String {
    let frozen = match tenant.frozen {
        true => "; frozen: new pages are refused",
        false => "",
    };
    let borrow = match tenant.borrow {
        Some(false) => ", borrow false",
        Some(true) | None => "",
    };
    format!(
        "{}: weight {}, floor {}, ceiling {}{}{borrow}{frozen}\n",
        tenant.name,
        tenant.weight.0,
        or_none(tenant.floor),
        or_none(tenant.ceiling),
        eviction_granted(tenant)
    )
}

/// Which of its pages goes first. Nothing if the daemon does not tell.
fn eviction_granted(tenant: &TenantStatus) -> String {
    match tenant.eviction.as_str() {
        "" => String::new(),
        _ => format!(", eviction {}", eviction(tenant)),
    }
}

/// Which of its pages goes when another page needs the frame. The eviction in force follows in brackets if it has
/// another name.
pub(crate) fn eviction(tenant: &TenantStatus) -> String {
    let (chosen, ruling) = (&tenant.eviction, &tenant.ruling_eviction);
    match ruling.is_empty() || ruling == chosen {
        true => chosen.clone(),
        false => format!("{chosen} ({ruling})"),
    }
}
