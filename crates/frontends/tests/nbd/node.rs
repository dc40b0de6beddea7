//! A listener of fake disks, and a plain client.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sublet_frontends::backend::{Backend, ManualClock, MonotonicClock};
use sublet_frontends::block_device::Disk;
use sublet_frontends::listeners::{Endpoint, TlsCertificates, Transport, bind, bind_one};
use sublet_frontends::nbd::serve::{BACKLOG, Group, NbdService, start};
use sublet_frontends::nbd::{Exports, Settings};
use sublet_frontends::tenancy::{Clock, Ledger};
use sublet_store::{PageSettings, Store, StoreSettings};
use sublet_types::Bytes;

/// Longer than anything in these tests takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until a condition holds.
pub(crate) fn soon(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Threads that serve one listener.
pub(crate) struct Node {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) group: Arc<Group>,
    running: Option<NbdService>,
}

impl Node {
    pub(crate) fn start(disks: Vec<Arc<dyn Disk>>) -> Node {
        Node::start_as(disks, Settings::default(), None)
    }

    pub(crate) fn start_as(
        disks: Vec<Arc<dyn Disk>>,
        settings: Settings,
        tls: Option<TlsCertificates>,
    ) -> Node {
        Node::start_by(&MonotonicClock::default(), disks, settings, tls)
    }

    /// Starts a node whose deadlines follow the returned clock.
    pub(crate) fn start_still(
        disks: Vec<Arc<dyn Disk>>,
        settings: Settings,
        tls: Option<TlsCertificates>,
    ) -> (Node, ManualClock) {
        let time = ManualClock::start();
        (Node::start_by(&time.clock(), disks, settings, tls), time)
    }

    fn start_by(
        clock: &MonotonicClock,
        disks: Vec<Arc<dyn Disk>>,
        settings: Settings,
        tls: Option<TlsCertificates>,
    ) -> Node {
        let exports = Exports::default();
        for disk in disks {
            exports.add(disk).expect("room");
        }
        let running = start(2, &backend(clock), Arc::new(|| panic!("serving failed")));
        let node = Node {
            folder: tempfile::tempdir().expect("a folder"),
            group: Arc::new(Group::new(Arc::new(exports), settings, tls.map(Arc::new))),
            running: Some(running.expect("it serves")),
        };
        node.open("nbd", &node.group);
        node
    }

    /// Opens one more listener.
    pub(crate) fn open(&self, file: &str, group: &Arc<Group>) {
        let endpoint = Endpoint::Unix {
            path: self.path(file),
            mode: 0o600,
        };
        for listener in bind(&[endpoint], BACKLOG).expect("a socket") {
            self.running()
                .add(listener, Arc::clone(group))
                .expect("it is waited for");
        }
    }

    /// Opens a listener over TCP.
    pub(crate) fn open_tcp(&self) -> SocketAddr {
        let endpoint = Endpoint::Tcp {
            host: Some("127.0.0.1".to_owned()),
            port: 0,
            transport: Transport::Plain,
        };
        let listener = bind_one(&endpoint, BACKLOG).expect("a socket");
        let address = listener.tcp_address().expect("an address");
        let added = self.running().add(listener, Arc::clone(&self.group));
        added.expect("it is waited for");
        address
    }

    pub(crate) fn running(&self) -> &NbdService {
        self.running.as_ref().expect("it runs until it is dropped")
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// A connection after the server's greeting.
    pub(crate) fn connect(&self) -> Client {
        let socket = UnixStream::connect(self.path("nbd")).expect("connected");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Client::greet(socket)
    }

    /// A connection to a disk.
    pub(crate) fn go(&self, disk: &str) -> Client {
        let mut client = self.connect();
        client.go(disk);
        client
    }

    /// Gives each worker a turn: each serves a client of `disk` twice.
    pub(crate) fn let_all_turn(&self, disk: &str) {
        let mut clients = [self.go(disk), self.go(disk)];
        for n in 0..2 {
            clients
                .iter_mut()
                .for_each(|client| client.read(n, 0, 1, 0));
        }
    }

    pub(crate) fn figure(&self, name: &str) -> u64 {
        let figures = self.group.figures.named();
        let found = figures.iter().find(|(known, _)| *known == name);
        found.expect("a figure").1
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }
}

fn backend(clock: &MonotonicClock) -> Backend {
    let store = Store::new(StoreSettings {
        capacity: Bytes::mib(64),
        limit: Bytes::mib(64),
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages: PageSettings::default(),
    });
    Backend {
        store: store.expect("memory for a small store"),
        clock: Clock::by(*clock),
        ledger: Arc::new(Ledger::default()),
    }
}

/// The plainest client, with simple replies.
pub(crate) struct Client<S = UnixStream>(pub(crate) S);

impl<S: Read + Write> Client<S> {
    /// A client whose server has greeted it.
    pub(crate) fn greet(socket: S) -> Client<S> {
        let mut client = Client(socket);
        let mut greeting = [0; 18];
        client.0.read_exact(&mut greeting).expect("a greeting");
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
        client.0.write_all(&[0, 0, 0, 3]).expect("written");
        client
    }

    /// Enters transmission.
    pub(crate) fn go(&mut self, disk: &str) {
        self.option(
            7,
            &[&(disk.len() as u32).to_be_bytes(), disk.as_bytes(), &[0, 0]].concat(),
        );
        assert_eq!(self.reply().0, 3);
        assert_eq!(self.reply().0, 1);
    }

    pub(crate) fn option(&mut self, number: u32, payload: &[u8]) {
        let len = (payload.len() as u32).to_be_bytes();
        let bytes = [b"IHAVEOPT".as_slice(), &number.to_be_bytes(), &len, payload].concat();
        self.0.write_all(&bytes).expect("written");
    }

    /// The kind of a reply to an option, and its bytes.
    pub(crate) fn reply(&mut self) -> (u32, Vec<u8>) {
        let mut head = [0; 20];
        self.0.read_exact(&mut head).expect("a reply");
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
        let mut payload = vec![0; word(16) as usize];
        self.0.read_exact(&mut payload).expect("the rest");
        (word(12), payload)
    }

    pub(crate) fn send_request(&mut self, verb: u16, cookie: u64, at: u64, len: u32) {
        self.0
            .write_all(&request(verb, cookie, at, len))
            .expect("written");
    }

    pub(crate) fn write(&mut self, cookie: u64, at: u64, bytes: &[u8]) {
        self.send_request(1, cookie, at, bytes.len() as u32);
        self.0.write_all(bytes).expect("written");
    }

    /// Error and cookie of the next reply, or an error at the end of the stream.
    pub(crate) fn answer(&mut self) -> io::Result<(u32, u64)> {
        let mut head = [0; 16];
        self.0.read_exact(&mut head)?;
        assert_eq!(&head[..4], b"\x67\x44\x66\x98");
        let errno = u32::from_be_bytes(head[4..8].try_into().expect("four"));
        Ok((
            errno,
            u64::from_be_bytes(head[8..].try_into().expect("eight")),
        ))
    }

    /// Reads, and checks that all bytes are the same.
    pub(crate) fn read(&mut self, cookie: u64, at: u64, len: u32, byte: u8) {
        self.send_request(0, cookie, at, len);
        assert_eq!(self.answer().expect("an answer"), (0, cookie));
        let mut bytes = vec![0; len as usize];
        self.0.read_exact(&mut bytes).expect("bytes");
        assert!(bytes.iter().all(|got| *got == byte), "other bytes at {at}");
    }
}

pub(crate) fn request(verb: u16, cookie: u64, at: u64, len: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend([0; 2]);
    bytes.extend(verb.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(at.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}
