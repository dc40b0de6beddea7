//! Shadows: the hits that each of several settings would have had on a sample of a tenant's pages.
//!
//! What an exclusive tier is asked for does not depend on what it holds, because its client has what the tier has not.
//! So a shadow learns of some pages and has room for the same fraction of the tenant's room. Apart from chance, it hits
//! as often as a tier with its setting would.
//!
//! All shadows remember the same pages with the same uses, each put at the same time. They differ in one bit: whether
//! the page would be there.
//!
//! Shadows forget as the tier does. The tier remembers about as many departed pages of each kind as it has pages.
//! Shadows that remember longer would recognise pages that the tier does not, and show gains that cannot be had.

use super::history::USES_MAX;
use super::weights::{LEVELS, RANKS, SETTINGS, START, TRUSTS, level_of, rank};

/// The most sampled pages that a shadow has room for.
pub(super) const ROOM_MAX: u32 = 512;

/// The largest fraction of a tenant's pages that is sampled: one in this many.
const SAMPLED_ONE_IN: u64 = 32;

/// Known pages per page of room, among those that would be there or were evicted.
const KNOWN: u32 = 2;

/// Known pages per page of room, among those that were taken.
const TAKEN: u32 = 1;

/// Stands beside the uses of a page: the page was taken.
const IS_TAKEN: u8 = USES_MAX + 1;

/// Lists of pages: one per level, and one of pages that were taken.
const LISTS: usize = LEVELS + 1;

/// What a window's scores keep of earlier ones: half in nine windows.
const FADING: f64 = 0.925_874_712;

/// The most that a setting may gain or lose against plain age in one window, as a fraction of gets.
const GAIN_MAX: f64 = 0.02;
const LOSS_MAX: f64 = 0.06;

/// The gains that a setting needs before it may rule: those of four good windows, with fading.
const PROVEN: f64 = 0.06;

/// The gains below which a setting stops ruling. To change back and forth costs more than a few bad windows, because
/// the pages that the other setting would have are gone.
const DOUBTED: f64 = -0.15;

/// By how much another setting must be better than a ruling one that still may rule, as a fraction of gets.
const BETTER: f64 = 0.006;

/// No node.
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct KnownPage {
    name: u32,
    /// When it was put, counted in sampled puts.
    put_at: u32,
    newer: u16,
    older: u16,
    /// The next node of its chain.
    next: u16,
    /// The shadows that have it, one bit each.
    there: u8,
    uses: u8,
}

/// The known pages of one list. Pages of a level are in the order of their last put, taken pages in the order in which
/// they were taken.
#[derive(Clone, Copy, Debug)]
struct PageList {
    newest: u16,
    oldest: u16,
}

/// The score of a setting.
#[derive(Clone, Copy, Debug, Default)]
struct SettingScore {
    held: u32,
    hits: u32,
    score: f64,
    gain: f64,
    /// For each list, the page from which the search for its oldest starts.
    oldest: [u16; LISTS],
}

/// The shadows of one tenant.
#[derive(Debug)]
pub(super) struct Shadows {
    room: u32,
    nodes: Vec<KnownPage>,
    /// The first free node.
    free: u16,
    /// Pages in the lists of levels, and in the list of taken pages.
    known: u32,
    taken: u32,
    chains: Vec<u16>,
    lists: [PageList; LISTS],
    records: [SettingScore; SETTINGS],
    /// Sampled puts, and gets since the window began.
    puts: u32,
    gets: u32,
    /// Gets, fading as scores do.
    asked: f64,
    ruling: usize,
    /// The room when the comparison of settings began.
    begun: u32,
}

/// The sampling interval for a tenant with room for this many pages: a power of two.
pub(super) fn sampled_one_in(pages: u64) -> u64 {
    let wanted = (pages / SAMPLED_ONE_IN).clamp(1, u64::from(ROOM_MAX));
    (pages / wanted).max(1).next_power_of_two()
}

impl Shadows {
    /// Shadows that have room for this many sampled pages and have seen nothing.
    pub(super) fn new(room: u32) -> Shadows {
        let empty = PageList {
            newest: NONE,
            oldest: NONE,
        };
        let record = SettingScore {
            oldest: [NONE; LISTS],
            ..SettingScore::default()
        };
        let mut shadows = Shadows {
            room: 0,
            nodes: Vec::new(),
            free: NONE,
            known: 0,
            taken: 0,
            chains: Vec::new(),
            lists: [empty; LISTS],
            records: [record; SETTINGS],
            puts: 0,
            gets: 0,
            asked: 0.0,
            ruling: START,
            begun: 0,
        };
        shadows.make_room(room);
        shadows.begun = shadows.room;
        shadows
    }

    /// The index of the ruling setting.
    pub(super) fn ruling(&self) -> usize {
        self.ruling
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> u64 {
        let nodes = self.nodes.capacity() * size_of::<KnownPage>();
        (nodes + self.chains.capacity() * size_of::<u16>()) as u64
    }

    /// A copy with another room that keeps the pages which are still sampled. The scores stay unless the room has grown
    /// by half, or shrunk by a third, since the comparison began. What few pages showed is chance.
    pub(super) fn fitted(&self, room: u32, keeps: impl Fn(u32) -> bool) -> Shadows {
        let mut fitted = Shadows::new(room);
        fitted.puts = self.puts;
        if 2 * fitted.room <= 3 * self.begun && 3 * fitted.room >= 2 * self.begun {
            (fitted.gets, fitted.asked) = (self.gets, self.asked);
            (fitted.ruling, fitted.begun) = (self.ruling, self.begun);
            for (to, from) in fitted.records.iter_mut().zip(&self.records) {
                (to.hits, to.score, to.gain) = (from.hits, from.score, from.gain);
            }
        }
        let kept = |list: &PageList| self.nodes_of(*list).filter(|node| keeps(node.name));
        let mut known: Vec<KnownPage> = self.lists[..LEVELS].iter().flat_map(kept).collect();
        known.sort_by_key(|node| self.puts.wrapping_sub(node.put_at));
        known.truncate((KNOWN * fitted.room) as usize);
        let taken: Vec<KnownPage> = kept(&self.lists[LEVELS]).collect();
        let too_old = taken.len().saturating_sub((TAKEN * fitted.room) as usize);
        for node in known.iter().rev().chain(&taken[too_old..]) {
            let at = fitted.link(node.name, node.uses, node.put_at);
            fitted.nodes[usize::from(at)].there = node.there;
            for (n, record) in fitted.records.iter_mut().enumerate() {
                record.held += u32::from(node.there >> n & 1);
            }
        }
        let room = fitted.room;
        (0..SETTINGS).for_each(|setting| fitted.keep_to_room(setting, room));
        fitted
    }

    /// The pages of a list, oldest first.
    fn nodes_of(&self, list: PageList) -> impl Iterator<Item = KnownPage> {
        let node = |at: u16| self.nodes.get(usize::from(at)).copied();
        std::iter::successors(node(list.oldest), move |before| node(before.newer))
    }

    fn make_room(&mut self, room: u32) {
        self.room = room.clamp(1, ROOM_MAX);
        let nodes = ((KNOWN + TAKEN) * self.room + 1) as usize;
        let vacant = |at: usize| KnownPage {
            name: 0,
            put_at: 0,
            newer: NONE,
            older: NONE,
            next: if at + 1 < nodes { at as u16 + 1 } else { NONE },
            there: 0,
            uses: 0,
        };
        self.nodes = (0..nodes).map(vacant).collect();
        self.free = 0;
        self.chains = vec![NONE; nodes.next_power_of_two() / 2];
    }

    /// Records that a sampled page was asked for and belongs to its owner from now on. Returns the setting that rules
    /// from now on.
    pub(super) fn get(&mut self, name: u32) -> usize {
        self.gets += 1;
        if let Some(at) = self.find(name) {
            let there = self.mark_taken(at);
            for (n, record) in self.records.iter_mut().enumerate() {
                record.hits += u32::from(there >> n & 1);
            }
        }
        if self.gets >= (self.room / 2).max(1) {
            self.close_window();
        }
        self.ruling
    }

    /// Records that a sampled page was flushed.
    pub(super) fn flush(&mut self, name: u32) {
        if let Some(at) = self.find(name) {
            self.mark_taken(at);
        }
    }

    /// Removes a page from all shadows because its owner took it or invalidated it. A tier that did not have it still
    /// remembers it as evicted.
    fn mark_taken(&mut self, at: u16) -> u8 {
        let there = self.flush_node(at);
        if there >> self.ruling & 1 == 1 {
            let KnownPage {
                name, uses, put_at, ..
            } = self.nodes[usize::from(at)];
            self.unlink(at);
            self.link(name, uses | IS_TAKEN, put_at);
            if self.taken > TAKEN * self.room {
                self.unlink(self.lists[LEVELS].oldest);
            }
        }
        there
    }

    /// Removes a page from all shadows.
    fn flush_node(&mut self, at: u16) -> u8 {
        let there = std::mem::take(&mut self.nodes[usize::from(at)].there);
        for (n, record) in self.records.iter_mut().enumerate() {
            record.held -= u32::from(there >> n & 1);
        }
        there
    }

    /// Records that a sampled page was put.
    pub(super) fn put(&mut self, name: u32) {
        self.puts = self.puts.wrapping_add(1);
        let (uses, there) = match self.find(name) {
            Some(at) => {
                let KnownPage { uses, there, .. } = self.nodes[usize::from(at)];
                self.unlink(at);
                (((uses & USES_MAX) + 1).min(USES_MAX), there)
            }
            None => (0, 0),
        };
        for setting in (0..SETTINGS).filter(|setting| there >> setting & 1 == 0) {
            self.keep_to_room(setting, self.room - 1);
            self.records[setting].held += 1;
        }
        let at = self.link(name, uses, self.puts);
        self.nodes[usize::from(at)].there = u8::MAX;
        if self.known > KNOWN * self.room {
            self.forget_oldest();
        }
    }

    fn close_window(&mut self) {
        let gets = f64::from(std::mem::take(&mut self.gets));
        let plain = f64::from(self.records[0].hits);
        self.asked = self.asked * FADING + gets;
        for record in &mut self.records {
            let hits = f64::from(std::mem::take(&mut record.hits));
            let gain = ((hits - plain) / gets).clamp(-LOSS_MAX, GAIN_MAX);
            record.score = record.score * FADING + hits;
            record.gain = record.gain * FADING + gain;
        }
        let may_rule = |setting: &usize| {
            let gain = self.records[*setting].gain;
            *setting == 0 || gain >= PROVEN || (*setting == self.ruling && gain >= DOUBTED)
        };
        let score = |setting: usize| self.records[setting].score + TRUSTS[setting] * self.asked;
        let best = (0..SETTINGS)
            .filter(may_rule)
            .max_by(|a, b| score(*a).total_cmp(&score(*b)));
        let best = best.unwrap_or(0);
        if score(best) > score(self.ruling) + BETTER * self.asked || !may_rule(&self.ruling) {
            self.ruling = best;
        }
    }

    /// Makes a shadow evict until it is within its room.
    fn keep_to_room(&mut self, setting: usize, room: u32) {
        while self.records[setting].held > room {
            let mut victim = None;
            for level in 0..LEVELS {
                let Some(at) = self.oldest_there(setting, level) else {
                    continue;
                };
                let age = self.puts.wrapping_sub(self.nodes[usize::from(at)].put_at);
                let rank = rank(age, level, &RANKS[setting]);
                if victim.is_none_or(|(highest, _)| rank > highest) {
                    victim = Some((rank, at));
                }
            }
            let Some((_, at)) = victim else {
                return;
            };
            self.nodes[usize::from(at)].there &= !(1 << setting);
            self.records[setting].held -= 1;
        }
    }

    /// The oldest page of a level that a shadow has.
    fn oldest_there(&mut self, setting: usize, level: usize) -> Option<u16> {
        let mut at = self.records[setting].oldest[level];
        while at != NONE && self.nodes[usize::from(at)].there >> setting & 1 == 0 {
            at = self.nodes[usize::from(at)].newer;
        }
        self.records[setting].oldest[level] = at;
        (at != NONE).then_some(at)
    }

    /// Forgets the page that was put longest ago and not taken. It prefers a page that no shadow has, if it finds one.
    fn forget_oldest(&mut self) {
        let node = |at: u16| &self.nodes[usize::from(at)];
        let oldest = self.lists[..LEVELS].iter().map(|list| list.oldest);
        let oldest = oldest.filter(|at| *at != NONE).max_by_key(|at| {
            let age = self.puts.wrapping_sub(node(*at).put_at);
            (node(*at).there == 0, age)
        });
        if let Some(at) = oldest {
            self.flush_node(at);
            self.unlink(at);
        }
    }

    /// The chain of a name. Names in a sample share their low bits, so mixed bits choose it.
    fn chain(&self, name: u32) -> usize {
        let mixed = name.wrapping_mul(0x9e37_79b9);
        (mixed >> u16::BITS) as usize & (self.chains.len() - 1)
    }

    fn find(&self, name: u32) -> Option<u16> {
        let mut at = self.chains[self.chain(name)];
        while at != NONE && self.nodes[usize::from(at)].name != name {
            at = self.nodes[usize::from(at)].next;
        }
        (at != NONE).then_some(at)
    }

    /// Adds a page as the newest of its list. There is always a free node, because there is one more than pages are
    /// known.
    fn link(&mut self, name: u32, uses: u8, put_at: u32) -> u16 {
        let (at, number, chain) = (self.free, list_of(uses), self.chain(name));
        let list = &mut self.lists[number];
        self.free = self.nodes[usize::from(at)].next;
        self.nodes[usize::from(at)] = KnownPage {
            name,
            put_at,
            newer: NONE,
            older: list.newest,
            next: std::mem::replace(&mut self.chains[chain], at),
            there: 0,
            uses,
        };
        match std::mem::replace(&mut list.newest, at) {
            NONE => list.oldest = at,
            older => self.nodes[usize::from(older)].newer = at,
        }
        for record in &mut self.records {
            if record.oldest[number] == NONE {
                record.oldest[number] = at;
            }
        }
        *self.count(number) += 1;
        at
    }

    fn unlink(&mut self, at: u16) {
        let node = self.nodes[usize::from(at)];
        let number = list_of(node.uses);
        for record in &mut self.records {
            if record.oldest[number] == at {
                record.oldest[number] = node.newer;
            }
        }
        match node.newer {
            NONE => self.lists[number].newest = node.older,
            newer => self.nodes[usize::from(newer)].older = node.older,
        }
        match node.older {
            NONE => self.lists[number].oldest = node.newer,
            older => self.nodes[usize::from(older)].newer = node.newer,
        }
        self.unchain(at, node);
        self.nodes[usize::from(at)].next = std::mem::replace(&mut self.free, at);
        *self.count(number) -= 1;
    }

    /// The count of pages in lists of this kind.
    fn count(&mut self, list: usize) -> &mut u32 {
        match list {
            LEVELS => &mut self.taken,
            _ => &mut self.known,
        }
    }

    fn unchain(&mut self, at: u16, node: KnownPage) {
        let chain = self.chain(node.name);
        if self.chains[chain] == at {
            self.chains[chain] = node.next;
            return;
        }
        let mut before = self.chains[chain];
        while self.nodes[usize::from(before)].next != at {
            before = self.nodes[usize::from(before)].next;
        }
        self.nodes[usize::from(before)].next = node.next;
    }
}

/// The list of a page with these uses.
fn list_of(uses: u8) -> usize {
    match uses & IS_TAKEN {
        0 => level_of(uses),
        _ => LEVELS,
    }
}
