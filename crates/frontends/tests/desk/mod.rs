//! A store, an instance and sessions, without sockets.

use std::sync::Arc;

use sublet_frontends::memcached::instance::{CertsRefused, Host, Instance, LimitRefused};
use sublet_frontends::memcached::metrics::CpuTime;
use sublet_frontends::memcached::passwords::{Account, Names, Passwords};
use sublet_frontends::memcached::session::{Next, Session};
use sublet_frontends::memcached::settings::Settings;
use sublet_frontends::tenancy::{Clock, Doorman, Ledger, Tenancy};
use sublet_store::{Store, StoreSettings};
use sublet_types::{Bytes, TenantId, TenantSettings, Weight};

/// A process that grants memory between 8 and 1024 MiB.
struct Process;

impl Host for Process {
    fn limit_memory(&self, _: TenantId, limit: Bytes) -> Result<(), LimitRefused> {
        match limit > Bytes::gib(1) {
            true => Err(LimitRefused::TooLarge),
            false => Ok(()),
        }
    }

    fn memory_limit(&self, _: TenantId) -> Bytes {
        Bytes::mib(64)
    }

    fn refresh_certs(&self) -> Result<(), CertsRefused> {
        Err(CertsRefused::NoTls)
    }

    fn cpu_time(&self) -> CpuTime {
        CpuTime::default()
    }
}

/// What sessions of one test share.
pub(crate) struct Desk {
    instance: Arc<Instance>,
    doorman: Doorman,
    pub(crate) tenancy: Tenancy,
}

impl Desk {
    pub(crate) fn new(settings: Settings) -> Desk {
        let store = Store::new(StoreSettings {
            capacity: Bytes::mib(64),
            limit: Bytes::mib(64),
            item_max: Bytes(settings.item_max),
            seed: 7,
            evicts: true,
            pages: sublet_store::PageSettings::default(),
        })
        .expect("memory for a small store");
        let [tenant, other] = ["default", "other"].map(|name| {
            let settings = TenantSettings {
                name: name.parse().expect("a name"),
                weight: Weight::default(),
                floor: None,
                ceiling: None,
            };
            store.add_tenant(settings).expect("one of two tenants")
        });
        let ledger = Arc::new(Ledger::default());
        let doorman = Doorman::new(&store, Clock::start(), &ledger).expect("the first worker");
        let passwords = passwords(&settings, other);
        Desk {
            instance: Arc::new(Instance::new(settings, Box::new(Process), passwords)),
            tenancy: doorman.open(tenant),
            doorman,
        }
    }

    pub(crate) fn connect(&self) -> Client<'_> {
        let now = self.tenancy.clock().now();
        let (address, listener) = ("tcp:127.0.0.1:5".into(), Some("tcp:127.0.0.1:1".into()));
        let peer = self.instance.connections.enter(9, address, listener, now);
        Client {
            session: Session::new(Arc::clone(&self.instance), peer),
            desk: self,
            became: None,
            waiting: Vec::new(),
            last: Next::Read { wanted: 1 },
        }
    }
}

/// `user`, and `guest@host`, who is served as the other tenant.
fn passwords(settings: &Settings, other: TenantId) -> Passwords {
    let account = |user: &str, tenant| Account {
        user: user.into(),
        password: b"pass".to_vec(),
        tenant,
    };
    let accounts = vec![account("user", None), account("guest@host", Some(other))];
    let passwords = Passwords::of(accounts).expect("two accounts");
    match settings.sasl {
        true => passwords.with_names(Names::WithoutHost),
        false => passwords,
    }
}

/// One client and its session.
pub(crate) struct Client<'a> {
    session: Session,
    desk: &'a Desk,
    /// As whom it is served since it logged in.
    became: Option<Tenancy>,
    /// Bytes of input that the session left with the loop.
    pub(crate) waiting: Vec<u8>,
    /// What the session last asked for.
    pub(crate) last: Next,
}

impl Client<'_> {
    /// Sends bytes in one piece; returns the replies.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut replies = Vec::new();
        if matches!(self.last, Next::Close | Next::Shutdown { .. }) {
            return replies;
        }
        self.waiting.extend_from_slice(bytes);
        let mut out = Vec::new();
        loop {
            let tenancy = self.became.as_ref().unwrap_or(&self.desk.tenancy);
            let advance = self.session.advance(&self.waiting, &mut out, tenancy);
            self.waiting.drain(..advance.consumed);
            self.last = advance.next;
            match advance.next {
                Next::Write => replies.append(&mut out),
                Next::Yield => {}
                Next::Become(tenant) => self.became = Some(self.desk.doorman.open(tenant)),
                Next::Read { .. } | Next::Watch | Next::Close | Next::Shutdown { .. } => break,
            }
        }
        replies.append(&mut out);
        replies
    }
}
