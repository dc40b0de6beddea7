//! Pages of a sequential run are not sent to lenders (P6 of PUMA).

use sublet_store::LeaseSlot;
use sublet_store::disk_caching::SEQUENTIAL_FROM;

use super::*;

const BATCH: u64 = 8;

/// The pages that wait for a lender after a disk was read in batches of eight pages, in this order. Memory has room for
/// half of them.
fn sent(batches: impl Iterator<Item = u64>) -> u64 {
    let rig = Rig::new(DiskKind::Disk, |disk| disk.fill = Some(FillPolicy::Miss));
    scribble(&rig);
    let store = &rig.backend.store;
    store.add_to_lease(LeaseSlot(0), 0, 0..8).expect("a lease");
    let tenant = store.tenants()[0].id;
    // A block for the index, one for the records of far blocks, one for pages, and two for the outbox.
    store.set_limit(Bytes::mib(10));
    let handle = rig.handle();
    for batch in batches {
        let bytes = BATCH * 4096;
        rig.read(&*handle, batch * bytes, bytes as usize);
    }
    store.page_figures(tenant).at_lenders.0
}

#[test]
fn a_read_in_order_sends_only_its_beginning() {
    let batches = DISK_BYTES / 4096 / BATCH;
    let in_order = sent(0..batches);
    // One verdict holds for all pages of a window, so the last one that counts as the beginning may reach further.
    assert!(in_order < 2 * SEQUENTIAL_FROM, "{in_order}");
    // An odd step visits all, and no batch follows the one before it.
    let scattered = sent((0..batches).map(|n| n * 77 % batches));
    assert!(scattered > 4 * SEQUENTIAL_FROM, "{scattered}");
}
