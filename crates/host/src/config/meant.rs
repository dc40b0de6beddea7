//! What a config means: every value resolved by its row of the table, every contradiction named.

use std::collections::{BTreeMap, BTreeSet};

use sublet_store::{ARENA_MIN, SHARERS_MAX};
use sublet_types::{Bytes, DiskSettings, TenantName};

use super::faults::{Fault, Faults, Wrong};
use super::knobs::{
    AdminConfig, ArenaConfig, DaemonConfig, DiskConfig, MetricsConfig, PolicyConfig, TenantConfig,
    WrittenTenant,
};
use super::listen::Listen;
use super::written::Written;

/// What the daemon does.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What the daemon is.
    pub daemon: DaemonConfig,
    /// How large the arena may be.
    pub arena: ArenaConfig,
    /// Where the owner is listened to.
    pub admin: AdminConfig,
    /// Who may hold how much.
    pub policy: PolicyConfig,
    /// Where Prometheus reads.
    pub metrics: MetricsConfig,
    /// Who is served.
    pub tenants: Vec<TenantConfig>,
    /// What all disks share.
    pub disk: DiskConfig,
    /// The disks of virtual machines.
    pub disks: Vec<DiskSettings>,
}

impl Written {
    /// What it all means.
    pub fn meaning(&self) -> Result<Config, Faults> {
        let mut faults = Vec::new();
        self.arena_faults(&mut faults);
        self.admin_faults(&mut faults);
        let rooms = &self.rooms;
        let policy = rooms.policy.meaning();
        self.policy_faults(&policy, &mut faults);
        let tenants = self.tenants_meant(&mut faults);
        let disks = self.disks_meant(&mut faults);
        Faults::of(faults)?;
        Ok(Config {
            daemon: rooms.daemon.meaning(),
            arena: rooms.arena.meaning(),
            admin: rooms.admin.meaning(),
            policy,
            metrics: rooms.metrics.meaning(),
            tenants,
            disk: rooms.disk.meaning(),
            disks,
        })
    }

    fn fault(&self, key: &str, wrong: impl FnOnce(String) -> Wrong) -> Fault {
        self.place(key).wrong(wrong(key.to_owned()))
    }

    fn arena_faults(&self, faults: &mut Vec<Fault>) {
        let arena = &self.rooms.arena;
        match arena.ceiling {
            Some(ceiling) if ceiling < ARENA_MIN => {
                faults.push(self.fault("arena.ceiling", Wrong::TooSmall));
            }
            Some(ceiling) if ceiling < arena.floor => {
                faults.push(self.fault("arena.floor", |low| Wrong::Above {
                    low,
                    high: "arena.ceiling",
                }));
            }
            _ => {}
        }
    }

    fn policy_faults(&self, policy: &PolicyConfig, faults: &mut Vec<Fault>) {
        if let Err(wrong) = policy.choice() {
            let key = match wrong.is_of_knobs() {
                true => "policy.knobs",
                false => "policy.name",
            };
            faults.push(self.fault(key, |key| Wrong::Policy { key, wrong }));
        }
    }

    /// What the interface over TCP lacks.
    fn admin_faults(&self, faults: &mut Vec<Fault>) {
        let admin = &self.rooms.admin;
        match admin.tcp {
            None => return,
            Some(Listen::Tcp(..)) => {}
            Some(Listen::Unix(_) | Listen::Ring(_)) => {
                faults.push(self.fault("admin.tcp", |_| Wrong::WantsTcp("admin.tcp")));
                return;
            }
        }
        let parts = [
            (&admin.tls_cert, "admin.tls_cert"),
            (&admin.tls_key, "admin.tls_key"),
            (&admin.token_file, "admin.token_file"),
        ];
        for (_, needs) in parts.into_iter().filter(|(path, _)| path.is_none()) {
            faults.push(self.fault("admin.tcp", |key| Wrong::Needs { key, needs }));
        }
    }

    fn tenants_meant(&self, faults: &mut Vec<Fault>) -> Vec<TenantConfig> {
        self.name_faults(faults);
        let mut all = self.tenants.clone();
        for name in self.disk_tenants() {
            all.entry(name).or_insert_with(WrittenTenant::defaults);
        }
        all.into_iter()
            .map(|(name, written)| written.meaning(&name))
            .collect()
    }

    /// What is wrong with the pools that tenants share.
    fn sharing_faults(&self, faults: &mut Vec<Fault>) {
        let mut named = BTreeMap::new();
        for (name, tenant) in &self.tenants {
            let (shared, sharers) = (
                format!("tenants.{name}.shared"),
                format!("tenants.{name}.sharers"),
            );
            if tenant.shared.is_some() && tenant.sharers.is_empty() {
                faults.push(self.fault(&shared, |key| Wrong::Needs {
                    key,
                    needs: "sharers",
                }));
            }
            if tenant.shared.is_none() && !tenant.sharers.is_empty() {
                faults.push(self.fault(&sharers, |key| Wrong::Needs {
                    key,
                    needs: "shared",
                }));
            }
            let place = self.place(&shared);
            let first = tenant
                .shared
                .and_then(|shared| named.insert(shared, place.clone()));
            if let Some(first) = first {
                faults.push(place.wrong(Wrong::SharedTwice { key: shared, first }));
            }
            let distinct: BTreeSet<&String> = tenant.sharers.iter().collect();
            let named = distinct.len();
            if named > SHARERS_MAX {
                faults.push(self.fault(&sharers, |key| Wrong::Sharers { key, named }));
            }
            let is_known = |sharer: &str| self.tenants.keys().any(|name| name.as_str() == sharer);
            for sharer in tenant.sharers.iter().filter(|sharer| !is_known(sharer)) {
                let tenant = sharer.clone();
                faults.push(self.fault(&sharers, |key| Wrong::NoSharer { key, tenant }));
            }
        }
    }

    /// What is wrong with how much a tenant may have.
    fn limit_faults(&self, name: &TenantName, tenant: &WrittenTenant, faults: &mut Vec<Fault>) {
        let key = |key: &str| format!("tenants.{name}.{key}");
        if tenant
            .ceiling
            .zip(tenant.floor)
            .is_some_and(|(ceiling, floor)| ceiling < floor)
        {
            faults.push(self.fault(&key("floor"), |low| Wrong::Above {
                low,
                high: "ceiling",
            }));
        }
        let floor = tenant.floor.filter(|floor| *floor > Bytes::ZERO);
        for (limit, amount) in [("floor", floor), ("ceiling", tenant.ceiling)] {
            // What was once granted live keeps no daemon from starting.
            if let Some(Err(source)) = amount.map(Bytes::of_a_block_or_more)
                && !self.is_changed
            {
                faults.push(self.fault(&key(limit), |key| Wrong::BelowBlock { key, source }));
            }
        }
        let fits = |total: Bytes| total >= tenant.spill_size;
        if !tenant.spill_total.is_none_or(fits) {
            faults.push(self.fault(&key("spill_size"), |low| Wrong::Above {
                low,
                high: "spill_total",
            }));
        }
    }

    fn name_faults(&self, faults: &mut Vec<Fault>) {
        self.sum_faults(faults);
        self.sharing_faults(faults);
        let mut listed = BTreeMap::new();
        let mut users = BTreeMap::new();
        let of_disks = self.disk_tenants();
        for (name, tenant) in &self.tenants {
            let key = |key: &str| format!("tenants.{name}.{key}");
            self.limit_faults(name, tenant, faults);
            if tenant.sasl && tenant.auth_file.is_none() {
                faults.push(self.fault(&key("sasl"), |key| Wrong::Needs {
                    key,
                    needs: "auth_file",
                }));
            }
            for user in &tenant.users {
                let place = self.place(&key("users"));
                if let Some(first) = users.insert(user.clone(), place.clone()) {
                    let (key, user) = (key("users"), user.clone());
                    faults.push(place.wrong(Wrong::NamedTwice { key, user, first }));
                }
            }
            let reached =
                !tenant.listen.is_empty() || !tenant.users.is_empty() || tenant.shared.is_some();
            if !reached && !tenant.added && !of_disks.contains(name) {
                let place = self.place(&format!("tenants.{name}"));
                faults.push(place.wrong(Wrong::NoListener(name.to_string())));
            }
            let parts = [
                ("tls_cert", &tenant.tls_cert, &tenant.tls_key, "tls_key"),
                ("tls_key", &tenant.tls_key, &tenant.tls_cert, "tls_cert"),
                ("tls_ca", &tenant.tls_ca, &tenant.tls_cert, "tls_cert"),
            ];
            for (part, said, other, needs) in parts {
                if said.is_some() && other.is_none() {
                    faults.push(self.fault(&key(part), |key| Wrong::Needs { key, needs }));
                }
            }
            let place = self.place(&key("listen"));
            for listen in tenant.listen.iter().filter(|listen| !is_any_port(listen)) {
                if let Some(first) = listed.insert(listen.clone(), place.clone()) {
                    let key = key("listen");
                    let listen = listen.to_string();
                    faults.push(
                        place
                            .clone()
                            .wrong(Wrong::ListedTwice { key, listen, first }),
                    );
                }
            }
        }
    }
}

impl Written {
    /// What is wrong with all tenants together.
    fn sum_faults(&self, faults: &mut Vec<Fault>) {
        let floors: Bytes = self
            .tenants
            .values()
            .filter_map(|tenant| tenant.floor)
            .sum();
        // Each live change was granted while others did not hold: together they are no reason not to start.
        if !self.is_changed
            && self
                .rooms
                .arena
                .ceiling
                .is_some_and(|ceiling| ceiling < floors)
        {
            faults.push(self.fault("arena.ceiling", |_| Wrong::FloorsAbove(floors)));
        }
        let nobody_logs_in = self
            .tenants
            .values()
            .all(|tenant| tenant.auth_file.is_none());
        let mut of_users = self
            .tenants
            .iter()
            .filter(|(_, tenant)| !tenant.users.is_empty());
        if let Some((name, _)) = of_users.next()
            && nobody_logs_in
        {
            let key = format!("tenants.{name}.users");
            faults.push(self.fault(&key, |key| Wrong::Needs {
                key,
                needs: "auth_file",
            }));
        }
    }
}

fn is_any_port(listen: &Listen) -> bool {
    matches!(listen, Listen::Tcp(_, 0))
}
