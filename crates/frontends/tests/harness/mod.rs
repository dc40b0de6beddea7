//! A store, an instance and sessions, without sockets.

use std::sync::Arc;

use sublet_frontends::memcached::instance::{CertsRefused, ClientControls, Instance, LimitRefused};
use sublet_frontends::memcached::metrics::CpuTime;
use sublet_frontends::memcached::passwords::{Account, Passwords, UserNameForm};
use sublet_frontends::memcached::session::{LoopAction, Session};
use sublet_frontends::memcached::settings::Settings;
use sublet_frontends::tenancy::{Clock, Ledger, StoreHandle, Tenancy};
use sublet_store::{Store, StoreSettings};
use sublet_types::{Bytes, TenantId, TenantSettings, Weight};

/// A process that grants memory between 8 and 1024 MiB.
struct FakeProcess;

impl ClientControls for FakeProcess {
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

/// What the sessions of one test share.
pub(crate) struct Harness {
    instance: Arc<Instance>,
    store_handle: StoreHandle,
    pub(crate) tenancy: Tenancy,
}

impl Harness {
    pub(crate) fn new(settings: Settings) -> Harness {
        Harness::by(Clock::start(), settings)
    }

    /// A harness whose daemon goes by this clock.
    pub(crate) fn by(clock: Clock, settings: Settings) -> Harness {
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
        let store_handle = StoreHandle::new(&store, clock, &ledger).expect("the first worker");
        let passwords = passwords(&settings, other);
        Harness {
            instance: Arc::new(Instance::new(settings, Box::new(FakeProcess), passwords)),
            tenancy: store_handle.open(tenant),
            store_handle,
        }
    }

    pub(crate) fn connect(&self) -> Client<'_> {
        let now = self.tenancy.clock().now();
        let (address, listener) = ("tcp:127.0.0.1:5".into(), Some("tcp:127.0.0.1:1".into()));
        let peer = self.instance.connections.enter(9, address, listener, now);
        Client {
            session: Session::new(Arc::clone(&self.instance), peer),
            harness: self,
            became: None,
            waiting: Vec::new(),
            last: LoopAction::Read { wanted: 1 },
        }
    }
}

/// Makes the accounts `user`, and `guest@host`, who acts for the other tenant.
fn passwords(settings: &Settings, other: TenantId) -> Passwords {
    let account = |user: &str, tenant| Account {
        user: user.into(),
        password: b"pass".to_vec(),
        tenant,
    };
    let accounts = vec![account("user", None), account("guest@host", Some(other))];
    let passwords = Passwords::of(accounts).expect("two accounts");
    match settings.sasl {
        true => passwords.with_names(UserNameForm::WithoutHost),
        false => passwords,
    }
}

/// One client and its session.
pub(crate) struct Client<'a> {
    session: Session,
    harness: &'a Harness,
    /// The tenancy for which the client acts since it logged in.
    became: Option<Tenancy>,
    /// Bytes of input that the session left with the loop.
    pub(crate) waiting: Vec<u8>,
    /// The last action that the session asked for.
    pub(crate) last: LoopAction,
}

impl Client<'_> {
    /// Sends bytes in one piece. Returns the replies.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut replies = Vec::new();
        if matches!(self.last, LoopAction::Close | LoopAction::Shutdown(_)) {
            return replies;
        }
        self.waiting.extend_from_slice(bytes);
        let mut out = Vec::new();
        loop {
            let tenancy = self.became.as_ref().unwrap_or(&self.harness.tenancy);
            let advance = self.session.advance(&self.waiting, &mut out, tenancy);
            self.waiting.drain(..advance.consumed);
            self.last = advance.next;
            match advance.next {
                LoopAction::Write => replies.append(&mut out),
                LoopAction::Yield => {}
                LoopAction::SwitchTenant(tenant) => {
                    self.became = Some(self.harness.store_handle.open(tenant))
                }
                LoopAction::Read { .. }
                | LoopAction::Watch
                | LoopAction::Close
                | LoopAction::Shutdown(_) => break,
            }
        }
        replies.append(&mut out);
        replies
    }
}
