//! Large replies, to clients that read them now fast, now slowly.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use crate::fake_disk::{AnswerMode, FakeDisk};
use crate::node::{Client, Node, request, soon};

const BYTES: u64 = 64 << 20;

fn node() -> Node {
    Node::start(vec![
        FakeDisk::new("prompt", BYTES, AnswerMode::Prompt),
        FakeDisk::new("late", BYTES, AnswerMode::Late),
    ])
}

/// The contents of a range: every eight bytes hold their own offset.
fn places(at: u64, len: usize) -> Vec<u8> {
    let words = (at / 8..).map(|n| (n * 8).to_ne_bytes());
    words.take(len / 8).flatten().collect()
}

fn fill(client: &mut Client) {
    const PIECE: u64 = 1 << 20;
    for at in (0..BYTES).step_by(PIECE as usize) {
        client.write(at, at, &places(at, PIECE as usize));
        assert_eq!(client.answer().expect("an answer"), (0, at));
    }
}

/// A linear congruential generator.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005) + 1;
        (self.0 >> 33) % bound
    }
}

/// Asks for ranges all over the disk, `depth` at a time, and reads the replies now fast, now slowly.
fn read_all_over(client: &mut Client, random: &mut Lcg, rounds: u32, depth: u64) {
    for _ in 0..rounds {
        let mut requests = Vec::new();
        for _ in 0..depth {
            let most = if random.below(40) == 0 {
                3 << 20
            } else {
                300_000
            };
            let len = 8 * (1 + random.below(most / 8));
            let at = 8 * random.below((BYTES - len) / 8);
            let bytes = request(0, requests.len() as u64, at, len as u32);
            client.0.write_all(&bytes).expect("written");
            requests.push((at, len as usize));
        }
        if random.below(4) == 0 {
            thread::sleep(Duration::from_millis(5));
        }
        for _ in 0..depth {
            let (errno, cookie) = client.answer().expect("an answer");
            let (at, len) = requests[cookie as usize];
            let mut bytes = vec![0; len];
            for piece in bytes.chunks_mut(1 + random.below(200_000) as usize) {
                client.0.read_exact(piece).expect("bytes");
                if random.below(50) == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            assert_eq!(errno, 0);
            assert!(bytes == places(at, len), "other bytes at {at}, {len} long");
        }
    }
}

#[test]
fn what_is_read_is_what_was_written_however_slowly_it_is_read() {
    let node = node();
    for (seed, disk) in [(1, "prompt"), (2, "late")] {
        let mut client = node.go(disk);
        fill(&mut client);
        read_all_over(&mut client, &mut Lcg(seed), 30, 24);
    }
}

#[test]
fn who_reads_nothing_harms_nobody_and_finds_all_when_it_does() {
    let node = node();
    let mut idle = node.go("prompt");
    let mut busy = node.go("prompt");
    fill(&mut busy);
    let requests: Vec<u64> = (0..64).map(|n| n << 20).collect();
    for at in &requests {
        idle.send_request(0, *at, *at, 256 << 10);
    }
    read_all_over(&mut busy, &mut Lcg(3), 20, 24);
    for at in requests {
        assert_eq!(idle.answer().expect("an answer"), (0, at));
        let mut bytes = vec![0; 256 << 10];
        idle.0.read_exact(&mut bytes).expect("bytes");
        assert!(bytes == places(at, 256 << 10), "other bytes at {at}");
    }
}

#[test]
fn those_that_hang_up_amid_a_reply_leave_nothing() {
    let node = node();
    fill(&mut node.go("prompt"));
    for n in 0..200 {
        let mut client = node.go("prompt");
        for n in 0..8 {
            client.send_request(0, n, n << 20, 512 << 10);
        }
        let mut some = vec![0; 4096 * n];
        client.0.read_exact(&mut some).expect("bytes");
    }
    soon("all are gone", || node.figure("connections") == 0);
    read_all_over(&mut node.go("prompt"), &mut Lcg(5), 10, 8);
}

#[test]
fn many_connections_have_large_replies_at_the_same_time() {
    let node = node();
    fill(&mut node.go("prompt"));
    let mut clients: Vec<_> = (0..64).map(|_| node.go("prompt")).collect();
    for _ in 0..2 {
        for (seed, client) in (0..).zip(&mut clients) {
            read_all_over(client, &mut Lcg(seed), 1, 4);
        }
    }
}
