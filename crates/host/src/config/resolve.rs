//! What a config means: resolves every value by its row of the table, and names every contradiction.

use std::collections::{BTreeMap, BTreeSet};

use sublet_store::{ARENA_MIN, SHARERS_MAX};
use sublet_types::{Bytes, DiskSettings, TenantName};

use super::faults::{ConfigFault, ConfigFaults, FaultKind};
use super::knobs::{
    AdminConfig, ArenaConfig, BorrowConfig, DaemonConfig, DiskConfig, LendConfig, MetricsConfig,
    PeersConfig, PolicyConfig, TenantConfig, WrittenTenant,
};
use super::listen::ListenAddress;
use super::written::WrittenConfig;

/// The settings of the daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The daemon itself.
    pub daemon: DaemonConfig,
    /// How large the arena may be.
    pub arena: ArenaConfig,
    /// Where the admin interface listens.
    pub admin: AdminConfig,
    /// The policy: which tenant may hold how much.
    pub policy: PolicyConfig,
    /// Where Prometheus reads.
    pub metrics: MetricsConfig,
    /// Who this host is among its peers, and who they are.
    pub peers: PeersConfig,
    /// What peers may borrow here.
    pub lend: LendConfig,
    /// What is borrowed from peers.
    pub borrow: BorrowConfig,
    /// The tenants.
    pub tenants: Vec<TenantConfig>,
    /// What all disks share.
    pub disk: DiskConfig,
    /// The disks of virtual machines.
    pub disks: Vec<DiskSettings>,
}

impl WrittenConfig {
    /// Resolves the whole config.
    pub fn resolve(&self) -> Result<Config, ConfigFaults> {
        let mut faults = Vec::new();
        self.arena_faults(&mut faults);
        self.admin_faults(&mut faults);
        self.lending_faults(&mut faults);
        let tables = &self.tables;
        let policy = tables.policy.meaning();
        self.policy_faults(&policy, &mut faults);
        let tenants = self.resolve_tenants(&mut faults);
        let disks = self.resolve_disks(&mut faults);
        ConfigFaults::of(faults)?;
        Ok(Config {
            daemon: tables.daemon.meaning(),
            arena: tables.arena.meaning(),
            admin: tables.admin.meaning(),
            policy,
            metrics: tables.metrics.meaning(),
            peers: self.lending.peers.meaning(),
            lend: self.lending.lend.meaning(),
            borrow: self.lending.borrow.meaning(),
            tenants,
            disk: tables.disk.meaning(),
            disks,
        })
    }

    pub(super) fn fault(&self, key: &str, wrong: impl FnOnce(String) -> FaultKind) -> ConfigFault {
        self.location(key).fault(wrong(key.to_owned()))
    }

    fn arena_faults(&self, faults: &mut Vec<ConfigFault>) {
        let arena = &self.tables.arena;
        match arena.ceiling {
            Some(ceiling) if ceiling < ARENA_MIN => {
                faults.push(self.fault("arena.ceiling", FaultKind::TooSmall));
            }
            Some(ceiling) if ceiling < arena.floor => {
                faults.push(self.fault("arena.floor", |low| FaultKind::Above {
                    low,
                    high: "arena.ceiling",
                }));
            }
            _ => {}
        }
    }

    fn policy_faults(&self, policy: &PolicyConfig, faults: &mut Vec<ConfigFault>) {
        if let Err(wrong) = policy.choice() {
            let key = match wrong.is_of_knobs() {
                true => "policy.knobs",
                false => "policy.name",
            };
            faults.push(self.fault(key, |key| FaultKind::Policy { key, wrong }));
        }
    }

    /// Faults of the admin interface over TCP.
    fn admin_faults(&self, faults: &mut Vec<ConfigFault>) {
        let admin = &self.tables.admin;
        match admin.tcp {
            None => return,
            Some(ListenAddress::Tcp(..)) => {}
            Some(ListenAddress::Unix(_) | ListenAddress::Ring(_)) => {
                faults.push(self.fault("admin.tcp", |_| FaultKind::WantsTcp("admin.tcp")));
                return;
            }
        }
        let parts = [
            (&admin.tls_cert, "admin.tls_cert"),
            (&admin.tls_key, "admin.tls_key"),
            (&admin.token_file, "admin.token_file"),
        ];
        for (_, needs) in parts.into_iter().filter(|(path, _)| path.is_none()) {
            faults.push(self.fault("admin.tcp", |key| FaultKind::Needs { key, needs }));
        }
    }

    fn resolve_tenants(&self, faults: &mut Vec<ConfigFault>) -> Vec<TenantConfig> {
        self.name_faults(faults);
        let mut all = self.tenants.clone();
        for name in self.disk_tenants() {
            all.entry(name).or_insert_with(WrittenTenant::defaults);
        }
        all.into_iter()
            .map(|(name, written)| written.meaning(&name))
            .collect()
    }

    /// Faults of the pools that tenants share.
    fn sharing_faults(&self, faults: &mut Vec<ConfigFault>) {
        let mut named = BTreeMap::new();
        for (name, tenant) in &self.tenants {
            let (shared, sharers) = (
                format!("tenants.{name}.shared"),
                format!("tenants.{name}.sharers"),
            );
            if tenant.shared.is_some() && tenant.sharers.is_empty() {
                faults.push(self.fault(&shared, |key| FaultKind::Needs {
                    key,
                    needs: "sharers",
                }));
            }
            if tenant.shared.is_none() && !tenant.sharers.is_empty() {
                faults.push(self.fault(&sharers, |key| FaultKind::Needs {
                    key,
                    needs: "shared",
                }));
            }
            let place = self.location(&shared);
            let first = tenant
                .shared
                .and_then(|shared| named.insert(shared, place.clone()));
            if let Some(first) = first {
                faults.push(place.fault(FaultKind::SharedTwice { key: shared, first }));
            }
            let distinct: BTreeSet<&String> = tenant.sharers.iter().collect();
            let named = distinct.len();
            if named > SHARERS_MAX {
                faults.push(self.fault(&sharers, |key| FaultKind::Sharers { key, named }));
            }
            let is_known = |sharer: &str| self.tenants.keys().any(|name| name.as_str() == sharer);
            for sharer in tenant.sharers.iter().filter(|sharer| !is_known(sharer)) {
                let tenant = sharer.clone();
                faults.push(self.fault(&sharers, |key| FaultKind::NoSharer { key, tenant }));
            }
        }
    }

    /// Faults of how much a tenant may have.
    fn limit_faults(
        &self,
        name: &TenantName,
        tenant: &WrittenTenant,
        faults: &mut Vec<ConfigFault>,
    ) {
        let key = |key: &str| format!("tenants.{name}.{key}");
        if tenant
            .ceiling
            .zip(tenant.floor)
            .is_some_and(|(ceiling, floor)| ceiling < floor)
        {
            faults.push(self.fault(&key("floor"), |low| FaultKind::Above {
                low,
                high: "ceiling",
            }));
        }
        let floor = tenant.floor.filter(|floor| *floor > Bytes::ZERO);
        for (limit, amount) in [("floor", floor), ("ceiling", tenant.ceiling)] {
            // A value that was once granted live does not keep the daemon from starting.
            if let Some(Err(source)) = amount.map(Bytes::of_a_block_or_more)
                && !self.is_changed
            {
                faults.push(self.fault(&key(limit), |key| FaultKind::BelowBlock { key, source }));
            }
        }
        let fits = |total: Bytes| total >= tenant.spill_size;
        if !tenant.spill_total.is_none_or(fits) {
            faults.push(self.fault(&key("spill_size"), |low| FaultKind::Above {
                low,
                high: "spill_total",
            }));
        }
    }

    fn name_faults(&self, faults: &mut Vec<ConfigFault>) {
        self.sum_faults(faults);
        self.sharing_faults(faults);
        let mut listed = BTreeMap::new();
        let mut users = BTreeMap::new();
        let of_disks = self.disk_tenants();
        for (name, tenant) in &self.tenants {
            let key = |key: &str| format!("tenants.{name}.{key}");
            self.limit_faults(name, tenant, faults);
            if tenant.sasl && tenant.auth_file.is_none() {
                faults.push(self.fault(&key("sasl"), |key| FaultKind::Needs {
                    key,
                    needs: "auth_file",
                }));
            }
            for user in &tenant.users {
                let place = self.location(&key("users"));
                if let Some(first) = users.insert(user.clone(), place.clone()) {
                    let (key, user) = (key("users"), user.clone());
                    faults.push(place.fault(FaultKind::NamedTwice { key, user, first }));
                }
            }
            let reached =
                !tenant.listen.is_empty() || !tenant.users.is_empty() || tenant.shared.is_some();
            if !reached && !tenant.added && !of_disks.contains(name) {
                let place = self.location(&format!("tenants.{name}"));
                faults.push(place.fault(FaultKind::NoListener(name.to_string())));
            }
            let parts = [
                ("tls_cert", &tenant.tls_cert, &tenant.tls_key, "tls_key"),
                ("tls_key", &tenant.tls_key, &tenant.tls_cert, "tls_cert"),
                ("tls_ca", &tenant.tls_ca, &tenant.tls_cert, "tls_cert"),
            ];
            for (part, said, other, needs) in parts {
                if said.is_some() && other.is_none() {
                    faults.push(self.fault(&key(part), |key| FaultKind::Needs { key, needs }));
                }
            }
            let place = self.location(&key("listen"));
            for listen in tenant.listen.iter().filter(|listen| !is_any_port(listen)) {
                if let Some(first) = listed.insert(listen.clone(), place.clone()) {
                    let key = key("listen");
                    let listen = listen.to_string();
                    faults.push(
                        place
                            .clone()
                            .fault(FaultKind::ListedTwice { key, listen, first }),
                    );
                }
            }
        }
    }
}

impl WrittenConfig {
    /// Faults of all tenants together.
    fn sum_faults(&self, faults: &mut Vec<ConfigFault>) {
        let floors: Bytes = self
            .tenants
            .values()
            .filter_map(|tenant| tenant.floor)
            .sum();
        // Each live change was granted while others did not hold. Together they are no reason not to start.
        if !self.is_changed
            && self
                .tables
                .arena
                .ceiling
                .is_some_and(|ceiling| ceiling < floors)
        {
            faults.push(self.fault("arena.ceiling", |_| FaultKind::FloorsAbove(floors)));
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
            faults.push(self.fault(&key, |key| FaultKind::Needs {
                key,
                needs: "auth_file",
            }));
        }
    }
}

fn is_any_port(listen: &ListenAddress) -> bool {
    matches!(listen, ListenAddress::Tcp(_, 0))
}
