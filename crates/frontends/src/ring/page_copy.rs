//! Copies a page from the ring into the store.

#![allow(unsafe_code)]

use sublet_client::ring::layout::SLOT_BYTES;
use sublet_client::ring::{DaemonEnd, PageSlot};
use sublet_store::UnwrittenPage;

/// Copies a page out of its slot as it is now. The client may change it meanwhile.
pub(super) fn read_page(end: &DaemonEnd, slot: PageSlot, page: &mut UnwrittenPage<'_>) {
    let place = end.page_pointer(slot);
    // SAFETY: a slot stays mapped as long as its end is borrowed, and lies in no frame of the store.
    let streamed = page.len() == SLOT_BYTES && unsafe { page.write_racing(place.cast().as_ptr()) };
    if !streamed {
        end.read_page(slot, page);
    }
}
