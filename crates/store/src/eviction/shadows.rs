//! Shadows: what each of several settings would have had, of a sample of a tenant's pages.
//!
//! What an exclusive tier is asked for does not depend on what it holds: its client has what the tier has not. So a
//! shadow that is told of some pages, and has room for as many of a hundred as they are of all, hits as often as a tier with its setting
//! would, but for luck. All shadows remember the same pages with the same uses, each put at the same time, and differ in a bit: whether
//! the page would be there.
//!
//! They forget as the tier does, which remembers about as many pages as it has of those that left in either way. Shadows that remember
//! longer know pages again that the tier does not, and show gains that are not to be had.

use super::history::USES_MAX;
use super::weights::{LEVELS, RANKS, SETTINGS, START, TRUSTS, level_of, rank};

/// Sampled pages that a shadow has room for, at the most.
pub(super) const ROOM_MAX: u32 = 512;

/// Pages of a tenant, of which one is sampled at the most.
const SAMPLED_ONE_IN: u64 = 32;

/// Pages that are known for each that there is room for, of those that would be there or had to go.
const KNOWN: u32 = 2;

/// The same of those that were taken.
const TAKEN: u32 = 1;

/// Beside the uses of a page: it was taken.
const IS_TAKEN: u8 = USES_MAX + 1;

/// Lists of pages: one for each level, and one of those that were taken.
const LISTS: usize = LEVELS + 1;

/// What a window's scores keep of those before: half in nine windows.
const FADING: f64 = 0.925_874_712;

/// What a setting may gain on plain age in one window, and lose, in parts of what was asked for.
const GAIN_MAX: f64 = 0.02;
const LOSS_MAX: f64 = 0.06;

/// Gains at which a setting may rule: those of four good windows, fading.
const PROVEN: f64 = 0.06;

/// Gains down to which it may go on to: to change back and forth costs more than a few bad windows, since the pages that
/// the other setting would have are gone.
const DOUBTED: f64 = -0.15;

/// By how much another setting has to be better than who rules and still may, in parts of what was asked for.
const BETTER: f64 = 0.006;

/// No node.
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    name: u32,
    /// When it was put, in sampled puts.
    put_at: u32,
    newer: u16,
    older: u16,
    /// The next of its chain.
    next: u16,
    /// Which shadows have it.
    there: u8,
    uses: u8,
}

/// The known pages of a level by the time of their last put, or those that were taken by the time of that.
#[derive(Clone, Copy, Debug)]
struct List {
    newest: u16,
    oldest: u16,
}

/// What a setting has come to.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    held: u32,
    hits: u32,
    score: f64,
    gain: f64,
    /// Of each list, the page from which on the oldest that it has is looked for.
    oldest: [u16; LISTS],
}

/// The shadows of one tenant.
#[derive(Debug)]
pub(super) struct Shadows {
    room: u32,
    nodes: Vec<Node>,
    /// The first of the nodes that are free.
    free: u16,
    /// Pages in lists of levels, and in the other.
    known: u32,
    taken: u32,
    chains: Vec<u16>,
    lists: [List; LISTS],
    records: [Record; SETTINGS],
    /// Sampled puts, and gets since the window began.
    puts: u32,
    gets: u32,
    /// What was asked for, fading as scores do.
    asked: f64,
    ruling: usize,
    /// The room when settings began to be compared.
    begun: u32,
}

/// One page in so many is sampled where a tenant has room for so many pages: a power of two.
pub(super) fn sampled_one_in(pages: u64) -> u64 {
    let wanted = (pages / SAMPLED_ONE_IN).clamp(1, u64::from(ROOM_MAX));
    (pages / wanted).max(1).next_power_of_two()
}

impl Shadows {
    /// Shadows with room for so many sampled pages that have seen nothing.
    pub(super) fn new(room: u32) -> Shadows {
        let empty = List {
            newest: NONE,
            oldest: NONE,
        };
        let record = Record {
            oldest: [NONE; LISTS],
            ..Record::default()
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

    /// Which setting rules.
    pub(super) fn ruling(&self) -> usize {
        self.ruling
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> u64 {
        let nodes = self.nodes.capacity() * size_of::<Node>();
        (nodes + self.chains.capacity() * size_of::<u16>()) as u64
    }

    /// With another room, and of the pages that are sampled still, if others are from now on. What settings have come to
    /// stays, unless the room is half as large again as when they began, or a third smaller: what few pages showed is chance.
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
        let kept = |list: &List| self.nodes_of(*list).filter(|node| keeps(node.name));
        let mut known: Vec<Node> = self.lists[..LEVELS].iter().flat_map(kept).collect();
        known.sort_by_key(|node| self.puts.wrapping_sub(node.put_at));
        known.truncate((KNOWN * fitted.room) as usize);
        let taken: Vec<Node> = kept(&self.lists[LEVELS]).collect();
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

    /// The pages of a list, the oldest first.
    fn nodes_of(&self, list: List) -> impl Iterator<Item = Node> {
        let node = |at: u16| self.nodes.get(usize::from(at)).copied();
        std::iter::successors(node(list.oldest), move |before| node(before.newer))
    }

    fn make_room(&mut self, room: u32) {
        self.room = room.clamp(1, ROOM_MAX);
        let nodes = ((KNOWN + TAKEN) * self.room + 1) as usize;
        let vacant = |at: usize| Node {
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

    /// A sampled page was asked for, and is its owner's from now on. Says which setting rules from now on.
    pub(super) fn get(&mut self, name: u32) -> usize {
        self.gets += 1;
        if let Some(at) = self.find(name) {
            let there = self.take_node(at);
            for (n, record) in self.records.iter_mut().enumerate() {
                record.hits += u32::from(there >> n & 1);
            }
        }
        if self.gets >= (self.room / 2).max(1) {
            self.close_window();
        }
        self.ruling
    }

    /// A sampled page was flushed.
    pub(super) fn flush(&mut self, name: u32) {
        if let Some(at) = self.find(name) {
            self.take_node(at);
        }
    }

    /// No shadow has a page any more, whose owner has it, or made it void. A tier that did not have it still knows it as one that had
    /// to go.
    fn take_node(&mut self, at: u16) -> u8 {
        let there = self.flush_node(at);
        if there >> self.ruling & 1 == 1 {
            let Node {
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

    /// No shadow has a page any more.
    fn flush_node(&mut self, at: u16) -> u8 {
        let there = std::mem::take(&mut self.nodes[usize::from(at)].there);
        for (n, record) in self.records.iter_mut().enumerate() {
            record.held -= u32::from(there >> n & 1);
        }
        there
    }

    /// A sampled page was put.
    pub(super) fn put(&mut self, name: u32) {
        self.puts = self.puts.wrapping_add(1);
        let (uses, there) = match self.find(name) {
            Some(at) => {
                let Node { uses, there, .. } = self.nodes[usize::from(at)];
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

    /// Has a shadow let go of who is behind, until it has so many.
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

    /// Forgets the page that was put the longest ago and not taken: of those that no shadow has, if it comes upon one.
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

    /// Names of a sample have their low bits in common.
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

    /// Enters a page as the newest of its list. There is a free node: one more than are known.
    fn link(&mut self, name: u32, uses: u8, put_at: u32) -> u16 {
        let (at, number, chain) = (self.free, list_of(uses), self.chain(name));
        let list = &mut self.lists[number];
        self.free = self.nodes[usize::from(at)].next;
        self.nodes[usize::from(at)] = Node {
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

    /// How many pages are in lists like this one.
    fn count(&mut self, list: usize) -> &mut u32 {
        match list {
            LEVELS => &mut self.taken,
            _ => &mut self.known,
        }
    }

    fn unchain(&mut self, at: u16, node: Node) {
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
