//! `sublet tenants`: the tenants, and the grants of each.

use std::io::{self, Write};

use sublet_client::messages::{AddTenant, ChangeTenant, PagesStatus, RingStatus, TenantStatus};
use sublet_types::{FreezeState, TenantName, Weight};

use crate::admin_options::AdminOptions;
use crate::evicted_tables;
use crate::exit::Exit;
use crate::formatting::json;
use crate::grants::{GrantOptions, TemporaryFlag, grants_line};
use crate::saves;
use crate::status;

/// What to do with tenants.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: TenantsCommand,
}

#[derive(clap::Subcommand)]
enum TenantsCommand {
    /// Show all tenants
    List {
        #[command(flatten)]
        daemon: AdminOptions,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Show one tenant with everything its clients did
    Show {
        /// Show this tenant
        name: TenantName,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        daemon: AdminOptions,
    },
    /// Add a tenant for future disks
    Add(AddTenantArgs),
    /// Remove a tenant that nobody uses
    Remove {
        /// Remove this tenant
        name: TenantName,
        #[command(flatten)]
        lifetime: TemporaryFlag,
        #[command(flatten)]
        daemon: AdminOptions,
    },
    /// Change what a tenant is granted
    Set(SetTenantArgs),
    /// Refuse a tenant's new pages; it keeps what it has, and gets, replacements and flushes go on
    Freeze(saves::TenantArgs),
    /// Accept a tenant's new pages again
    Thaw(saves::TenantArgs),
    /// Write a tenant's persistent pages into a new file
    Save(saves::SaveFileArgs),
    /// Read the pages of such a file back, for programs that make their pools again
    Restore(saves::RestoreArgs),
    /// End restored pools that no program has taken over
    Discard(saves::TenantArgs),
}

#[derive(clap::Args)]
struct AddTenantArgs {
    /// Name the new tenant
    name: TenantName,
    #[command(flatten)]
    grants: GrantOptions,
    #[command(flatten)]
    lifetime: TemporaryFlag,
    #[command(flatten)]
    daemon: AdminOptions,
}

#[derive(clap::Args)]
#[group(id = "what", required = true, multiple = true, args = ["weight", "floor", "ceiling", "eviction", "borrow"])]
struct SetTenantArgs {
    /// Change this tenant
    name: TenantName,
    #[command(flatten)]
    grants: GrantOptions,
    #[command(flatten)]
    lifetime: TemporaryFlag,
    #[command(flatten)]
    daemon: AdminOptions,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Exit {
    let text = match &args.verb {
        TenantsCommand::List {
            daemon,
            json: false,
        } => daemon
            .call(|admin| admin.status())
            .map(|s| status::tenants(&s, None)),
        TenantsCommand::List { daemon, json: true } => {
            daemon.call(|admin| admin.tenants()).map(|all| json(&all))
        }
        TenantsCommand::Show {
            name,
            json: true,
            daemon,
        } => daemon
            .call(|admin| admin.tenant(name))
            .map(|one| json(&one)),
        TenantsCommand::Show {
            name,
            json: false,
            daemon,
        } => daemon
            .call(|admin| admin.tenant(name))
            .map(|one| tenant_page(&one)),
        TenantsCommand::Add(add) => add
            .daemon
            .call(|admin| admin.add_tenant(&add.tenant()))
            .map(|one| grants_line(&one)),
        TenantsCommand::Remove {
            name,
            lifetime,
            daemon,
        } => daemon
            .call(|admin| admin.remove_tenant(name, lifetime.lasts()))
            .map(|_| format!("{name}: removed\n")),
        TenantsCommand::Set(set) => set
            .daemon
            .call(|admin| admin.change_tenant(&set.name, &set.change()))
            .map(|one| grants_line(&one)),
        TenantsCommand::Freeze(name) => name.set_freeze_state(FreezeState::Frozen),
        TenantsCommand::Thaw(name) => name.set_freeze_state(FreezeState::Thawed),
        TenantsCommand::Save(file) => file.save(),
        TenantsCommand::Restore(file) => file.restore(),
        TenantsCommand::Discard(name) => name.discard(),
    };
    match text {
        Ok(text) => Exit::written(io::stdout().write_all(text.as_bytes())),
        Err(exit) => exit,
    }
}

impl SetTenantArgs {
    fn change(&self) -> ChangeTenant {
        ChangeTenant {
            weight: self.grants.weight.map(Weight),
            floor: self.grants.floor,
            ceiling: self.grants.ceiling,
            eviction: self.grants.eviction,
            borrow: self.grants.borrow,
            lasts: self.lifetime.lasts(),
        }
    }
}

impl AddTenantArgs {
    fn tenant(&self) -> AddTenant {
        AddTenant {
            name: self.name.clone(),
            weight: self.grants.weight.map(Weight),
            floor: self.grants.floor,
            ceiling: self.grants.ceiling,
            eviction: self.grants.eviction,
            borrow: self.grants.borrow,
            lasts: self.lifetime.lasts(),
        }
    }
}

/// What is known of its pages. Nothing if it never had a pool.
fn pages(pages: &PagesStatus) -> String {
    if *pages == PagesStatus::default() {
        return String::new();
    }
    let rows = [
        ("pools", pages.pools),
        ("pages", pages.used),
        ("pages_on_disk", pages.on_disk),
        ("pages_same_filled", pages.same_filled),
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

/// What its rings did. Counts of zero are left out.
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

fn tenant_page(tenant: &TenantStatus) -> String {
    let mut page = grants_line(tenant);
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
    page.push_str(&evicted_tables::lines(tenant));
    page.push_str(&pages(&tenant.pages));
    page.push_str(&tenant.ring.as_ref().map_or(String::new(), ring));
    for (name, count) in &tenant.counters {
        page.push_str(&format!("{name:<20} {count}\n"));
    }
    page
}
