//! What a tenant is granted: as the command line says it, and as it is shown.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sublet_client::messages::{Lasts, Limit, TenantStatus};
use sublet_types::EvictionKind;

use crate::print::or_none;

/// What may be granted.
#[derive(clap::Args)]
pub(crate) struct Grants {
    /// Its share relative to the others' (100 unless said otherwise)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) weight: Option<u32>,
    /// What the others never take from it, such as 64MiB, or none
    #[arg(long)]
    pub(crate) floor: Option<Limit>,
    /// What it never holds more than, such as 2GiB, or none
    #[arg(long)]
    pub(crate) ceiling: Option<Limit>,
    /// Which of its pages goes when another needs the frame; its items have an order of their own
    #[arg(long, value_name = "NAME", value_parser = evictions())]
    pub(crate) eviction: Option<EvictionKind>,
}

/// The evictions by their names.
fn evictions() -> impl TypedValueParser<Value = EvictionKind> {
    let named = |(_, name, help): (EvictionKind, _, _)| PossibleValue::new(name).help(help);
    PossibleValuesParser::new(EvictionKind::ALL.map(named)).try_map(|name| name.parse())
}

/// What `--temporary` says.
pub(crate) fn lasts(temporary: bool) -> Lasts {
    match temporary {
        true => Lasts::UntilRestart,
        false => Lasts::Always,
    }
}

/// The line that shows them.
pub(crate) fn grants(tenant: &TenantStatus) -> String {
    let frozen = match tenant.frozen {
        true => "; frozen: new pages are refused",
        false => "",
    };
    format!(
        "{}: weight {}, floor {}, ceiling {}{}{frozen}\n",
        tenant.name,
        tenant.weight.0,
        or_none(tenant.floor),
        or_none(tenant.ceiling),
        eviction_granted(tenant)
    )
}

/// Which of its pages goes first; nothing where the daemon does not say.
fn eviction_granted(tenant: &TenantStatus) -> String {
    match tenant.eviction.as_str() {
        "" => String::new(),
        _ => format!(", eviction {}", eviction(tenant)),
    }
}

/// Which of its pages goes when another needs the frame, and which eviction that comes to.
pub(crate) fn eviction(tenant: &TenantStatus) -> String {
    let (chosen, ruling) = (&tenant.eviction, &tenant.ruling_eviction);
    match ruling.is_empty() || ruling == chosen {
        true => chosen.clone(),
        false => format!("{chosen} ({ruling})"),
    }
}
