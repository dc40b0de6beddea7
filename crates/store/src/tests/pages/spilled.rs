//! Persistent pages on disk: shrinking never loses what was accepted, whatever the disk does.

use std::sync::atomic::Ordering;

use sublet_types::ReleaseMode;

use super::*;

fn on_disk(blocks: usize, disk: &Arc<FakeSpill>) -> PoolClient {
    let (store, _) = store(blocks, 2);
    let ann = tenant(&store, "ann", 100);
    let spill = Arc::clone(disk) as Arc<dyn Spill>;
    let pool = store
        .create_pool(ann, PERSISTENT, Some(spill))
        .expect("a pool");
    PoolClient::of(&store, ann, pool)
}

fn release(client: &PoolClient) -> ReleaseOutcome {
    let release = Release {
        amount: Bytes::gib(1),
        mode: ReleaseMode::Ordered,
        tenant: None,
    };
    client.worker.release(release, NOW)
}

#[test]
fn shrinking_writes_pages_and_keeps_them() {
    let disk = FakeSpill::new(200);
    let client = on_disk(24, &disk);
    (0..150)
        .for_each(|index| assert_eq!(client.put(1, index, u64::from(index)), PutOutcome::Stored));
    let released = release(&client);
    assert_eq!(released.pages_lost.0, 0);
    assert_eq!((disk.written(), client.figures().on_disk.0), (150, 150));
    (0..150).for_each(|index| assert_eq!(client.get(1, index), Some(u64::from(index))));
    assert_eq!(client.put(1, 7, 1000), PutOutcome::Replaced);
    assert_eq!(client.get(1, 7), Some(1000));
    release(&client);
    assert_eq!(
        client.get(1, 7),
        Some(1000),
        "and not what was on disk before"
    );
}

#[test]
fn a_disk_that_refuses_keeps_pages_in_memory() {
    let disk = FakeSpill::new(200);
    let client = on_disk(24, &disk);
    (0..100)
        .for_each(|index| assert_eq!(client.put(1, index, u64::from(index)), PutOutcome::Stored));
    disk.broken.store(true, Ordering::Relaxed);
    release(&client);
    assert_eq!(client.figures().on_disk.0, 0);
    (0..100).for_each(|index| assert_eq!(client.get(1, index), Some(u64::from(index))));
    disk.broken.store(false, Ordering::Relaxed);
    release(&client);
    disk.broken.store(true, Ordering::Relaxed);
    let key = client.key(1, 3);
    let got = client
        .worker
        .get_page(client.tenant, key, NOW, |_| panic!("unreadable"));
    assert_eq!(
        got,
        GetOutcome::Failed,
        "that is no miss: the page is not lost"
    );
    disk.broken.store(false, Ordering::Relaxed);
    assert_eq!(client.get(1, 3), Some(3));
}

#[test]
fn a_full_spill_file_refuses_new_pages_and_takes_them_after_a_flush() {
    let disk = FakeSpill::new(10);
    let client = on_disk(8, &disk);
    (0..10).for_each(|index| assert_eq!(client.put(1, index, 5), PutOutcome::Stored));
    assert_eq!(
        client.put(1, 10, 5),
        PutOutcome::Refused(PutRefused::SpillFull)
    );
    assert_eq!(client.put(1, 3, 6), PutOutcome::Replaced);
    assert!(client.flush(1, 0));
    assert_eq!(client.put(1, 10, 5), PutOutcome::Stored);
    assert!(client.flush_object(1));
    (0..10).for_each(|index| assert_eq!(client.put(2, index, 5), PutOutcome::Stored));
}

/// A get waits for the disk while its page is flushed, put anew and spilled again, or its pool ends. It never shows the
/// old page (R-G4, R-F1, R-F5).
#[test]
fn a_late_read_brings_nothing_back() {
    for ends in [false, true] {
        let (client, meddler) = meddled();
        assert_eq!(client.put(1, 1, 5), PutOutcome::Stored);
        release(&client);
        let other = client.again();
        *meddler.meddle.lock() = Some(Box::new(move || match ends {
            true => assert!(other.worker.destroy_pool(other.tenant, other.pool, NOW)),
            false => {
                assert!(other.flush(1, 1));
                assert_eq!(other.put(1, 1, 6), PutOutcome::Stored);
            }
        }));
        let got = client.get(1, 1);
        assert!(got != Some(5), "the old page");
        assert_eq!(client.get(1, 1), (!ends).then_some(6));
    }
}

/// A client on a pool whose disk lets another client act during I/O.
fn meddled() -> (PoolClient, Arc<MeddledSpill>) {
    let (store, _) = store(24, 1);
    let ann = tenant(&store, "ann", 100);
    let meddler = Arc::new(MeddledSpill {
        disk: FakeSpill::new(50),
        meddle: Mutex::new(None),
    });
    let spill = Arc::clone(&meddler) as Arc<dyn Spill>;
    let pool = store
        .create_pool(ann, PERSISTENT, Some(spill))
        .expect("a pool");
    (PoolClient::of(&store, ann, pool), meddler)
}

/// A disk whose reads and writes let another client act on the way.
struct MeddledSpill {
    disk: Arc<FakeSpill>,
    meddle: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl Spill for MeddledSpill {
    fn slots(&self) -> u32 {
        self.disk.slots()
    }

    fn write(&self, slot: u32, page: &[u8]) -> io::Result<()> {
        if let Some(meddle) = self.meddle.lock().take() {
            meddle();
        }
        self.disk.write(slot, page)
    }

    fn read(&self, slot: u32, page: &mut [u8]) -> io::Result<()> {
        self.disk.read(slot, page)?;
        if let Some(meddle) = self.meddle.lock().take() {
            meddle();
        }
        Ok(())
    }
}

/// A write that is in flight while its page is replaced or flushed never brings the old page back (R-F1, R-P4).
#[test]
fn r_p4_f1_a_late_write_brings_nothing_back() {
    for flushes in [false, true] {
        let (client, meddler) = meddled();
        (0..20).for_each(|index| assert!(client.put(1, index, u64::from(index)).is_stored()));
        let other = client.again();
        *meddler.meddle.lock() = Some(Box::new(move || {
            for index in 0..20 {
                match flushes {
                    true => assert!(other.flush(1, index)),
                    false => assert!(other.put(1, index, 100 + u64::from(index)).is_stored()),
                }
            }
        }));
        release(&client);
        for index in 0..20 {
            let now = (!flushes).then_some(100 + u64::from(index));
            assert_eq!(client.get(1, index), now);
        }
        release(&client);
        (0..20).for_each(|index| {
            let now = (!flushes).then_some(100 + u64::from(index));
            assert_eq!(client.get(1, index), now);
        });
    }
}

/// R-P5: if nothing is free and nothing may go, a put is refused at once. No disk is written for it.
#[test]
fn r_p5_a_put_that_finds_no_room_does_not_wait_for_a_disk() {
    let disk = FakeSpill::new(4000);
    let client = on_disk(8, &disk);
    let stored = (0..500).filter(|index| client.put(1, *index, 5).is_stored());
    assert!(stored.count() < 128);
    assert_eq!(disk.written(), 0);
    assert!(client.figures().tally.puts_refused > 370);
}
