//! Disks and listeners come and go.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use sublet_frontends::nbd::serve::Group;
use sublet_frontends::nbd::{Exports, Settings};

use crate::fake_disk::{AnswerMode, FakeDisk};
use crate::node::{Node, request, soon};

const BYTES: u64 = 16 << 20;

#[test]
fn a_disk_that_leaves_answers_what_it_was_asked() {
    let going = FakeDisk::new("going", BYTES, AnswerMode::Late);
    let staying = FakeDisk::new("staying", BYTES, AnswerMode::Late);
    let node = Node::start(vec![Arc::clone(&going) as _, staying]);
    let (mut goes, mut stays) = (node.go("going"), node.go("staying"));
    let bytes: Vec<u8> = (0..200)
        .flat_map(|n| request(6, n, n * 4096, 4096))
        .collect();
    goes.0.write_all(&bytes).expect("written");
    assert_eq!(goes.answer().expect("an answer").0, 0);
    node.running().remove_disk("going");
    // The disk's own thread may still hold a reference for a moment.
    soon("nobody uses it any more", || Arc::strong_count(&going) == 1);
    let mut answered = 1;
    while let Ok((errno, _)) = goes.answer() {
        assert_eq!(errno, 0);
        answered += 1;
    }
    assert!(answered <= 200);
    stays.read(1, 0, 4096, 0);
    let mut late = node.connect();
    late.option(7, b"\0\0\0\x05going\0\0");
    assert_eq!(late.reply().0, 0x8000_0006);

    let again = FakeDisk::new("going", BYTES * 2, AnswerMode::Prompt);
    node.group.exports.add(again).expect("room");
    let mut new = node.go("going");
    new.read(1, BYTES * 2 - 1, 1, 0);
}

#[test]
fn a_listener_that_closes_takes_its_connections_and_its_file_along() {
    let disk = FakeDisk::new("a", BYTES, AnswerMode::Prompt);
    let node = Node::start(vec![Arc::clone(&disk) as _]);
    let exports = Exports::default();
    exports.add(disk).expect("room");
    let group = Arc::new(Group::new(Arc::new(exports), Settings::default(), None));
    node.open("other", &group);
    let mut first = node.go("a");
    let mut second = UnixStream::connect(node.path("other")).expect("connected");
    second.read_exact(&mut [0; 18]).expect("a greeting");
    let address = format!("unix:{}", node.path("other").display());
    assert!(node.running().close(&address));
    assert!(!node.running().close(&address));
    assert!(!node.path("other").exists());
    assert_eq!(second.read(&mut [0; 1]).expect("an end"), 0);
    assert_eq!(group.figures.connections.get(), 0);
    first.read(1, 0, 4096, 0);
}

#[test]
fn stopping_answers_what_is_under_way_and_removes_the_file() {
    let node = Node::start(vec![FakeDisk::new("a", BYTES, AnswerMode::Late)]);
    let mut client = node.go("a");
    client.write(1, 0, &[1; 100_000]);
    let (path, group) = (node.path("nbd"), Arc::clone(&node.group));
    assert_eq!(client.answer().expect("an answer"), (0, 1));
    client.read(2, 0, 4096, 1);
    drop(node);
    assert!(!path.exists());
    assert_eq!(client.0.read(&mut [0; 1]).expect("an end"), 0);
    assert_eq!(group.figures.connections.get(), 0);
}
