use std::fs;
use std::sync::Barrier;

use super::*;
use crate::wait_until::wait_until;

fn cause(n: u64) -> PostedEvent {
    let name = format!("t{n}").parse().expect("a name");
    PostedEvent::new(EventId::TenantAdded, EventReason::Kept).to_tenant(&name)
}

#[test]
fn the_reference_in_the_docs_is_what_the_table_says() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md");
    let page = fs::read_to_string(docs).expect("docs/events.md");
    assert_eq!(
        page,
        reference(),
        "write it anew: sublet generate event-reference >docs/events.md"
    );
}

#[test]
fn what_is_posted_is_there_for_whoever_reads_next() {
    let events = Events::default();
    events.post(cause(1));
    assert_eq!(events.latest(), 1);
    events.post(cause(2));
    let excerpt = events.after(1, 10);
    assert_eq!(excerpt.events.len(), 1);
    assert_eq!(excerpt.events[0].seq, 2);
    let counted = events.counts().into_iter();
    let added: Vec<EventCount> = counted.filter(|count| count.count > 0).collect();
    let want = EventCount {
        id: "tenant.added",
        why: "kept",
        count: 2,
    };
    assert_eq!(added, [want]);
}

#[test]
fn what_finds_no_room_is_counted_and_told_of_and_nobody_waits() {
    let events = Events::default();
    let more = 500;
    (0..INBOX_MAX as u64 + more).for_each(|n| events.post(cause(n)));
    assert_eq!(events.lost(), more);
    let excerpt = events.after(0, usize::MAX);
    let last = excerpt.events.last().expect("an event");
    assert_eq!(last.id(), EventId::EventsLost);
    assert_eq!(last.cause.amount, Some(EventAmount::Events(more)));
    assert_eq!(excerpt.events.len(), INBOX_MAX + 1);
    assert_eq!(events.after(0, usize::MAX).events.len(), INBOX_MAX + 1);
}

#[test]
fn followers_are_bounded_and_leave_their_places() {
    let events = Events::default();
    let mut all: Vec<FollowerPermit> = (0..FOLLOWERS_MAX)
        .map(|_| events.follow().expect("a place"))
        .collect();
    assert!(events.follow().is_none());
    all.pop();
    assert!(events.follow().is_some());
}

#[test]
fn a_writer_makes_events_unasked_and_the_last_ones_at_its_end() {
    let events = Events::default();
    let writer = EventWriter::start(&events).expect("a thread");
    let mut news = events.subscribe();
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for n in 0..4 {
            let (events, barrier) = (&events, &barrier);
            scope.spawn(move || {
                barrier.wait();
                (0..100).for_each(|k| events.post(cause(n * 100 + k)));
            });
        }
    });
    wait_until("events are made", || *news.borrow_and_update() >= 400);
    // It repeats, and would wait for a second.
    events.post(cause(1));
    drop(writer);
    assert_eq!(*news.borrow(), 401);
}

#[test]
fn what_is_told_of_a_tenant_is_what_policies_did_to_it_and_until_then() {
    let events = Events::default();
    let (ann, ben): (TenantName, TenantName) = (
        "ann".parse().expect("a name"),
        "ben".parse().expect("a name"),
    );
    let record = |secs| {
        EventDetail::Policy(Box::new(PolicyRecord {
            policy: "weights",
            what: PolicyOutcome::Lost(sublet_policy::explain::Loss {
                before: sublet_types::Pages(9),
                after: sublet_types::Pages(5),
                secs,
                cause: sublet_policy::explain::LossCause::LetGo,
            }),
            moves: Vec::new(),
        }))
    };
    let shrank = |tenant, why| PostedEvent::new(EventId::TenantShrank, why).to_tenant(tenant);
    events.post(shrank(&ann, EventReason::LetGo).with(record(1)));
    events.post(shrank(&ben, EventReason::LetGo).with(record(2)));
    events.post(shrank(&ann, EventReason::MadeRoom).with(record(3)));
    events.post(PostedEvent::new(EventId::TenantChanged, EventReason::Kept).to_tenant(&ann));
    let (told, since) = events.policy_events(&ann, u64::MAX, 10);
    let numbers: Vec<u64> = told.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, [3, 1]);
    assert_eq!(events.policy_events(&ann, since - 1, 10).0.len(), 0);
    assert_eq!(events.policy_events(&ann, u64::MAX, 1).0[0].seq, 3);
}
