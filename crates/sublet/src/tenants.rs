//! `sublet tenants`: who is served, and what each is granted.

use std::io::{self, Write};

use sublet_client::messages::{AddTenant, ChangeTenant, PagesStatus, RingStatus, TenantStatus};
use sublet_types::{TenantName, Weight};

use crate::exit::Exit;
use crate::grants::{Grants, grants, lasts};
use crate::leavers;
use crate::print::json;
use crate::reach::Reach;
use crate::saves;
use crate::status;

/// What to do.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Show all tenants
    List {
        #[command(flatten)]
        reach: Reach,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Show one tenant with everything its clients did
    Show {
        /// Which one
        name: TenantName,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        reach: Reach,
    },
    /// Add a tenant for disks to come
    Add(Add),
    /// Remove a tenant that nobody uses
    Remove {
        /// Which one
        name: TenantName,
        /// Only until the daemon ends
        #[arg(long)]
        temporary: bool,
        #[command(flatten)]
        reach: Reach,
    },
    /// Change what a tenant is granted
    Set(Set),
    /// Refuse a tenant's new pages; it keeps what it has, and gets, replacements and flushes go on
    Freeze(saves::Name),
    /// Take a tenant's new pages again
    Thaw(saves::Name),
    /// Write a tenant's persistent pages into a file that is not there yet
    Save(saves::File),
    /// Bring the pages of such a file back, for programs that make their pools again
    Restore(saves::Restored),
    /// End restored pools that no program has taken over
    Discard(saves::Name),
}

#[derive(clap::Args)]
struct Add {
    /// Its name
    name: TenantName,
    #[command(flatten)]
    grants: Grants,
    /// Only until the daemon ends
    #[arg(long)]
    temporary: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(clap::Args)]
#[group(id = "what", required = true, multiple = true, args = ["weight", "floor", "ceiling", "eviction"])]
struct Set {
    /// Which one
    name: TenantName,
    #[command(flatten)]
    grants: Grants,
    /// Only until the daemon ends
    #[arg(long)]
    temporary: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Does it.
pub(crate) fn run(args: &Args) -> Exit {
    let text = match &args.verb {
        Verb::List { reach, json: false } => reach
            .ask(|admin| admin.status())
            .map(|s| status::tenants(&s, None)),
        Verb::List { reach, json: true } => {
            reach.ask(|admin| admin.tenants()).map(|all| json(&all))
        }
        Verb::Show {
            name,
            json: true,
            reach,
        } => reach.ask(|admin| admin.tenant(name)).map(|one| json(&one)),
        Verb::Show {
            name,
            json: false,
            reach,
        } => reach.ask(|admin| admin.tenant(name)).map(|one| page(&one)),
        Verb::Add(add) => add
            .reach
            .ask(|admin| admin.add_tenant(&add.tenant()))
            .map(|one| grants(&one)),
        Verb::Remove {
            name,
            temporary,
            reach,
        } => reach
            .ask(|admin| admin.remove_tenant(name, lasts(*temporary)))
            .map(|_| format!("{name}: removed\n")),
        Verb::Set(set) => set
            .reach
            .ask(|admin| admin.change_tenant(&set.name, &set.change()))
            .map(|one| grants(&one)),
        Verb::Freeze(name) => name.freeze(true),
        Verb::Thaw(name) => name.freeze(false),
        Verb::Save(file) => file.save(),
        Verb::Restore(file) => file.restore(),
        Verb::Discard(name) => name.discard(),
    };
    match text {
        Ok(text) => Exit::written(io::stdout().write_all(text.as_bytes())),
        Err(exit) => exit,
    }
}

impl Set {
    fn change(&self) -> ChangeTenant {
        ChangeTenant {
            weight: self.grants.weight.map(Weight),
            floor: self.grants.floor,
            ceiling: self.grants.ceiling,
            eviction: self.grants.eviction,
            lasts: lasts(self.temporary),
        }
    }
}

impl Add {
    fn tenant(&self) -> AddTenant {
        AddTenant {
            name: self.name.clone(),
            weight: self.grants.weight.map(Weight),
            floor: self.grants.floor,
            ceiling: self.grants.ceiling,
            eviction: self.grants.eviction,
            lasts: lasts(self.temporary),
        }
    }
}

/// What is known of its pages; nothing where it has no pool and never had one.
fn pages(pages: &PagesStatus) -> String {
    if *pages == PagesStatus::default() {
        return String::new();
    }
    let rows = [
        ("pools", pages.pools),
        ("pages", pages.used),
        ("pages_on_disk", pages.on_disk),
        ("frames_free", pages.free),
        ("page_puts", pages.puts),
        ("page_puts_succeeded", pages.puts_succeeded),
        ("page_puts_refused", pages.puts_refused),
        ("page_gets", pages.gets),
        ("page_hits", pages.hits),
        ("page_flushes", pages.flushes),
        ("page_evictions", pages.evictions),
        ("pages_spilled", pages.spilled),
    ];
    rows.map(|(name, count)| format!("{name:<20} {count}\n"))
        .concat()
}

/// What its rings did, but for what never happened.
fn ring(ring: &RingStatus) -> String {
    let connections = [
        ("connections", ring.connections),
        ("pools_waiting", ring.pools_waiting),
        ("connections_made", ring.connections_made),
        ("refused_full", ring.refused_full),
        ("refused_uid", ring.refused_uid),
        ("refused_exhausted", ring.refused_exhausted),
        ("ended_garbage", ring.ended_garbage),
        ("bytes_stored", ring.bytes_stored.0),
        ("bytes_fetched", ring.bytes_fetched.0),
        ("bells_rung", ring.bells_rung),
        ("bells_heard", ring.bells_heard),
    ];
    let named = connections.map(|(name, count)| (format!("ring_{name}"), count));
    let operations = ring.operations.iter().flat_map(|(verb, outcomes)| {
        let outcomes = outcomes.iter();
        outcomes.map(move |(outcome, count)| (format!("ring_{verb}_{outcome}"), *count))
    });
    let happened = named
        .into_iter()
        .chain(operations)
        .filter(|(_, count)| *count > 0);
    happened
        .map(|(name, count)| format!("{name:<27} {count}\n"))
        .collect()
}

fn page(tenant: &TenantStatus) -> String {
    let mut page = grants(tenant);
    page.push_str(&format!(
        "held {}, used {} by {} items; fairness {:.2}; {} connections at {}\n",
        tenant.held,
        tenant.used,
        tenant.items,
        tenant.fairness,
        tenant.connections,
        tenant.listen.join(" ")
    ));
    page.push_str(&format!(
        "{:<20} {}\n{:<20} {}\n",
        "evictions", tenant.evictions, "reclaimed", tenant.reclaimed
    ));
    page.push_str(&leavers::lines(tenant));
    page.push_str(&pages(&tenant.pages));
    page.push_str(&tenant.ring.as_ref().map_or(String::new(), ring));
    for (name, count) in &tenant.counters {
        page.push_str(&format!("{name:<20} {count}\n"));
    }
    page
}
