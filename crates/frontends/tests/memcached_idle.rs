//! The daemon closes connections that are idle for too long. The test moves the clock.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sublet_frontends::backend::{Backend, ManualClock};
use sublet_frontends::memcached::instance::{CertsRefused, ClientControls, Instance, LimitRefused};
use sublet_frontends::memcached::metrics::CpuTime;
use sublet_frontends::memcached::passwords::Passwords;
use sublet_frontends::memcached::serve::{
    Endpoint, Group, MemcachedService, StopMode, bind, start,
};
use sublet_frontends::memcached::settings::Settings;
use sublet_frontends::tenancy::{Clock, Ledger};
use sublet_store::{PageSettings, Store, StoreSettings};
use sublet_types::{Bytes, TenantId, TenantSettings, Weight};

const IDLE: Duration = Duration::from_secs(60);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Shorter than any time limit.
const MOMENT: Duration = Duration::from_millis(1);

struct FakeProcess;

impl ClientControls for FakeProcess {
    fn limit_memory(&self, _: TenantId, _: Bytes) -> Result<(), LimitRefused> {
        Err(LimitRefused::TooLarge)
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

/// One worker, and the clock that its deadlines follow.
struct Node {
    folder: tempfile::TempDir,
    time: ManualClock,
    running: MemcachedService,
}

impl Node {
    fn start(idle_timeout: Option<Duration>) -> Node {
        let settings = Settings {
            idle_timeout,
            ..Settings::default()
        };
        let (backend, tenant, time) = backend(&settings);
        let folder = tempfile::tempdir().expect("a folder");
        let endpoint = Endpoint::Unix {
            path: folder.path().join("socket"),
            mode: 0o600,
        };
        let listeners = bind(&[endpoint], 16).expect("a socket");
        let passwords = Passwords::default();
        let group = Group {
            instance: Arc::new(Instance::new(settings, Box::new(FakeProcess), passwords)),
            tenant,
            tls: None,
        };
        let running = start(vec![(group, listeners)], 1, &backend, Arc::new(|_| {}));
        Node {
            folder,
            time,
            running: running.expect("it serves"),
        }
    }

    fn connect(&self) -> Client {
        let path: PathBuf = self.folder.path().join("socket");
        let mut client = Client(BufReader::new(UnixStream::connect(path).expect("let in")));
        client.is_served();
        client
    }
}

fn backend(settings: &Settings) -> (Backend, TenantId, ManualClock) {
    let store = Store::new(StoreSettings {
        capacity: Bytes::mib(64),
        limit: Bytes::mib(64),
        item_max: Bytes(settings.item_max),
        seed: 7,
        evicts: true,
        pages: PageSettings::default(),
    });
    let store = store.expect("memory for a small store");
    let tenant = store.add_tenant(TenantSettings {
        name: "default".parse().expect("a name"),
        weight: Weight::default(),
        floor: None,
        ceiling: None,
    });
    let time = ManualClock::start();
    let backend = Backend {
        store,
        clock: Clock::by(time.clock()),
        ledger: Arc::new(Ledger::default()),
    };
    (backend, tenant.expect("the first tenant"), time)
}

struct Client(BufReader<UnixStream>);

impl Client {
    /// Makes so many requests that the one worker reads the clock in between and does what is due. It answers a few
    /// requests in a row without that.
    fn is_served(&mut self) {
        for _ in 0..20 {
            self.send(b"version\r\n");
            let mut line = String::new();
            self.0.read_line(&mut line).expect("an answer");
            assert!(line.starts_with("VERSION "), "{line:?}");
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("heard");
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 1]), Ok(0))
    }
}

#[test]
fn an_idle_connection_is_closed_at_its_time_and_a_busy_one_stays() {
    let node = Node::start(Some(IDLE));
    let (mut idle, mut asks) = (node.connect(), node.connect());
    node.time.advance(IDLE - MOMENT);
    asks.is_served();
    idle.is_served();
    node.time.advance(IDLE - MOMENT);
    asks.is_served();
    node.time.advance(Duration::from_secs(2));
    assert!(idle.is_closed());
    asks.is_served();
}

#[test]
fn without_a_timeout_no_connection_is_closed() {
    let node = Node::start(None);
    let (mut idle, mut other) = (node.connect(), node.connect());
    node.time.advance(DAY);
    other.is_served();
    idle.is_served();
}

#[test]
fn a_graceful_stop_waits_for_half_a_request_until_its_time_is_over() {
    let node = Node::start(None);
    let (mut half, mut idle) = (node.connect(), node.connect());
    half.send(b"set k 0 0 10\r\nabc");
    idle.is_served();
    let Node { time, running, .. } = node;
    let stops = thread::spawn(move || running.stop(StopMode::Graceful));
    // The worker closes a connection with nothing under way at once, so it knows of the stop by then.
    assert!(idle.is_closed());
    assert!(!stops.is_finished(), "what is under way may be finished");
    time.advance(DAY);
    stops.join().expect("it ends");
    assert!(half.is_closed());
}
