//! What a config means: every value resolved, every contradiction named.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sublet_store::{ARENA_MIN, SHARERS_MAX};
use sublet_types::{
    Bytes, DiskSettings, EvictionKind, SharedName, Shrinking, TenantName, TenantSettings,
};

use super::faults::{Fault, Faults, Wrong};
use super::listen::Listen;
use super::written::{Written, WrittenTenant};
use crate::manager::PolicyConfig;

/// What the daemon does.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Worker threads.
    pub threads: usize,
    /// What is logged.
    pub log: String,
    /// How.
    pub log_format: LogFormat,
    /// Where live changes are kept; `None` where there is no home for it.
    pub state: Option<PathBuf>,
    /// How large the arena may be.
    pub arena: ArenaConfig,
    /// Where the owner is listened to.
    pub admin: AdminConfig,
    /// Who may hold how much.
    pub policy: PolicyConfig,
    /// Where Prometheus reads.
    pub metrics: Option<Listen>,
    /// Who is served.
    pub tenants: Vec<TenantConfig>,
    /// What all disks share.
    pub disk: DiskConfig,
    /// The disks of virtual machines.
    pub disks: Vec<DiskSettings>,
}

/// What all disks share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// Where backings may lie of disks that are added while the daemon runs.
    pub allow: Vec<PathBuf>,
    /// The most bytes of pages that no backing has yet.
    pub dirty_max: Bytes,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How large the arena may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaConfig {
    /// The most it ever holds.
    pub ceiling: Option<Bytes>,
    /// What it keeps however short the host is.
    pub floor: Bytes,
    /// Idle memory that is left to the host; the headroom's own figure if `None`.
    pub reserve: Option<Bytes>,
    /// Releases above this are fast where nobody says how.
    pub release_threshold: Bytes,
}

/// Where the owner is listened to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// The admin socket.
    pub socket: PathBuf,
    /// The same over TCP.
    pub tcp: Option<AdminTcp>,
}

/// The admin interface over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminTcp {
    /// Host and port.
    pub address: (String, u16),
    /// Certificate chain, PEM.
    pub cert: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
    /// File with the token.
    pub token_file: PathBuf,
}

/// A pool that tenants share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedConfig {
    /// Its name.
    pub name: SharedName,
    /// The tenants who may share it.
    pub sharers: Vec<String>,
}

/// One tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantConfig {
    /// What it is granted.
    pub settings: TenantSettings,
    /// Where it is served.
    pub listen: Vec<Listen>,
    /// Mode of its Unix sockets.
    pub mode: u32,
    /// Users who may open its page rings; the daemon's own alone if there are none.
    pub allow_uids: Vec<u32>,
    /// Where its persistent pages go that memory has no place for.
    pub spill: Option<PathBuf>,
    /// Bytes of a spill file.
    pub spill_size: Bytes,
    /// Bytes of all its spill files together; as many as some pools have where `None`.
    pub spill_total: Option<Bytes>,
    /// A pool that others share and that it is charged for.
    pub shared: Option<SharedConfig>,
    /// Which of its pages goes first.
    pub eviction: EvictionKind,
    /// Its largest item.
    pub item_max: Bytes,
    /// The most connections at once.
    pub connections: usize,
    /// When idle connections are closed.
    pub idle_timeout: Option<Duration>,
    /// Who may log in.
    pub auth_file: Option<PathBuf>,
    /// They log in by SASL.
    pub sasl: bool,
    /// Who is served as this tenant, wherever they log in.
    pub users: Vec<String>,
    /// TLS on its TCP listeners.
    pub tls: Option<Tls>,
}

/// TLS of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Certificate chain, PEM.
    pub cert: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
    /// Who signs the clients' certificates, PEM.
    pub ca: Option<PathBuf>,
}

/// memcached's own number of threads, and the most that `auto` takes.
const THREADS_AUTO_MAX: usize = 4;

impl Written {
    /// What it all means.
    pub fn meaning(&self) -> Result<Config, Faults> {
        let mut faults = Vec::new();
        match self.ceiling {
            Some(ceiling) if ceiling < ARENA_MIN => {
                faults.push(self.fault("arena.ceiling", Wrong::TooSmall));
            }
            Some(ceiling) if ceiling < self.floor => {
                faults.push(self.fault("arena.floor", |low| Wrong::Above {
                    low,
                    high: "arena.ceiling",
                }));
            }
            _ => {}
        }
        let tcp = self.admin_tcp(&mut faults);
        let policy = self.policy_meant(&mut faults);
        let tenants = self.tenants_meant(&mut faults);
        let disks = self.disks_meant(&mut faults);
        Faults::of(faults)?;
        Ok(Config {
            threads: self.threads.map_or_else(threads_auto, |n| n as usize),
            log: self.log.clone(),
            log_format: match self.log_format {
                "json" => LogFormat::Json,
                _ => LogFormat::Text,
            },
            state: self.state.clone().or_else(state_folder),
            arena: ArenaConfig {
                ceiling: self.ceiling,
                floor: self.floor,
                reserve: self.reserve,
                release_threshold: self.release_threshold,
            },
            admin: AdminConfig {
                socket: self.admin_socket.clone().unwrap_or_else(admin_socket),
                tcp,
            },
            policy,
            metrics: self.metrics.clone(),
            tenants,
            disk: DiskConfig {
                allow: self.disk_allow.clone(),
                dirty_max: self.disk_dirty_max,
            },
            disks,
        })
    }

    fn fault(&self, key: &str, wrong: impl FnOnce(String) -> Wrong) -> Fault {
        self.place(key).wrong(wrong(key.to_owned()))
    }

    fn policy_meant(&self, faults: &mut Vec<Fault>) -> PolicyConfig {
        let policy = PolicyConfig {
            name: self.policy.clone(),
            knobs: self.policy_knobs.clone(),
            interval: Duration::from_secs(self.policy_interval),
            shrinking: match self.policy_shrink {
                "never" => Shrinking::Never,
                _ => Shrinking::Active,
            },
            log_file: self.policy_log.clone(),
        };
        if let Err(wrong) = policy.choice() {
            let key = match wrong.is_of_knobs() {
                true => "policy.knobs",
                false => "policy.name",
            };
            faults.push(self.fault(key, |key| Wrong::Policy { key, wrong }));
        }
        policy
    }

    fn admin_tcp(&self, faults: &mut Vec<Fault>) -> Option<AdminTcp> {
        let address = match self.admin_tcp.clone()? {
            Listen::Tcp(host, port) => (host, port),
            Listen::Unix(_) | Listen::Ring(_) => {
                faults.push(self.fault("admin.tcp", |_| Wrong::WantsTcp("admin.tcp")));
                return None;
            }
        };
        let mut need = |path: &Option<PathBuf>, needs| {
            if path.is_none() {
                faults.push(self.fault("admin.tcp", |key| Wrong::Needs { key, needs }));
            }
            path.clone()
        };
        let cert = need(&self.admin_tls_cert, "admin.tls_cert");
        let key = need(&self.admin_tls_key, "admin.tls_key");
        let token_file = need(&self.admin_token_file, "admin.token_file");
        Some(AdminTcp {
            address,
            cert: cert?,
            key: key?,
            token_file: token_file?,
        })
    }

    fn tenants_meant(&self, faults: &mut Vec<Fault>) -> Vec<TenantConfig> {
        self.name_faults(faults);
        let mut all = self.tenants.clone();
        for name in self.disk_tenants() {
            all.entry(name).or_insert_with(WrittenTenant::defaults);
        }
        all.into_iter()
            .map(|(name, written)| written.meaning(name))
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
        if !self.is_changed && self.ceiling.is_some_and(|ceiling| ceiling < floors) {
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

impl WrittenTenant {
    fn meaning(self, name: TenantName) -> TenantConfig {
        TenantConfig {
            settings: TenantSettings {
                name,
                weight: self.weight,
                floor: self.floor,
                ceiling: self.ceiling,
            },
            listen: self.listen,
            mode: self.mode,
            allow_uids: self.allow_uids,
            spill: self.spill,
            spill_size: self.spill_size,
            spill_total: self.spill_total,
            shared: self.shared.map(|name| SharedConfig {
                name,
                sharers: self.sharers,
            }),
            eviction: self.eviction,
            item_max: self.item_max,
            connections: self.connections,
            idle_timeout: self.idle_timeout,
            auth_file: self.auth_file,
            sasl: self.sasl,
            users: self.users,
            tls: self.tls_cert.zip(self.tls_key).map(|(cert, key)| Tls {
                cert,
                key,
                ca: self.tls_ca,
            }),
        }
    }
}

fn is_any_port(listen: &Listen) -> bool {
    matches!(listen, Listen::Tcp(_, 0))
}

fn threads_auto() -> usize {
    std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(THREADS_AUTO_MAX)
}

/// `$SUBLET_ADMIN`, or where such sockets belong.
fn admin_socket() -> PathBuf {
    sublet_client::default_socket()
}

/// Where the state of such programs belongs.
fn state_folder() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some("/var/lib/sublet".into());
    }
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"));
    let state = env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    state.or_else(home).map(|folder| folder.join("sublet"))
}
