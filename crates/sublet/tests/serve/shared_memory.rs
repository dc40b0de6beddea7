//! The status of the process's memory agrees with the kernel, even if other processes share some of it.

use crate::content::page_of;
use sublet_client::messages::Status;
use sublet_client::ring::{Client, Key, Shape};
use sublet_types::{Bytes, ObjectId, PageIndex, PoolFlags};

use crate::daemon::Folder;
use crate::wait::wait_until;

/// The rings of a tenant.
const RINGS: usize = 64;

/// The page slots of each ring, in runs as large as a ring may have.
const SLOTS: u32 = 1024;
const RUN: u32 = 64;

/// A client that has put a page from every slot of its ring.
fn filled(folder: &Folder) -> Client {
    let shape = Shape::new(SLOTS, SLOTS).expect("a shape");
    let mut client = Client::connect_with(folder.path("web.ring"), shape).expect("let in");
    assert_eq!(client.shape(), shape);
    let pool = client.create_pool(PoolFlags::default(), None);
    let pool = pool.expect("a pool");
    let mut batch = client.batch();
    for first in (0..SLOTS).step_by(RUN as usize) {
        let (object, index) = (ObjectId(1), PageIndex(first));
        let key = Key {
            pool,
            object,
            index,
        };
        let (_, pages) = batch.put_run(key, RUN).expect("room in the batch");
        pages.iter_mut().for_each(|page| *page = page_of(7));
    }
    batch.run().expect("put");
    client
}

/// Whether the status agrees with the kernel as docs/admin.md promises.
fn agrees(status: &Status) -> bool {
    let process = &status.daemon;
    let told = status.arena.held + process.overhead + process.shared;
    let apart = process.resident.0.abs_diff(told.0);
    apart <= (process.resident.0 * 3 / 100).max(Bytes::mib(32).0)
}

#[test]
fn what_rings_share_with_their_programs_is_told_apart() {
    let folder = Folder::new();
    let ring = folder.path("web.ring");
    let config = format!("[tenants.web]\nlisten = [\"ring:{}\"]\n", ring.display());
    let _daemon = folder.serve_config(&config);
    let before = folder.admin().status().expect("answered");
    assert!(agrees(&before), "{:?}", before.daemon);
    let clients: Vec<Client> = (0..RINGS).map(|_| filled(&folder)).collect();
    let with = folder.admin().status().expect("answered");
    let rings = Bytes(RINGS as u64 * u64::from(SLOTS) * 4096);
    let shared = with.daemon.shared - before.daemon.shared;
    assert!(shared >= rings, "{shared} of {rings}");
    assert!(agrees(&with), "{:?}", with.daemon);
    let said = folder.sublet_ok(&["status"]);
    assert!(
        said.contains(" shared with rings' programs and guests"),
        "{said}"
    );
    drop(clients);
    wait_until("the rings' memory is given back", || {
        let shared = folder.admin().status().expect("answered").daemon.shared;
        shared <= before.daemon.shared + Bytes::mib(8)
    });
}
