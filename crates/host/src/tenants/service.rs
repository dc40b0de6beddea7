//! One tenant's service: its instance, its listeners, its place in the store.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use sublet_client::messages::RingStatus;
use sublet_frontends::memcached::instance::Instance;
use sublet_frontends::memcached::passwords::{Passwords, PasswordsError, UserNameForm};
use sublet_frontends::memcached::serve::{
    Endpoint, Group, ListenError, Listener, TlsCertificates, TlsError, Transport, bind,
};
use sublet_frontends::memcached::settings::{
    ClientCertificateDemand, Settings, TlsSettings, TlsVersion,
};
use sublet_frontends::ring::serve as ring;
use sublet_store::{CreatePoolError, Store, TenantError};
use sublet_types::{EvictionKind, Second, TenantId, TenantName};

use super::owner::{MemoryAllowance, Owner, TenantCertificates};
use super::rings;
use crate::config::{self, Config, ListenAddress, TenantConfig};
use crate::credential_report::CredentialReport;
use crate::observe::events::{EventSubject, Events};
use crate::stuck::{self, SocketHolder};

/// What the daemon keeps of a tenant's service.
pub(crate) struct Service {
    pub(crate) name: TenantName,
    /// The tenant's settings at the start, from the config and live changes.
    pub(super) said: TenantConfig,
    pub(crate) id: TenantId,
    pub(crate) instance: Arc<Instance>,
    pub(crate) listen: Vec<String>,
    pub(crate) allowed: Arc<MemoryAllowance>,
    /// What its rings share, if it has any.
    pub(crate) rings: Option<Arc<ring::Group>>,
    tls: Option<Arc<TlsCertificates>>,
}

/// Why a tenant cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The tenant's place is taken, or is not ours to take.
    #[error("tenant {name}: {source}{}{}", stuck::describe_holder(.by.as_deref()), hint(.source))]
    Listen {
        /// Which tenant.
        name: TenantName,
        /// Why.
        source: ListenError,
        /// The process that has it.
        by: Option<Box<SocketHolder>>,
    },
    /// The tenant's certificates cannot be used.
    #[error("tenant {name}: {source}")]
    Tls {
        /// Which tenant.
        name: TenantName,
        /// Why.
        source: TlsError,
    },
    /// The tenant's users cannot be read.
    #[error("tenant {name}, {path}: {source}")]
    Passwords {
        /// Which tenant.
        name: TenantName,
        /// Its `auth_file`.
        path: PathBuf,
        /// Why.
        source: PasswordsError,
    },
    /// The tenant's pool cannot be shared.
    #[error("tenant {name}: its pool cannot be shared: {source}")]
    Shared {
        /// Which tenant.
        name: TenantName,
        /// Why.
        source: CreatePoolError,
    },
    /// The store has no room for the tenant.
    #[error("tenant {name}: {source}")]
    Store {
        /// Which tenant.
        name: TenantName,
        /// Why.
        source: TenantError,
    },
}

const ELSEWHERE: &str = "; choose another: `listen` in the config, or, where that names no tenant, sublet serve --listen tcp:127.0.0.1:11212";

/// What to type against a place that is taken.
fn hint(error: &ListenError) -> &'static str {
    match error {
        ListenError::Taken(_) => ELSEWHERE,
        ListenError::Refused { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
            ELSEWHERE
        }
        _ => "",
    }
}

/// Lets tenants share the pools that others are charged for.
pub(super) fn allow_sharing(
    tenants: &[(&TenantConfig, TenantId)],
    store: &Store,
) -> Result<(), ServiceError> {
    for (tenant, account) in tenants {
        let Some(shared) = &tenant.shared else {
            continue;
        };
        let may_share = |(other, _): &&(&TenantConfig, TenantId)| {
            let name = other.settings.name.as_str();
            shared.sharers.iter().any(|sharer| sharer == name)
        };
        let sharers = tenants.iter().filter(may_share).map(|(_, id)| *id);
        store
            .allow_sharing(shared.name, *account, sharers.collect())
            .map_err(|source| ServiceError::Shared {
                name: tenant.settings.name.clone(),
                source,
            })?;
    }
    Ok(())
}

/// memcached's `-b`.
const BACKLOG: u32 = 1024;

/// A tenant's listeners, bound before anything else begins.
pub(crate) fn listeners(tenant: &TenantConfig) -> Result<Vec<Listener>, ServiceError> {
    let endpoints: Vec<Endpoint> = tenant
        .listen
        .iter()
        .filter_map(|place| endpoint(tenant, place))
        .collect();
    let named = |source| ServiceError::Listen {
        name: tenant.settings.name.clone(),
        by: stuck::holder_of_address(&source),
        source,
    };
    bind(&endpoints, BACKLOG).map_err(named)
}

/// Where the tenant serves memcached. `None` for a ring.
fn endpoint(tenant: &TenantConfig, place: &ListenAddress) -> Option<Endpoint> {
    Some(match place {
        ListenAddress::Ring(_) => return None,
        ListenAddress::Unix(path) => Endpoint::Unix {
            path: path.clone(),
            mode: tenant.mode,
        },
        ListenAddress::Tcp(host, port) => Endpoint::Tcp {
            host: Some(host.clone()),
            port: *port,
            transport: match tenant.tls {
                Some(_) => Transport::Tls,
                None => Transport::Plain,
            },
        },
    })
}

/// The tenant of each user, at whatever listener the user logs in.
pub(super) type UserTenants = HashMap<Vec<u8>, TenantId>;

/// The users of all tenants.
pub(super) fn users<'a>(
    tenants: impl Iterator<Item = (&'a TenantConfig, TenantId)>,
) -> UserTenants {
    let named = |(tenant, id): (&'a TenantConfig, TenantId)| {
        let users = tenant.users.iter();
        users.map(move |user| (user.clone().into_bytes(), id))
    };
    tenants.flat_map(named).collect()
}

/// Adds a tenant to the store.
pub(super) fn add_to_store(tenant: &TenantConfig, store: &Store) -> Result<TenantId, ServiceError> {
    let added = store.add_tenant(tenant.settings.clone());
    added.map_err(|source| ServiceError::Store {
        name: tenant.settings.name.clone(),
        source,
    })
}

impl Service {
    /// Makes the instance of a tenant that the store knows.
    pub(super) fn open(
        tenant: &TenantConfig,
        id: TenantId,
        listeners: &[Listener],
        store: &Arc<Store>,
        users: &UserTenants,
        config: &Config,
        events: &Events,
    ) -> Result<Service, ServiceError> {
        let name = &tenant.settings.name;
        let tls = tls(tenant)?;
        let passwords = passwords(tenant, users)?;
        let ceiling = tenant.settings.ceiling.or(config.arena.ceiling);
        let allowed = Arc::new(MemoryAllowance::up_to(ceiling));
        let owner = Owner {
            store: Arc::clone(store),
            allowed: Arc::clone(&allowed),
            certificates: tenant.tls.as_ref().zip(tls.as_ref()).map(certificates),
            events: events.clone(),
            name: name.clone(),
        };
        let settings = instance_settings(tenant, listeners, config.daemon.threads);
        if tenant.eviction != EvictionKind::default() {
            store.set_eviction(id, tenant.eviction, Second(0));
        }
        if !tenant.borrowing.is_allowed() {
            store.set_borrowing(id, tenant.borrowing);
        }
        Ok(Service {
            name: name.clone(),
            said: tenant.clone(),
            id,
            instance: Arc::new(Instance::new(settings, Box::new(owner), passwords)),
            listen: shown_addresses(tenant, listeners),
            allowed,
            rings: None,
            tls,
        })
    }

    fn object(&self) -> EventSubject {
        EventSubject::Tenant(self.name.clone())
    }

    /// Records what was read of the tenant at the start.
    pub(super) fn record_read(&self, outcome: &mut CredentialReport) {
        if let Some(file) = &self.said.auth_file {
            outcome.record_read(self.object(), &[file]);
        }
        if let Some(said) = &self.said.tls {
            let files: Vec<&PathBuf> = files(said).collect();
            outcome.record_read(self.object(), &files);
        }
    }

    /// Reads the tenant's passwords and certificates again. Files that cannot be used change nothing.
    pub(super) fn reload_credentials(&self, users: &UserTenants, outcome: &mut CredentialReport) {
        if let Some(file) = &self.said.auth_file {
            let read = passwords(&self.said, users).map(|read| self.instance.set_passwords(read));
            outcome.record(self.object(), &[file], read);
        }
        if let (Some(tls), Some(said)) = (&self.tls, &self.said.tls) {
            let files: Vec<&PathBuf> = files(said).collect();
            let named = |source| ServiceError::Tls {
                name: self.name.clone(),
                source,
            };
            outcome.record(self.object(), &files, tls.reload().map_err(named));
        }
    }

    /// What the serving loop needs of the tenant.
    pub(crate) fn group(&self) -> Group {
        Group {
            instance: Arc::clone(&self.instance),
            tenant: self.id,
            tls: self.tls.clone(),
        }
    }

    /// Connected clients, those at rings included.
    pub(crate) fn connections(&self) -> u64 {
        let rings = self.rings.as_ref();
        let ringing = rings.map_or(0, |group| group.figures.connections.get());
        let figures = &self.instance.figures;
        figures.curr_connections.get() + ringing
    }

    /// What the tenant's rings did, if it has any.
    pub(crate) fn ring_status(&self) -> Option<RingStatus> {
        let group = self.rings.as_ref()?;
        Some(rings::status(group))
    }
}

/// The files of passwords and certificates that tenants name and that cannot be used, and why.
pub fn unusable_files(config: &Config) -> Vec<ServiceError> {
    let each = config.tenants.iter().flat_map(|tenant| {
        let users = passwords(tenant, &UserTenants::new()).err();
        [tls(tenant).err(), users]
    });
    each.flatten().collect()
}

/// Where clients reach the tenant: the bound listeners, and its rings.
fn shown_addresses(tenant: &TenantConfig, listeners: &[Listener]) -> Vec<String> {
    let bound = listeners
        .iter()
        .map(|listener| listener.address().to_owned());
    let rings = tenant
        .listen
        .iter()
        .filter(|place| matches!(place, ListenAddress::Ring(_)));
    bound.chain(rings.map(ListenAddress::to_string)).collect()
}

fn tls(tenant: &TenantConfig) -> Result<Option<Arc<TlsCertificates>>, ServiceError> {
    let Some(tls) = &tenant.tls else {
        return Ok(None);
    };
    let loaded = TlsCertificates::load(tls_settings(tls));
    let named = |source| ServiceError::Tls {
        name: tenant.settings.name.clone(),
        source,
    };
    Ok(Some(Arc::new(loaded.map_err(named)?)))
}

fn certificates((said, tls): (&config::TlsFiles, &Arc<TlsCertificates>)) -> TenantCertificates {
    TenantCertificates::of(tls, files(said).map(PathBuf::as_path))
}

/// The files that a tenant's certificates are read from.
fn files(said: &config::TlsFiles) -> impl Iterator<Item = &PathBuf> {
    [&said.cert, &said.key].into_iter().chain(&said.ca)
}

fn passwords(tenant: &TenantConfig, users: &UserTenants) -> Result<Passwords, ServiceError> {
    let Some(path) = &tenant.auth_file else {
        return Ok(Passwords::default());
    };
    let named = |source| ServiceError::Passwords {
        name: tenant.settings.name.clone(),
        path: path.clone(),
        source,
    };
    let names = match tenant.sasl {
        true => UserNameForm::WithoutHost,
        false => UserNameForm::Whole,
    };
    let whose = |user: &[u8]| users.get(user).copied();
    let read = Passwords::read(path).map_err(named)?;
    Ok(read.with_names(names).with_tenants(whose))
}

fn tls_settings(tls: &config::TlsFiles) -> TlsSettings {
    TlsSettings {
        chain: tls.cert.clone(),
        key: Some(tls.key.clone()),
        client_ca: tls.ca.clone(),
        client_certificate: match tls.ca {
            Some(_) => ClientCertificateDemand::Required,
            None => ClientCertificateDemand::Unasked,
        },
        min_version: TlsVersion::V12,
        resumes: true,
    }
}

fn instance_settings(tenant: &TenantConfig, listeners: &[Listener], threads: usize) -> Settings {
    let tcp = listeners.iter().find_map(Listener::tcp_address);
    let unix = tenant.listen.iter().find_map(|place| match place {
        ListenAddress::Unix(path) => Some(path.clone()),
        ListenAddress::Tcp(..) | ListenAddress::Ring(_) => None,
    });
    Settings {
        item_max: tenant.item_max.0,
        auth_file: tenant.auth_file.clone().filter(|_| !tenant.sasl),
        sasl: tenant.sasl,
        connections_max: tenant.connections,
        threads,
        port: tcp.map_or(0, |address| address.port()),
        inter: tcp.map(|address| address.ip().to_string()),
        unix_socket: unix,
        unix_mode: tenant.mode,
        backlog: BACKLOG,
        idle_timeout: tenant.idle_timeout,
        tls: tenant.tls.as_ref().map(tls_settings),
        ..Settings::default()
    }
}
