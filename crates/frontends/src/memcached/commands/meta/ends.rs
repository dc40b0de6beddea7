//! When items cease to be, as the flags of a request say.

use sublet_types::Expiry;

use crate::memcached::caller::Caller;
use crate::memcached::wire::flags::Flags;

/// The end of an item while the flags of a request act on it, one behind the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) now: Expiry,
    made: Made,
}

/// Whether a request made the item that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Now,
    Before,
}

impl Ends {
    /// Of an item that was there.
    pub(super) fn of_old(end: Expiry) -> Ends {
        let made = Made::Before;
        Ends { now: end, made }
    }

    /// Of an item that the request made.
    pub(super) fn of_made() -> Ends {
        let (now, made) = (Expiry::Never, Made::Now);
        Ends { now, made }
    }

    /// A flag's turn has come.
    pub(super) fn pass(&mut self, caller: Caller<'_>, flags: &Flags<'_>, flag: u8) {
        let ttl = match (flag, self.made) {
            (b'T', _) => flags.expiry,
            (b'N', Made::Now) => flags.vivify,
            _ => None,
        };
        self.now = caller.end_of(ttl).unwrap_or(self.now);
    }
}

/// The end that `T` and `N` give an item that is made because there is none: that of the last of them.
pub(super) fn end_of_made(caller: Caller<'_>, flags: &Flags<'_>) -> Expiry {
    let ttl = flags.returned().fold(None, |ttl, flag| match flag[0] {
        b'T' => flags.expiry.or(ttl),
        b'N' => flags.vivify.or(ttl),
        _ => ttl,
    });
    caller.end_of(ttl).unwrap_or(Expiry::Never)
}
