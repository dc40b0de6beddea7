//! Pages whose words are all equal.

use super::*;

fn client(flags: PoolFlags) -> PoolClient {
    let (store, _) = store(8, 1);
    let ann = tenant(&store, "ann", 100);
    let disk = flags
        .persistent
        .then(|| FakeSpill::new(600) as Arc<dyn Spill>);
    let pool = store.create_pool(ann, flags, disk).expect("a pool");
    let client = PoolClient::of(&store, ann, pool);
    // Until there is room for rows, such pages lie in frames.
    (0..2).for_each(|second| {
        (0..300).for_each(|object| _ = client.put(object, 0, FILLED));
        client.worker.upkeep(Second(3 + second));
    });
    (0..300).for_each(|object| _ = client.flush(object, 0));
    assert_eq!(client.figures().same_filled.0, 0);
    client
}

#[test]
fn without_room_for_a_row_they_lie_in_frames() {
    for flags in [EPHEMERAL, KEEPING, PERSISTENT] {
        let (store, _) = store(8, 1);
        let client = PoolClient::new(&store, tenant(&store, "ann", 100), flags);
        assert!(client.put(1, 2, FILLED | 7).is_stored());
        let figures = client.figures();
        // A persistent page has a row in any case.
        let is_row = u64::from(flags == PERSISTENT);
        assert_eq!(
            (figures.same_filled.0, figures.used.0),
            (is_row, 1 - is_row)
        );
        assert_eq!(client.get(1, 2), Some(FILLED | 7));
    }
}

#[test]
fn they_take_no_frame_and_come_back_as_they_were() {
    for flags in [EPHEMERAL, KEEPING, PERSISTENT] {
        let client = client(flags);
        for object in 0..200 {
            assert!(client.put(object, 3, FILLED | object).is_stored());
        }
        let figures = client.figures();
        assert_eq!((figures.used.0, figures.same_filled.0), (0, 200));
        for object in 0..200 {
            assert_eq!(client.get(object, 3), Some(FILLED | object));
            let stays = flags != EPHEMERAL;
            assert_eq!(client.get(object, 3).is_some(), stays);
        }
        let left = if flags == EPHEMERAL { 0 } else { 200 };
        assert_eq!(client.figures().same_filled.0, left);
        (0..200).for_each(|object| _ = client.flush(object, 3));
        assert_eq!(client.figures().same_filled.0, 0);
    }
}

#[test]
fn a_page_may_become_one_and_cease_to_be_one() {
    for flags in [EPHEMERAL, KEEPING, PERSISTENT] {
        let client = client(flags);
        for content in [5, FILLED | 6, FILLED | 7, 8, 9, FILLED] {
            assert!(client.put(1, 2, content).is_stored());
            let figures = client.figures();
            let is_filled = u64::from(content & FILLED != 0);
            let found = (figures.same_filled.0, figures.used.0);
            assert_eq!(found, (is_filled, 1 - is_filled), "{content:x}");
        }
        assert_eq!(client.get(1, 2), Some(FILLED));
    }
}

#[test]
fn a_group_may_have_some() {
    let client = client(KEEPING);
    (0..60).for_each(|n| {
        client.put(n, 0, 1);
    });
    let keys: Vec<PageKey> = (0..60).map(|n| client.key(n, 0)).collect();
    client.put_pages(&keys[..30], FILLED);
    client.put_pages(&keys[30..], 77);
    let got = client.get_pages(&keys);
    for (n, content) in (0..).zip(got) {
        let expected = match n < 30 {
            true => FILLED + 1000 * n,
            false => 77 + 1000 * (n - 30),
        };
        assert_eq!(content, Some(expected));
    }
    assert_eq!(client.figures().same_filled.0, 30);
}

/// Nothing else would make them leave.
#[test]
fn both_kinds_are_bounded_and_no_persistent_one_is_lost() {
    const MANY: u64 = 20_000;
    let fill = |client: &PoolClient| {
        let mut stored = Vec::new();
        for object in 0..MANY {
            if client.put(object, 0, FILLED | object).is_stored() {
                stored.push(object);
            }
            if object % 200 == 0 {
                client.worker.upkeep(Second(10 + object as u32 / 200));
            }
        }
        stored
    };
    let ephemeral = client(KEEPING);
    let before = ephemeral.figures().tally.evictions;
    fill(&ephemeral);
    let there = (0..MANY).filter(|object| ephemeral.get(*object, 0).is_some());
    let (there, figures) = (there.count() as u64, ephemeral.figures());
    assert_eq!(figures.same_filled.0 + figures.used.0, there);
    assert!((1000..MANY).contains(&figures.same_filled.0), "{figures:?}");
    assert_eq!(figures.tally.evictions - before, MANY - there);
    let persistent = client(PERSISTENT);
    let stored = fill(&persistent);
    let there = (0..MANY).filter(|object| persistent.get(*object, 0).is_some());
    assert_eq!(there.collect::<Vec<u64>>(), stored);
    let same_filled = persistent.figures().same_filled.0;
    assert!((500..2000).contains(&same_filled), "{same_filled}");
    assert!((same_filled..MANY / 2).contains(&(stored.len() as u64)));
}
