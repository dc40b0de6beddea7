//! The order in which things were last used.
//!
//! ```text
//!  written   3  7  5  3  1  7          a use is written at the end, and the thing keeps where;
//!            -  -  ^     ^  ^          uses that no thing keeps any more are passed over
//!                  coldest  hottest
//! ```
//!
//! With a linked list, a use would read and write three things anywhere in memory, one after another. The log writes
//! where it wrote last.

/// Stands for the place of the last use if there is none.
pub const NEVER: u32 = u32::MAX;

/// Things, by number, that keep the place of their last use.
pub trait LastUseTable {
    /// Where the last use of thing `number` stands.
    fn last_use(&self, number: u32) -> u32;

    /// Sets where it stands.
    fn set_last_use(&mut self, number: u32, at: u32);
}

/// Uses, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct UseLog {
    /// The numbers of the used things.
    written: Vec<u32>,
    /// No use before this place is the last one of anything.
    from: usize,
}

/// The log holds this many uses per thing before it drops those that are nobody's last. With fewer it drops them more
/// often. With more the log displaces other things in the processor's caches.
const USES_A_THING: usize = 4;

/// The log holds at least this many, however few things there are.
const USES_MIN: usize = 1 << 10;

impl UseLog {
    /// Records a use of a thing: it becomes the hottest of `count` things, itself included.
    pub fn record(&mut self, things: &mut impl LastUseTable, number: u32, count: usize) {
        let most = (USES_A_THING * count + USES_MIN).min(NEVER as usize);
        if self.written.len() >= most {
            self.drop_stale(things);
        }
        things.set_last_use(number, self.written.len() as u32);
        self.written.push(number);
    }

    /// The thing whose last use is the oldest. The caller notes that it has none any more.
    pub(crate) fn pop_coldest(&mut self, things: &impl LastUseTable) -> Option<u32> {
        while let Some(number) = self.written.get(self.from) {
            let at = self.from as u32;
            self.from += 1;
            if things.last_use(*number) == at {
                return Some(*number);
            }
        }
        None
    }

    fn drop_stale(&mut self, things: &mut impl LastUseTable) {
        let mut kept = 0;
        for at in self.from..self.written.len() {
            let number = self.written[at];
            if things.last_use(number) == at as u32 {
                things.set_last_use(number, kept as u32);
                self.written[kept] = number;
                kept += 1;
            }
        }
        self.written.truncate(kept);
        self.from = 0;
    }
}
