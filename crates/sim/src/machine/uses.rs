//! In which order things were used last.
//!
//! ```text
//!  written   3  7  5  3  1  7          a use is written at the end, and the thing keeps where;
//!            -  -  ^     ^  ^          uses that no thing keeps any more are passed over
//!                  coldest  hottest
//! ```
//!
//! A linked list would have a use read and write three things that lie anywhere in memory, one after another. This one
//! writes where it wrote last.

/// Where the last use of a thing stands that has none.
pub const NEVER: u32 = u32::MAX;

/// Things that keep where their last use stands, by number.
pub trait Used {
    /// Where the last use of thing `number` stands.
    fn last_use(&self, number: u32) -> u32;

    /// Notes where it stands.
    fn set_last_use(&mut self, number: u32, at: u32);
}

/// Uses, the longest ago first.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    /// Numbers of things.
    written: Vec<u32>,
    /// Before here no use is anything's last.
    from: usize,
}

/// How many uses are written for each thing before those that are nobody's last are dropped. With fewer they are dropped
/// more often, with more what is written takes the place of other things in the processor's caches.
const USES_A_THING: usize = 4;

/// As many are written however few things there are.
const USES_MIN: usize = 1 << 10;

impl Uses {
    /// Notes a use of a thing: it is the hottest of `count` things, this one among them.
    pub fn note(&mut self, things: &mut impl Used, number: u32, count: usize) {
        let most = (USES_A_THING * count + USES_MIN).min(NEVER as usize);
        if self.written.len() >= most {
            self.drop_stale(things);
        }
        things.set_last_use(number, self.written.len() as u32);
        self.written.push(number);
    }

    /// The thing whose last use is the longest ago. The caller notes that it is none of them any more.
    pub(crate) fn take_coldest(&mut self, things: &impl Used) -> Option<u32> {
        while let Some(number) = self.written.get(self.from) {
            let at = self.from as u32;
            self.from += 1;
            if things.last_use(*number) == at {
                return Some(*number);
            }
        }
        None
    }

    fn drop_stale(&mut self, things: &mut impl Used) {
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
