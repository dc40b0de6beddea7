use std::collections::HashMap;

use proptest::prelude::*;
use rustix::fs::{MemfdFlags, memfd_create};

use super::*;

const SLOTS: u32 = 8;

fn fresh() -> File {
    let file = File::from(memfd_create("stage", MemfdFlags::CLOEXEC).expect("a memfd"));
    file.set_len(Stage::file_bytes(SLOTS)).expect("it grows");
    Preface::write(&file, SLOTS).expect("written");
    file
}

fn again(stage: &Stage) -> Stage {
    Stage::open(stage.file.try_clone().expect("cloned")).expect("opened")
}

fn name(text: &str) -> DiskName {
    text.parse().expect("a name")
}

fn page(seed: u8) -> Vec<u8> {
    vec![seed; PAGE_BYTES as usize]
}

#[test]
fn a_page_outlives_its_daemon() {
    let stage = Stage::open(fresh()).expect("opened");
    let disk = stage.register(&name("web-swap"), 1);
    stage.put(disk, 7, &page(1)).expect("room");
    stage.put(disk, 7, &page(2)).expect("room");
    let next = again(&stage);
    assert_eq!(next.disks(), [(name("web-swap"), 1)]);
    let disk = next.register(&name("web-swap"), 1);
    let mut got = page(0);
    assert!(next.read(disk, 7, &mut got).expect("readable") && got == page(2));
    next.remove(disk, 7);
    assert!(again(&next).disks().is_empty());
}

#[test]
fn a_full_stage_says_so_and_a_settled_page_makes_room() {
    let stage = Stage::open(fresh()).expect("opened");
    let disk = stage.register(&name("a"), 1);
    for n in 0..u64::from(SLOTS) {
        stage.put(disk, n, &page(n as u8)).expect("room");
    }
    assert_eq!(stage.put(disk, 99, &page(9)), Err(StageRefused));
    assert!(stage.is_filling());
    let mut found = Vec::with_capacity(3);
    stage.next_batch(disk, &mut 0, &mut found);
    assert_eq!(found.len(), 3);
    stage.remove_written(disk, found[0]);
    stage.put(disk, found[1].page, &page(8)).expect("room");
    stage.remove_written(disk, found[1]);
    assert!(stage.has(disk, found[1].page), "it has changed since");
    assert!(!stage.has(disk, found[0].page));
}

#[test]
fn a_disk_that_takes_all_it_can_leaves_some_to_others() {
    let stage = Stage::open(fresh()).expect("opened");
    let greedy = stage.register(&name("greedy"), 1);
    let other = stage.register(&name("other"), 1);
    let taken = (0..).take_while(|n| stage.put(greedy, *n, &page(1)).is_ok());
    let taken = taken.count();
    assert!(taken < SLOTS as usize, "{taken} of {SLOTS}");
    stage.put(other, 1, &page(2)).expect("room");
}

/// A removed disk leaves nothing to the next one of its name, and touches no others.
#[test]
fn a_removed_disk_leaves_nothing() {
    let stage = Stage::open(fresh()).expect("opened");
    let (gone, stays) = (
        stage.register(&name("gone"), 1),
        stage.register(&name("stays"), 1),
    );
    for n in 0..3 {
        stage.put(gone, n, &page(1)).expect("room");
        stage.put(stays, n, &page(2)).expect("room");
    }
    assert_eq!(stage.remove_all(&name("gone")), 3);
    assert_eq!((stage.count(gone), stage.count(stays)), (0, 3));
    assert_eq!(again(&stage).disks(), [(name("stays"), 3)]);
}

/// A disk of the same name with another backing finds nothing of the first.
#[test]
fn pages_are_for_one_backing() {
    let stage = Stage::open(fresh()).expect("opened");
    let first = stage.register(&name("a"), 1);
    stage.put(first, 7, &page(1)).expect("room");
    let next = again(&stage);
    let second = next.register(&name("a"), 2);
    assert!(!next.has(second, 7));
    assert!(next.has(next.register(&name("a"), 1), 7));
}

#[test]
fn what_was_not_committed_does_not_count() {
    let stage = Stage::open(fresh()).expect("opened");
    let disk = stage.register(&name("a"), 1);
    stage.put(disk, 1, &page(1)).expect("room");
    let slot = stage.index.lock().of_page[&(disk, 1)];
    let word = head_offset(slot) + HEAD_BYTES as u64 - 8;
    stage.file.write_all_at(&[0; 8], word).expect("written");
    assert!(again(&stage).disks().is_empty());
}

#[test]
fn a_damaged_page_is_not_handed_out() {
    let stage = Stage::open(fresh()).expect("opened");
    let disk = stage.register(&name("a"), 1);
    stage.put(disk, 1, &page(1)).expect("room");
    let slot = stage.index.lock().of_page[&(disk, 1)];
    let at = stage.place(slot) + 17;
    stage.file.write_all_at(&[9], at).expect("written");
    assert!(again(&stage).disks().is_empty());
}

#[derive(Clone, Debug)]
enum StageStep {
    Put(u8, u64, u8),
    Remove(u8, u64),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<StageStep>> {
    let step = prop_oneof![
        5 => (0..2u8, 0..6u64, any::<u8>()).prop_map(|(disk, page, seed)| StageStep::Put(disk, page, seed)),
        2 => (0..2u8, 0..6u64).prop_map(|(disk, page)| StageStep::Remove(disk, page)),
        1 => Just(StageStep::Restart),
    ];
    proptest::collection::vec(step, 1..200)
}

proptest! {
    /// The stage is a map of bounded size, whichever daemon reads it.
    #[test]
    fn a_stage_is_a_map_over_restarts(steps in steps()) {
        let mut stage = Stage::open(fresh()).expect("opened");
        let names = [name("a"), name("b")];
        let mut model: HashMap<(u8, u64), u8> = HashMap::new();
        for step in steps {
            let number = |stage: &Stage, disk: u8| stage.register(&names[disk as usize], 1);
            match step {
                StageStep::Put(disk, at, seed) => {
                    let put = stage.put(number(&stage, disk), at, &page(seed));
                    // A page is written before the older one goes, which takes one slot more.
                    let free = SLOTS as usize - model.len();
                    let own = model.keys().filter(|(owner, _)| *owner == disk).count();
                    let is_alone = stage.index.lock().disks.len() == 1;
                    let is_there = model.contains_key(&(disk, at));
                    let has_place = free > 0 && (is_alone || is_there || own < 4 * free);
                    prop_assert_eq!(put.is_ok(), has_place);
                    if put.is_ok() {
                        model.insert((disk, at), seed);
                    }
                }
                StageStep::Remove(disk, at) => {
                    stage.remove(number(&stage, disk), at);
                    model.remove(&(disk, at));
                }
                StageStep::Restart => stage = again(&stage),
            }
            for (disk, at) in (0..2).flat_map(|disk| (0..6).map(move |at| (disk, at))) {
                let mut got = page(0);
                let found = stage.read(number(&stage, disk), at, &mut got);
                prop_assert_eq!(found.expect("readable").then(|| got[5]), model.get(&(disk, at)).copied());
            }
        }
    }
}

/// Disks come and go. What one left behind belongs to no other, and disks without pages leave nothing.
#[test]
fn a_disk_that_left_is_forgotten_when_its_pages_are() {
    let stage = Stage::open(fresh()).expect("opened");
    for n in 0..1000 {
        let disk = stage.register(&name("goes"), n);
        stage.put(disk, 1, &page(1)).expect("room");
        stage.remove(disk, 1);
        stage.unregister(disk);
        assert_eq!(
            stage.put(disk, 1, &page(1)),
            Err(StageRefused),
            "it has left"
        );
        assert!(!stage.read(disk, 1, &mut page(0)).expect("readable"));
    }
    assert!(stage.index.lock().disks.is_empty());
    let first = stage.register(&name("stays"), 1);
    stage.put(first, 1, &page(1)).expect("room");
    stage.unregister(first);
    assert_eq!(stage.disks(), [(name("stays"), 1)]);
    assert_eq!(stage.register(&name("stays"), 1), first);
    assert_eq!(stage.remove_all(&name("stays")), 1);
    stage.unregister(first);
    assert!(stage.index.lock().disks.is_empty());
}
