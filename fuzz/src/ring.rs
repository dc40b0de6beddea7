//! A client that writes arbitrary bytes into its ring.

use std::fs::File;
use std::os::unix::fs::FileExt;

use sublet_client::ring::layout::{Completion, Outcome, SUBMISSION_BYTES, Submission, at};
use sublet_client::ring::{DaemonEnd, Shape, SlotRun};
use sublet_frontends::ring::wire::{self, Request};

/// The number of entries. It is small, so that inputs reach the ends of the ring.
const ENTRIES: u32 = 8;
const PAGE_SLOTS: u32 = 4;

/// The words of the header that a client may falsify.
const WORDS: [usize; 6] = [
    at::SQ_TAIL,
    at::SQ_HEAD,
    at::CQ_TAIL,
    at::CQ_HEAD,
    at::CLIENT_SLEEPS,
    at::DAEMON_SLEEPS,
];

/// Runs `input` as the writes of a client: small steps of the indices, whole entries, and bytes at any place. After
/// each write the daemon's end is served until it rests.
pub fn run(input: &[u8]) {
    let Ok(shape) = Shape::new(ENTRIES, PAGE_SLOTS) else {
        return;
    };
    let (mut end, memory) = DaemonEnd::create(shape).expect("a ring");
    let memory = File::from(memory);
    let mut rest = input;
    while let Some((place, bytes, after)) = next_write(shape, rest) {
        rest = after;
        memory
            .write_all_at(bytes, place)
            .expect("it is as long as it was");
        if !serve(&mut end) {
            return;
        }
    }
}

/// Decodes the next write: where it goes and what it writes. The first byte selects one of three kinds, and the next
/// one the place.
fn next_write(shape: Shape, input: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let [kind, place, rest @ ..] = input else {
        return None;
    };
    let (at, bytes) = match kind % 3 {
        0 => (WORDS[usize::from(*place) % WORDS.len()], 4),
        1 => (shape.submission_at(u32::from(*place)), SUBMISSION_BYTES),
        _ => (usize::from(*place) * shape.bytes() / 256, 16),
    };
    let bytes = bytes.min(rest.len()).min(shape.bytes() - at);
    let (written, rest) = rest.split_at(bytes);
    Some((at as u64, written, rest))
}

/// Answers all entries that are there. Returns whether the ring is still trustworthy.
fn serve(end: &mut DaemonEnd) -> bool {
    for _ in 0..=ENTRIES {
        match end.dequeue() {
            Err(_) => return false,
            Ok(None) => {
                let _ = end.publish();
                assert!(!end.has_work(), "what there was is answered");
                return true;
            }
            Ok(Some(submission)) => {
                let completion = answer(end, &submission);
                end.complete(&completion);
            }
        }
    }
    panic!("more entries than the queue has places");
}

fn answer(end: &DaemonEnd, submission: &Submission) -> Completion {
    let request = wire::parse(submission, |first, count| end.slots(first, count));
    let outcome = match request {
        Err(fault) => Outcome::Faulty(fault),
        Ok(Request::Put(run, slots) | Request::Get(run, slots)) => {
            assert_eq!(run.keys().count(), slots.slots().count());
            copy(end, slots);
            Outcome::Done
        }
        Ok(_) => Outcome::Done,
    };
    assert_eq!(Outcome::of(outcome.number()), Some(outcome));
    wire::completion(submission, outcome)
}

fn copy(end: &DaemonEnd, slots: SlotRun) {
    let mut page = [0; 4096];
    for slot in slots.slots() {
        end.read_page(slot, &mut page);
        page.reverse();
        end.write_page(slot, &page);
    }
}
