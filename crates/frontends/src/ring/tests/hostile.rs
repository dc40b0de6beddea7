//! Clients that misbehave. An honest client is served beside each all the while.

use std::io::{ErrorKind, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use sublet_client::ring::hello::{HELLO_BYTES, Hello};
use sublet_client::ring::layout::{self, Completion, Outcome, Submission, at};
use sublet_client::ring::{Client, CloseReason, DEFAULT_SHAPE, Fault, GetOutcome, Key, Shape};
use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId};

use super::fair::soon;
use super::fake_pages::Daemon;
use crate::clock::ManualClock;
use crate::ring::Settings;
use crate::ring::metrics::Operation;

/// A connection whose ring the test writes byte by byte, through the file.
struct Rogue {
    socket: UnixStream,
    memory: OwnedFd,
    bell: OwnedFd,
    shape: Shape,
}

impl Rogue {
    fn connect(daemon: &Daemon, shape: Shape) -> Rogue {
        let mut socket = UnixStream::connect(daemon.path()).expect("a daemon");
        socket
            .write_all(&Hello { wish: shape }.to_bytes())
            .expect("sent");
        let (mut answer, mut descriptors) = ([0; HELLO_BYTES], Vec::new());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut answer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        rustix::net::recvmsg(&socket, &mut parts, &mut control, flags).expect("an answer");
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        let [memory, bell] = <[OwnedFd; 2]>::try_from(descriptors).expect("two descriptors");
        Rogue {
            socket,
            memory,
            bell,
            shape,
        }
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        let _ = rustix::io::pwrite(&self.memory, bytes, at as u64);
    }

    fn read<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        let read = rustix::io::pread(&self.memory, &mut bytes, at as u64);
        assert_eq!(read, Ok(N));
        bytes
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn submit(&self, number: u32, submission: &Submission) {
        let at = self.shape.submission_at(number);
        self.write(at, &submission.to_bytes());
        self.write(at::SQ_TAIL, &(number + 1).to_le_bytes());
        self.ring();
    }

    fn completions(&self) -> u32 {
        u32::from_le_bytes(self.read(at::CQ_TAIL))
    }

    /// Waits for the completion of that number.
    fn completion(&self, number: u32) -> Completion {
        soon("a completion", || self.completions() > number);
        Completion::of(&self.read(self.shape.completion_at(number)))
    }

    /// The daemon's last byte.
    fn close_reason(mut self) -> CloseReason {
        let mut said = Vec::new();
        let long = Some(Duration::from_secs(20));
        self.socket.set_read_timeout(long).expect("set");
        let _ = self.socket.read_to_end(&mut said);
        let last = said.into_iter().filter_map(CloseReason::of).next_back();
        last.unwrap_or(CloseReason::HungUp)
    }
}

/// Checks that the daemon serves an honest client.
struct HonestClient {
    client: Client,
    pool: PoolId,
}

impl HonestClient {
    fn connect(daemon: &Daemon) -> HonestClient {
        let mut client = Client::connect(daemon.path()).expect("connected");
        let pool = client.create_pool(PoolFlags::default(), None);
        let pool = pool.expect("a pool");
        HonestClient { client, pool }
    }

    fn is_served(&mut self) {
        for index in 0..20 {
            let key = Key {
                pool: self.pool,
                object: ObjectId(1),
                index: PageIndex(index),
            };
            self.client.put(key, &[index as u8; 4096]).expect("stored");
            let mut page = [0; 4096];
            assert_eq!(self.client.get(key, &mut page), Ok(GetOutcome::Hit));
            assert_eq!(page, [index as u8; 4096]);
        }
    }
}

fn small() -> Shape {
    Shape::new(8, 8).expect("a fine shape")
}

fn fields(opcode: u16) -> Submission {
    Submission {
        opcode,
        token: 77,
        ..Submission::default()
    }
}

#[test]
fn nonsense_is_answered_with_what_is_wrong() {
    let daemon = Daemon::start(Settings::default(), 1);
    let mut fair = HonestClient::connect(&daemon);
    let rogue = Rogue::connect(&daemon, small());
    let mut number = 0;
    let mut answer = |submission: Submission| {
        rogue.submit(number, &submission);
        let completion = rogue.completion(number);
        rogue.write(at::CQ_HEAD, &(number + 1).to_le_bytes());
        number += 1;
        assert_eq!(
            (completion.token, completion.opcode),
            (77, submission.opcode)
        );
        Outcome::of(completion.outcome)
    };
    let faulty = |fault| Some(Outcome::Faulty(fault));
    for opcode in [0, 7, 99, u16::MAX] {
        assert_eq!(answer(fields(opcode)), faulty(Fault::Opcode));
    }
    let theirs = layout::handle_of(fair.pool);
    for pool in [0, theirs, u64::MAX, 1 << 63, 1 << 31] {
        let get = Submission {
            pool,
            count: 1,
            ..fields(2)
        };
        assert_eq!(answer(get), faulty(Fault::Pool));
        assert_eq!(
            answer(Submission { pool, ..fields(4) }),
            faulty(Fault::Pool)
        );
        assert_eq!(
            answer(Submission { pool, ..fields(6) }),
            faulty(Fault::Pool)
        );
    }
    let far = Submission {
        page_slot: 8,
        count: 1,
        ..fields(1)
    };
    assert_eq!(answer(far), faulty(Fault::PageSlots));
    let long = Submission {
        count: u32::MAX,
        ..fields(1)
    };
    assert_eq!(answer(long), faulty(Fault::Run));
    fair.is_served();
    let faults = 4 + 15 + 2;
    soon("they are counted", || {
        daemon.group.figures.faults.get() == faults
    });
    let counted = |operation| daemon.group.figures.operation(operation);
    assert_eq!(counted(Operation::UnknownFaulty), 4);
    assert_eq!(counted(Operation::GetFaulty), 5);
    assert_eq!(counted(Operation::DestroyPoolFaulty), 5);
    assert_eq!(counted(Operation::PutFaulty), 2);
    assert_eq!(counted(Operation::PutStored), 20);
    assert_eq!(counted(Operation::PutReplaced), 0);
    assert_eq!(counted(Operation::GetHit), 20);
}

#[test]
fn impossible_indices_end_the_connection_with_a_word() {
    let daemon = Daemon::start(Settings::default(), 1);
    let mut fair = HonestClient::connect(&daemon);
    let rogue = Rogue::connect(&daemon, small());
    rogue.write(at::SQ_TAIL, &9u32.to_le_bytes());
    rogue.ring();
    assert_eq!(rogue.close_reason(), CloseReason::Garbage);
    let rogue = Rogue::connect(&daemon, small());
    for number in 0..8 {
        rogue.submit(number, &fields(99));
    }
    soon("all are answered", || rogue.completions() == 8);
    rogue.write(at::CQ_HEAD, &9u32.to_le_bytes());
    rogue.submit(8, &fields(99));
    assert_eq!(rogue.close_reason(), CloseReason::Garbage);
    assert_eq!(daemon.group.figures.ended_garbage.get(), 2);
    let mut rogue = Rogue::connect(&daemon, small());
    rogue.socket.write_all(b"hello?").expect("sent");
    assert_eq!(rogue.close_reason(), CloseReason::Chatter);
    fair.is_served();
}

#[test]
fn who_never_drains_waits_for_nobody_but_itself() {
    let daemon = Daemon::start(Settings::default(), 1);
    let mut fair = HonestClient::connect(&daemon);
    let rogue = Rogue::connect(&daemon, small());
    rogue.write(at::SQ_TAIL, &8u32.to_le_bytes());
    rogue.ring();
    soon("eight are answered", || rogue.completions() == 8);
    rogue.write(at::SQ_TAIL, &16u32.to_le_bytes());
    rogue.ring();
    fair.is_served();
    assert_eq!(rogue.completions(), 8, "there is no room for more");
    rogue.write(at::CQ_HEAD, &5u32.to_le_bytes());
    rogue.ring();
    soon("five more", || rogue.completions() == 13);
}

/// The daemon only polls its doorbell, so a full counter that was made to block does not hold it up.
#[test]
fn a_doorbell_that_blocks_holds_nobody_up() {
    let daemon = Daemon::start(Settings::default(), 1);
    let mut fair = HonestClient::connect(&daemon);
    let rogue = Rogue::connect(&daemon, small());
    let blocking = rustix::fs::OFlags::empty();
    rustix::fs::fcntl_setfl(&rogue.bell, blocking).expect("it is theirs as well");
    rustix::io::write(&rogue.bell, &(u64::MAX - 1).to_ne_bytes()).expect("full");
    for round in 0..8 {
        rogue.write(at::CLIENT_SLEEPS, &1u32.to_le_bytes());
        rogue.write(at::SQ_TAIL, &(round + 1u32).to_le_bytes());
        fair.is_served();
    }
}

/// Doorbell bytes that nobody reads fill a socket. That holds nobody up either.
#[test]
fn a_socket_that_nobody_reads_holds_nobody_up() {
    let daemon = Daemon::start(Settings::default(), 1);
    let mut fair = HonestClient::connect(&daemon);
    let rogue = Rogue::connect(&daemon, small());
    for number in 0..3000 {
        rogue.write(at::CLIENT_SLEEPS, &1u32.to_le_bytes());
        rogue.submit(number, &fields(99));
        soon("an answer", || rogue.completions() == number + 1);
        rogue.write(at::CQ_HEAD, &(number + 1).to_le_bytes());
    }
    assert!(daemon.group.figures.bells_rung.get() >= 1000);
    fair.is_served();
}

/// The client writes over the slot, the entries and the indices while a get or put copies.
#[test]
fn scribbling_harms_nobody_else() {
    let daemon = Daemon::start(Settings::default(), 1);
    let mut fair = HonestClient::connect(&daemon);
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    for _ in 0..20 {
        let rogue = Rogue::connect(&daemon, small());
        rogue.submit(0, &fields(5));
        let pool = rogue.completion(0).first;
        for _ in 0..200 {
            scribble(&rogue, &mut rng, pool);
        }
        fair.is_served();
    }
    fair.is_served();
    let only = [fair.pool].into();
    soon("their pools are gone", || daemon.pages.pools() == only);
}

fn scribble(rogue: &Rogue, rng: &mut TestRng, pool: u64) {
    let draw = rng.next_u64();
    let place = (draw >> 8) as usize % rogue.shape.bytes();
    let mut bytes = [0; 256];
    rng.fill_bytes(&mut bytes);
    match draw % 4 {
        0 => rogue.write(rogue.shape.slot_at(draw as u32 >> 8 & 7), &bytes),
        1 => rogue.write(place.max(at::CLIENT_SLEEPS), &bytes),
        _ => {
            let tail = u32::from_le_bytes(rogue.read(at::SQ_TAIL));
            rogue.write(at::CQ_HEAD, &rogue.completions().to_le_bytes());
            let submission = Submission {
                pool,
                count: draw as u32 >> 16 & 15,
                index: draw as u32 >> 20,
                page_slot: draw as u32 >> 24 & 15,
                ..fields(1 + (draw >> 40) as u16 % 7)
            };
            rogue.submit(tail, &submission);
        }
    }
}

/// The client has sent all that it ever sends on the socket. Its requests go through its ring.
#[test]
fn who_shuts_its_socket_for_writing_is_served_until_it_hangs_up() {
    let daemon = Daemon::start(Settings::default(), 1);
    let rogue = Rogue::connect(&daemon, small());
    rogue.socket.shutdown(Shutdown::Write).expect("shut");
    // The worker gets the kernel's event before or with this client's requests.
    let mut fair = HonestClient::connect(&daemon);
    (0..2).for_each(|_| fair.is_served());
    drop(fair);
    rogue.submit(0, &fields(99));
    assert_eq!(rogue.completion(0).token, 77);
    let open = || daemon.group.figures.connections.get();
    soon("the other is gone", || open() == 1);
    drop(rogue);
    soon("it is gone", || open() == 0);
}

#[test]
fn who_does_not_greet_is_nobody() {
    let time = ManualClock::start();
    let daemon = Daemon::start_by(&time.clock(), Settings::default(), 1);
    for greeting in [&b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"[..], &[0; 32]] {
        let mut socket = UnixStream::connect(daemon.path()).expect("a daemon");
        socket.write_all(greeting).expect("sent");
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        assert_eq!(answer[12], 5, "the greeting makes no sense");
    }
    let mut quiet = UnixStream::connect(daemon.path()).expect("a daemon");
    let open = || daemon.group.figures.connections.get();
    soon("it is let in", || open() == 1);
    let silence_max = Settings::default().silence_max;
    time.advance(silence_max - Duration::from_millis(1));
    let mut fair = HonestClient::connect(&daemon);
    (0..2).for_each(|_| fair.is_served());
    quiet.set_nonblocking(true).expect("it does not wait");
    let said = quiet.read(&mut [0; 1]).expect_err("before its time");
    assert_eq!(said.kind(), ErrorKind::WouldBlock);
    quiet.set_nonblocking(false).expect("it waits");
    time.advance(silence_max);
    let mut answer = Vec::new();
    quiet.read_to_end(&mut answer).expect("turned out");
    assert_eq!(answer, [CloseReason::Late as u8]);
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .expect("descriptors")
        .count()
}

fn ring_mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("mappings");
    maps.lines()
        .filter(|line| line.contains("sublet-ring"))
        .count()
}

/// Connections that end in every way leave no pool, page, place, descriptor or mapping. Other tests of this process
/// have descriptors and mappings too, so a process of its own counts those two, see below.
fn connect_and_kill(daemon: &Daemon, cycles: u32) {
    for cycle in 0..cycles {
        match cycle % 4 {
            0 => drop(UnixStream::connect(daemon.path())),
            1 => {
                let mut socket = UnixStream::connect(daemon.path()).expect("a daemon");
                socket.write_all(b"SUBLETRG").expect("half a greeting");
            }
            2 => {
                let mut fair = HonestClient::connect(daemon);
                let key = Key {
                    pool: fair.pool,
                    object: ObjectId(1),
                    index: PageIndex(cycle),
                };
                fair.client.put(key, &[1; 4096]).expect("stored");
            }
            _ => {
                let rogue = Rogue::connect(daemon, small());
                rogue.submit(0, &fields(5));
                rogue.write(at::SQ_TAIL, &(cycle | 8).to_le_bytes());
            }
        }
        if cycle % 32 == 0 {
            soon("permits are free", || {
                daemon.group.figures.connections.get() < 16
            });
        }
    }
    soon("all permits are free", || {
        daemon.group.figures.connections.get() == 0
    });
    assert!(daemon.pages.pools().is_empty());
    assert_eq!(daemon.pages.pages(), 0);
}

#[test]
fn killed_connections_leave_nothing() {
    let daemon = Daemon::start(Settings::default(), 2);
    connect_and_kill(&daemon, 1000);
}

/// This runs alone: `cargo test -p sublet-frontends ring::tests::hostile::a_hundred_thousand -- --ignored`.
#[test]
#[ignore = "takes a while, and counts what the whole process holds"]
fn a_hundred_thousand_killed_connections_leave_nothing() {
    let daemon = Daemon::start(Settings::default(), 2);
    connect_and_kill(&daemon, 100);
    let before = (descriptors(), ring_mappings());
    connect_and_kill(&daemon, 100_000);
    assert_eq!((descriptors(), ring_mappings()), before);
    assert_eq!(ring_mappings(), 0);
    let larger = Rogue::connect(&daemon, DEFAULT_SHAPE);
    assert!(larger.completions() == 0);
}
