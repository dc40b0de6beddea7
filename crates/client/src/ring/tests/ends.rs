//! The two ends against each other: an honest client's end as a model, and random bytes of a hostile one.

use std::os::fd::OwnedFd;

use proptest::prelude::*;
use rustix::fs::SealFlags;

use crate::ring::client_end::ClientEnd;
use crate::ring::layout::{Completion, Submission, at};
use crate::ring::{CorruptIndex, DaemonEnd, InvalidRing, Shape, SleepAttempt, Wakeup};

const ENTRIES: u32 = 8;

fn shape() -> Shape {
    Shape::new(ENTRIES, 4).expect("a fine shape")
}

fn ring() -> (DaemonEnd, OwnedFd) {
    DaemonEnd::create(shape()).expect("a ring")
}

/// Writes as any process can that has the file.
fn scribble(memory: &OwnedFd, at: usize, bytes: &[u8]) {
    let written = rustix::io::pwrite(memory, bytes, at as u64);
    assert_eq!(written, Ok(bytes.len()));
}

fn submit(memory: &OwnedFd, tail: u32) {
    scribble(memory, at::SQ_TAIL, &tail.to_le_bytes());
}

#[test]
fn the_memory_is_sealed() {
    let (_end, memory) = ring();
    let seals = rustix::fs::fcntl_get_seals(&memory).expect("seals");
    assert!(seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL));
    rustix::fs::ftruncate(&memory, 0).expect_err("it cannot shrink");
    rustix::fs::ftruncate(&memory, 1 << 30).expect_err("it cannot grow");
}

#[test]
fn an_index_that_cannot_be_is_garbage() {
    let (mut end, memory) = ring();
    assert!(!end.has_work());
    submit(&memory, ENTRIES + 1);
    assert!(end.has_work());
    let tail = ENTRIES + 1;
    let garbage = CorruptIndex::SubmissionTail {
        tail,
        taken: 0,
        entries: ENTRIES,
    };
    assert_eq!(end.dequeue(), Err(garbage));

    let (mut end, memory) = ring();
    submit(&memory, ENTRIES);
    for _ in 0..ENTRIES {
        end.dequeue().expect("believed").expect("an entry");
        end.complete(&Completion::default());
    }
    let _ = end.publish();
    submit(&memory, ENTRIES + 1);
    scribble(&memory, at::CQ_HEAD, &(ENTRIES + 1).to_le_bytes());
    let garbage = CorruptIndex::CompletionHead {
        head: ENTRIES + 1,
        written: ENTRIES,
    };
    assert!(end.has_work());
    assert_eq!(end.dequeue(), Err(garbage));
}

#[test]
fn who_never_drains_is_not_served_further() {
    let (mut end, memory) = ring();
    for round in 1..=3 {
        submit(&memory, ENTRIES * round);
        for _ in 0..ENTRIES {
            if end.dequeue().expect("believed").is_some() {
                end.complete(&Completion::default());
            }
        }
        let _ = end.publish();
        assert!(!end.has_work(), "the completion queue is full");
        assert_eq!(end.fall_asleep(), SleepAttempt::Asleep);
        if round == 2 {
            scribble(&memory, at::CQ_HEAD, &1u32.to_le_bytes());
            assert!(end.has_work(), "one was drained");
            assert!(end.dequeue().expect("believed").is_some());
            end.complete(&Completion::default());
            break;
        }
    }
}

#[test]
fn a_bell_is_rung_once_a_sleep_and_never_without() {
    let (mut end, memory) = ring();
    let mut client = ClientEnd::open(&memory, shape()).expect("a ring");
    let serve = |end: &mut DaemonEnd| {
        while end.dequeue().expect("believed").is_some() {
            end.complete(&Completion::default());
        }
        end.publish()
    };
    client.submit(&Submission::default());
    assert_eq!(client.publish(), Wakeup::NotNeeded);
    assert_eq!(end.fall_asleep(), SleepAttempt::WorkArrived);
    assert_eq!(serve(&mut end), Wakeup::NotNeeded);
    assert_eq!(end.fall_asleep(), SleepAttempt::Asleep);
    client.submit(&Submission::default());
    assert_eq!(client.publish(), Wakeup::Needed);
    assert_eq!(client.publish(), Wakeup::NotNeeded, "once is enough");
    assert_eq!(client.fall_asleep(), SleepAttempt::WorkArrived);
    assert!(client.reap().is_some());
    assert_eq!(client.fall_asleep(), SleepAttempt::Asleep);
    assert_eq!(serve(&mut end), Wakeup::Needed);
    assert_eq!(serve(&mut end), Wakeup::NotNeeded, "nothing to tell");
}

#[test]
fn a_client_takes_no_other_file_for_a_ring() {
    let (_end, memory) = ring();
    let larger = Shape::new(ENTRIES, 5).expect("a fine shape");
    assert!(matches!(
        ClientEnd::open(&memory, larger),
        Err(InvalidRing::Wrong)
    ));
    scribble(&memory, 0, b"SUBLETXX");
    assert!(matches!(
        ClientEnd::open(&memory, shape()),
        Err(InvalidRing::Wrong)
    ));
    let file = tempfile::tempfile().expect("a file");
    assert!(matches!(
        ClientEnd::open(&file, shape()),
        Err(InvalidRing::Map(_) | InvalidRing::Wrong)
    ));
}

/// What a hostile client writes, and where. It writes mostly where that may hurt.
fn hostile() -> impl Strategy<Value = (usize, Vec<u8>)> {
    let index = prop_oneof![
        Just(at::SQ_TAIL),
        Just(at::SQ_HEAD),
        Just(at::CQ_TAIL),
        Just(at::CQ_HEAD),
        Just(at::CLIENT_SLEEPS),
        Just(at::DAEMON_SLEEPS)
    ];
    let small = (index, 0u32..20).prop_map(|(at, n)| (at, n.to_le_bytes().to_vec()));
    let bytes = proptest::collection::vec(any::<u8>(), 1..200);
    let anywhere = (0..shape().bytes() - 200, bytes);
    prop_oneof![3 => small, 1 => anywhere]
}

proptest! {
    #[test]
    fn random_bytes_neither_break_the_daemons_end_nor_make_it_loop(
        writes in proptest::collection::vec(hostile(), 1..60)
    ) {
        let (mut end, memory) = ring();
        for (at, bytes) in writes {
            scribble(&memory, at, &bytes);
            let mut taken = 0;
            let garbage = loop {
                match end.dequeue() {
                    Ok(Some(submission)) => {
                        if let Some(run) = end.slots(submission.page_slot, submission.count) {
                            let mut page = [0; 4096];
                            run.slots().for_each(|slot| end.read_page(slot, &mut page));
                            run.slots().for_each(|slot| end.write_page(slot, &page));
                        }
                        let token = submission.token;
                        end.complete(&Completion { token, ..Completion::default() });
                        taken += 1;
                    }
                    Ok(None) => break false,
                    Err(_) => break true,
                }
            };
            prop_assert!(taken <= ENTRIES, "no more than the queue holds without a publish");
            let _ = end.publish();
            if garbage {
                break;
            }
            prop_assert_eq!(end.fall_asleep(), SleepAttempt::Asleep, "all that could be taken was");
        }
    }

    #[test]
    fn entries_arrive_whole_and_in_order(steps in proptest::collection::vec(0u8..3, 1..400)) {
        let (mut end, memory) = ring();
        let mut client = ClientEnd::open(&memory, shape()).expect("a ring");
        let (mut submitted, mut served, mut reaped) = (0u64, 0u64, 0u64);
        for step in steps {
            match step {
                0 if client.room() > 0 => {
                    let token = submitted;
                    let object = token.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    client.submit(&Submission { token, object, ..Submission::default() });
                    let _ = client.publish();
                    submitted += 1;
                }
                1 => {
                    if let Some(submission) = end.dequeue().expect("believed") {
                        prop_assert_eq!(submission.token, served);
                        let object = served.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        prop_assert_eq!(submission.object, object);
                        let (token, first) = (served, object);
                        end.complete(&Completion { token, first, ..Completion::default() });
                        let _ = end.publish();
                        served += 1;
                    } else {
                        prop_assert_eq!(served, submitted);
                    }
                }
                2 => match client.reap() {
                    Some(completion) => {
                        prop_assert_eq!(completion.token, reaped);
                        reaped += 1;
                    }
                    None => prop_assert_eq!(reaped, served),
                },
                _ => prop_assert_eq!(submitted - reaped, u64::from(ENTRIES)),
            }
        }
    }
}
