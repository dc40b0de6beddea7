//! The expiry of items, as the flags of a request set it.

use sublet_types::Expiry;

use crate::memcached::caller::Caller;
use crate::memcached::wire::flags::MetaFlags;

/// The expiry of an item while the flags of a request act on it, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpiryTracker {
    pub(super) now: Expiry,
    origin: ItemOrigin,
}

/// Whether a request created the item that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemOrigin {
    Created,
    Existing,
}

impl ExpiryTracker {
    /// Tracks the expiry of an item that was there.
    pub(super) fn of_existing(expiry: Expiry) -> ExpiryTracker {
        let origin = ItemOrigin::Existing;
        ExpiryTracker {
            now: expiry,
            origin,
        }
    }

    /// Tracks the expiry of an item that the request created.
    pub(super) fn of_created() -> ExpiryTracker {
        let (now, origin) = (Expiry::Never, ItemOrigin::Created);
        ExpiryTracker { now, origin }
    }

    /// Applies one flag.
    pub(super) fn apply_flag(&mut self, caller: Caller<'_>, flags: &MetaFlags<'_>, flag: u8) {
        let ttl = match (flag, self.origin) {
            (b'T', _) => flags.expiry,
            (b'N', ItemOrigin::Created) => flags.vivify,
            _ => None,
        };
        self.now = caller.optional_expiry(ttl).unwrap_or(self.now);
    }
}

/// Returns the expiry of an item that is created because none is there. The last of the flags `T` and `N` sets it.
pub(super) fn expiry_of_created(caller: Caller<'_>, flags: &MetaFlags<'_>) -> Expiry {
    let ttl = flags
        .in_request_order()
        .fold(None, |ttl, flag| match flag[0] {
            b'T' => flags.expiry.or(ttl),
            b'N' => flags.vivify.or(ttl),
            _ => ttl,
        });
    caller.optional_expiry(ttl).unwrap_or(Expiry::Never)
}
