//! When items cease to be, as the flags of a request say.

use sublet_types::Expiry;

use super::flags::Flags;

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
    pub(super) fn pass(&mut self, flags: &Flags<'_>, flag: u8) {
        let end = match (flag, self.made) {
            (b'T', _) => flags.expiry,
            (b'N', Made::Now) => flags.vivify,
            _ => None,
        };
        self.now = end.unwrap_or(self.now);
    }
}
