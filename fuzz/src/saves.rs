//! Feeds bytes as a save file: as they are, and as the fields of a file with valid checksums. An accepted file is
//! restored completely and can be saved again. A refused file leaves nothing behind.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use sublet_store::{
    PageSettings, RestoreError, RestoredPools, SaveFacts, SavedPool, Spill, Store, StoreSettings,
    Worker,
};
use sublet_types::{Bytes, Second, TenantId, TenantSettings, Weight};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes of a page. It is small, so that inputs have many pages.
const PAGE: usize = 16;

/// Pages that fit into a pool's spill file.
const SLOTS: u32 = 64;

const NOW: Second = Second(2);

/// The bytes of a pool in a file: number, flags, name.
const POOL: usize = 21;

/// The bytes of a page's record: pool, object, index and content.
const RECORD: usize = 16 + PAGE;

/// Restores `input`, and a file that is made from it.
pub fn restore(input: &[u8]) {
    check_restore(input);
    check_restore(&file_of(input));
}

/// Makes a file with valid checksums. The input says which pools and pages it has.
fn file_of(input: &[u8]) -> Vec<u8> {
    let [pools, frozen, eviction, weight, floor, ceiling, rest @ ..] = input else {
        return Vec::new();
    };
    let pools = usize::from(*pools % 8).min(rest.len() / POOL);
    let (described, pages) = rest.split_at(pools * POOL);
    let mut file = b"SUBLETPG".to_vec();
    file.extend_from_slice(&2u32.to_le_bytes());
    file.extend_from_slice(&(PAGE as u32).to_le_bytes());
    file.extend_from_slice(&[*frozen, *eviction]);
    file.extend_from_slice(&u32::from(*weight).to_le_bytes());
    for amount in [*floor, *ceiling] {
        let amount = if amount == 0xff {
            u64::MAX
        } else {
            u64::from(amount)
        };
        file.extend_from_slice(&amount.to_le_bytes());
    }
    file.extend_from_slice(&(pools as u32).to_le_bytes());
    file.extend_from_slice(described);
    let mut sums = Xxh3::new();
    sign(&mut file, 0, &mut sums);
    let pages = pages.chunks_exact(RECORD);
    let count = pages.len() as u64;
    for page in pages {
        let from = file.len();
        file.push(b'P');
        file.extend_from_slice(page);
        sign(&mut file, from, &mut sums);
    }
    file.push(b'E');
    file.extend_from_slice(&count.to_le_bytes());
    sums.update(&count.to_le_bytes());
    file.extend_from_slice(&sums.digest128().to_le_bytes());
    file
}

/// Adds the checksum of the file's bytes from `from` on.
fn sign(file: &mut Vec<u8>, from: usize, sums: &mut Xxh3) {
    let sum = xxh3_128(&file[from..]).to_le_bytes();
    sums.update(&sum);
    file.extend_from_slice(&sum);
}

fn check_restore(file: &[u8]) {
    let (worker, tenant) = store();
    let checked = worker.check_save(file);
    match restored(&worker, tenant, file) {
        Ok(made) => {
            let facts = checked.expect("what is taken is right");
            assert_eq!(made, facts.pools);
            assert_eq!(
                pages(&worker, tenant),
                facts.pages,
                "each page is there once"
            );
            save_again(&worker, tenant, &facts);
        }
        Err(error) => {
            // A check keeps none of the pages, and needs no room.
            let beyond = matches!(
                error,
                RestoreError::Pool(_) | RestoreError::NoPlace(_) | RestoreError::Repeated(_)
            );
            assert!(
                checked.is_err() || beyond,
                "{error}, and it was found right"
            );
            assert_eq!(worker.store().pools(tenant), []);
            assert_eq!(pages(&worker, tenant), 0);
            assert!(!worker.store().is_frozen(tenant));
        }
    }
}

/// Saves what was restored, and restores it elsewhere.
fn save_again(worker: &Worker, tenant: TenantId, facts: &SaveFacts) {
    let mut again = Vec::new();
    let saved = worker.export(tenant, &mut again).expect("memory takes all");
    assert_eq!(saved, facts.pages);
    let (other, tenant) = store();
    let made = restored(&other, tenant, &again).expect("there is as much room");
    assert_eq!(made.len(), facts.pools.len());
    assert_eq!(pages(&other, tenant), facts.pages);
}

fn restored(
    worker: &Worker,
    tenant: TenantId,
    file: &[u8],
) -> Result<Vec<SavedPool>, RestoreError> {
    let spill: &mut dyn FnMut(&SavedPool) -> Option<Arc<dyn Spill>> =
        &mut |_| Some(Arc::new(MemorySpillFile::default()));
    let made = worker.import(tenant, file, NOW, RestoredPools::All, spill)?;
    Ok(made.into_iter().map(|(pool, _)| pool).collect())
}

fn pages(worker: &Worker, tenant: TenantId) -> u64 {
    let figures = worker.store().page_figures(tenant);
    figures.used.0 + figures.on_disk.0 + figures.same_filled.0
}

fn store() -> (Worker, TenantId) {
    let memory = Bytes::mib(8);
    let store = Store::new(StoreSettings {
        capacity: memory,
        limit: memory,
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages: PageSettings {
            page_bytes: PAGE,
            shards: 2,
            ..PageSettings::default()
        },
    })
    .expect("8 MiB of addresses");
    let tenant = TenantSettings {
        name: "fuzz".parse().expect("a name"),
        weight: Weight::default(),
        floor: None,
        ceiling: None,
    };
    let tenant = store.add_tenant(tenant).expect("the first");
    (store.worker().expect("the first"), tenant)
}

/// A spill file in memory.
#[derive(Default)]
struct MemorySpillFile(Mutex<HashMap<u32, Vec<u8>>>);

impl Spill for MemorySpillFile {
    fn slots(&self) -> u32 {
        SLOTS
    }

    fn write(&self, slot: u32, page: &[u8]) -> io::Result<()> {
        let mut pages = self.0.lock().expect("nobody panicked");
        pages.insert(slot, page.to_vec());
        Ok(())
    }

    fn read(&self, slot: u32, page: &mut [u8]) -> io::Result<()> {
        let pages = self.0.lock().expect("nobody panicked");
        page.copy_from_slice(&pages[&slot]);
        Ok(())
    }
}
