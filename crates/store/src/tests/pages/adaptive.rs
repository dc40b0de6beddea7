//! `adaptive-mq` beside a plain model of its rule, step by step: which pages are there after every put, get and flush.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use proptest::prelude::*;
use sublet_types::EvictionKind;

use super::*;

/// Each level's weight by setting: that of newcomers, and by how much a level's exceeds that of the level before.
const SETTINGS: [(f64, f64); 8] = [
    (1.0, 1.0),
    (1.0, 1.5),
    (0.5, 1.0),
    (0.5, 1.5),
    (0.25, 1.5),
    (0.1, 1.5),
    (0.1, 2.5),
    (0.03, 2.5),
];

const LEVELS: usize = 5;

fn rank(setting: usize, level: usize, age: u64) -> u64 {
    let (newcomer, step) = SETTINGS[setting];
    let weight = match level {
        0 => newcomer,
        level => step.powi(level as i32 - 1),
    };
    (age + 1) * (1024.0 / weight).round() as u64
}

fn level(uses: u64) -> usize {
    [1, 2, 4, 8].iter().filter(|least| uses >= **least).count()
}

/// A page by its hash.
type PageHash = u64;

/// A page that is there, or that is known.
#[derive(Clone, Debug)]
struct ModelPage {
    hash: PageHash,
    uses: u64,
    put_at: u64,
    there: [bool; SETTINGS.len()],
}

/// The oldest page of each level competes by rank. Pages are in the order of their puts.
fn first_to_go<'a>(
    pages: impl Iterator<Item = (usize, &'a ModelPage)>,
    setting: usize,
    now: u64,
) -> Option<usize> {
    let mut oldest = [None; LEVELS];
    for (at, page) in pages {
        let oldest = &mut oldest[level(page.uses)];
        *oldest = oldest.or(Some((at, now - page.put_at)));
    }
    let ranked = (0..LEVELS).rev().filter_map(|level| {
        let (at, age) = oldest[level]?;
        Some((rank(setting, level, age), at))
    });
    ranked.max_by_key(|(rank, _)| *rank).map(|(_, at)| at)
}

/// What the settings would have had of a sample.
#[derive(Debug)]
struct SampleModel {
    one_in: u64,
    room: usize,
    known: Vec<ModelPage>,
    /// Pages that were taken, with their uses, newest last.
    taken: VecDeque<(PageHash, u64)>,
    puts: u64,
    gets: usize,
    hits: [f64; SETTINGS.len()],
    scores: [f64; SETTINGS.len()],
    gains: [f64; SETTINGS.len()],
    asked: f64,
    ruling: usize,
}

impl SampleModel {
    fn mark_taken(&mut self, hash: PageHash) -> [bool; SETTINGS.len()] {
        let Some(at) = self.known.iter().position(|page| page.hash == hash) else {
            return Default::default();
        };
        let there = std::mem::take(&mut self.known[at].there);
        if there[self.ruling] {
            let page = self.known.remove(at);
            self.taken.push_back((page.hash, page.uses));
            while self.taken.len() > self.room {
                self.taken.pop_front();
            }
        }
        there
    }

    /// Removes a page from those that were taken and returns its uses.
    fn recall(&mut self, hash: PageHash) -> Option<u64> {
        let at = self.taken.iter().position(|(taken, _)| *taken == hash)?;
        self.taken.remove(at).map(|(_, uses)| uses)
    }

    fn get(&mut self, hash: PageHash) {
        let there = self.mark_taken(hash);
        for (hits, there) in self.hits.iter_mut().zip(there) {
            *hits += f64::from(u8::from(there));
        }
        self.gets += 1;
        if self.gets >= self.room / 2 {
            self.choose_setting();
        }
    }

    fn choose_setting(&mut self) {
        let fade = 0.925_874_712;
        for n in 0..SETTINGS.len() {
            let gain = (self.hits[n] - self.hits[0]) / self.gets as f64;
            self.gains[n] = self.gains[n] * fade + gain.clamp(-0.06, 0.02);
            self.scores[n] = self.scores[n] * fade + self.hits[n];
        }
        self.asked = self.asked * fade + self.gets as f64;
        (self.gets, self.hits) = (0, Default::default());
        let (gains, ruling) = (self.gains, self.ruling);
        let may = |n: usize| n == 0 || gains[n] >= 0.06 || (n == ruling && gains[n] >= -0.15);
        let trust = |n: usize| if n < 6 { 0.0 } else { 0.01 };
        let score = |n: usize| self.scores[n] + trust(n) * self.asked;
        let mut best = 0;
        for n in (0..SETTINGS.len()).filter(|n| may(*n)) {
            if score(n) >= score(best) {
                best = n;
            }
        }
        if score(best) > score(ruling) + 0.006 * self.asked || !may(ruling) {
            self.ruling = best;
        }
    }

    fn put(&mut self, hash: PageHash) {
        self.puts += 1;
        let before = self.known.iter().position(|page| page.hash == hash);
        let before = before.map(|at| self.known.remove(at));
        let held = before
            .as_ref()
            .map_or_else(Default::default, |page| page.there);
        let uses = before.map(|page| page.uses).or_else(|| self.recall(hash));
        for setting in (0..SETTINGS.len()).filter(|n| !held[*n]) {
            while self.known.iter().filter(|page| page.there[setting]).count() >= self.room {
                let there = self.known.iter().enumerate();
                let there = there.filter(|(_, page)| page.there[setting]);
                let at = first_to_go(there, setting, self.puts).expect("it is full");
                self.known[at].there[setting] = false;
            }
        }
        self.known.push(ModelPage {
            hash,
            uses: uses.map_or(0, |uses| (uses + 1).min(15)),
            put_at: self.puts,
            there: [true; SETTINGS.len()],
        });
        if self.known.len() > 2 * self.room {
            let mut oldest: [Option<usize>; LEVELS] = [None; LEVELS];
            for (at, page) in self.known.iter().enumerate() {
                oldest[level(page.uses)].get_or_insert(at);
            }
            let oldest: Vec<usize> = oldest.into_iter().flatten().collect();
            let nowhere = oldest
                .iter()
                .filter(|at| self.known[**at].there == [false; 8]);
            let gone = nowhere.min().or(oldest.iter().min());
            self.known.remove(*gone.expect("some are known"));
        }
    }
}

/// Names and uses of evicted pages and of taken pages, newest first.
type HistoryQueues = [VecDeque<(u64, u64)>; 2];

/// The rule for one shard with room for this many pages.
#[derive(Debug)]
struct ReferenceModel {
    room: usize,
    rows: u64,
    here: Vec<ModelPage>,
    history: HashMap<(u64, u64), HistoryQueues>,
    puts: u64,
    sample: SampleModel,
    /// Whether one of the settings that distrust newcomers most has ruled.
    distrusted: bool,
}

impl ReferenceModel {
    fn new(room: usize) -> ReferenceModel {
        let sampled = (room as u64 / 32).clamp(1, 512);
        let one_in = (room as u64 / sampled).next_power_of_two();
        ReferenceModel {
            room,
            rows: room as u64 / 100,
            here: Vec::new(),
            history: HashMap::new(),
            puts: 0,
            distrusted: false,
            sample: SampleModel {
                one_in,
                room: room / one_in as usize,
                known: Vec::new(),
                taken: VecDeque::new(),
                puts: 0,
                gets: 0,
                hits: Default::default(),
                scores: Default::default(),
                gains: Default::default(),
                asked: 0.0,
                ruling: 1,
            },
        }
    }

    /// Where a page is remembered, and its name there: 28 bits of its hash. The highest of them choose the row.
    fn place(&self, hash: PageHash) -> ((u64, u64), u64) {
        let name = (hash >> 36).max(1);
        (((name * self.rows) >> 28, (hash >> 32) & 15), name)
    }

    fn bury(&mut self, page: &ModelPage, left: usize) {
        let (place, name) = self.place(page.hash);
        let line = &mut self.history.entry(place).or_default()[left];
        line.push_front((name, page.uses));
        line.truncate([6, 10][left]);
    }

    fn recall(&mut self, hash: PageHash) -> Option<u64> {
        let (place, name) = self.place(hash);
        let lines = self.history.get_mut(&place)?;
        lines.iter_mut().find_map(|line| {
            let at = line.iter().position(|(known, _)| *known == name)?;
            line.remove(at).map(|(_, uses)| uses)
        })
    }

    fn is_sampled(&self, hash: PageHash) -> bool {
        hash.is_multiple_of(self.sample.one_in)
    }

    fn put(&mut self, hash: PageHash) {
        if self.here.len() == self.room {
            let now = self.puts / 16;
            let here = self.here.iter().enumerate();
            let at = first_to_go(here, self.sample.ruling, now).expect("it is full");
            let gone = self.here.remove(at);
            self.bury(&gone, 0);
        }
        self.puts += 1;
        let uses = self.recall(hash).map_or(0, |uses| (uses + 1).min(15));
        self.here.push(ModelPage {
            hash,
            uses,
            put_at: self.puts / 16,
            there: [false; 8],
        });
        if self.is_sampled(hash) {
            self.sample.put(hash);
        }
    }

    fn leave(&mut self, hash: PageHash) -> bool {
        let at = self.here.iter().position(|page| page.hash == hash);
        let gone = at.map(|at| self.here.remove(at));
        gone.iter().for_each(|page| self.bury(page, 1));
        gone.is_some()
    }

    fn get(&mut self, hash: PageHash) -> bool {
        let hit = self.leave(hash);
        if self.is_sampled(hash) {
            self.sample.get(hash);
        }
        self.distrusted |= self.sample.ruling >= 6;
        hit
    }

    fn flush(&mut self, hash: PageHash) {
        self.leave(hash);
        if self.is_sampled(hash) {
            self.sample.mark_taken(hash);
        }
    }
}

/// Blocks of the tenant's pages.
const BLOCKS: usize = 40;

/// Pages of an object.
const OBJECT: u64 = 512;

/// The store and the model, which see the same operations.
struct StoreAndReference {
    client: PoolClient,
    plain: ReferenceModel,
}

impl StoreAndReference {
    fn new() -> StoreAndReference {
        let room = BLOCKS * 16;
        let (store, _) = store(BLOCKS + 20, 1);
        let ann = tenant(&store, "ann", 100);
        let client = PoolClient::new(&store, ann, EPHEMERAL);
        store.set_target(ann, Some(Bytes((BLOCKS * BLOCK) as u64)));
        (0..room as u32).for_each(|index| assert!(client.put(9999, index, 1).is_stored()));
        assert!(client.flush_object(9999));
        store.pages.fit_all(NOW);
        for kind in [EvictionKind::Lru, EvictionKind::AdaptiveMq] {
            store.set_eviction(ann, kind, NOW);
        }
        StoreAndReference {
            client,
            plain: ReferenceModel::new(room),
        }
    }

    fn hash(&self, page: u64) -> PageHash {
        let seed = self.client.worker.store().pages.seed;
        let object = seed.object(self.client.pool.slot, ObjectId(page / OBJECT));
        seed.page_of(object, PageIndex((page % OBJECT) as u32))
    }

    fn put(&mut self, page: u64) {
        let hash = self.hash(page);
        let (object, index) = (page / OBJECT, (page % OBJECT) as u32);
        if self.plain.here.iter().all(|here| here.hash != hash) {
            assert!(self.client.put(object, index, page).is_stored());
            self.plain.put(hash);
        }
    }

    fn get(&mut self, page: u64) {
        let hash = self.hash(page);
        let got = self.client.get(page / OBJECT, (page % OBJECT) as u32);
        assert_eq!(got.is_some(), self.plain.get(hash), "page {page}");
    }

    fn flush(&mut self, page: u64) {
        let hash = self.hash(page);
        let found = self.client.flush(page / OBJECT, (page % OBJECT) as u32);
        assert!(found, "its pool is there");
        self.plain.flush(hash);
    }

    /// Everything that the model has is there, and no more pages than that are there.
    fn compare(&self, pages: impl Iterator<Item = u64>) {
        let is_here = |page: &u64| {
            let key = self.client.key(page / OBJECT, (page % OBJECT) as u32);
            self.client.worker.has_page(self.client.tenant, key, NOW)
        };
        let mut here: Vec<PageHash> = pages.filter(is_here).map(|page| self.hash(page)).collect();
        let mut plain: Vec<PageHash> = self.plain.here.iter().map(|page| page.hash).collect();
        here.sort_unstable();
        plain.sort_unstable();
        assert!(here == plain, "others after {} puts", self.plain.puts);
    }
}

/// A client with memory of its own that puts what it has no room for.
fn replay(both: &mut StoreAndReference, room: usize, pages: impl Iterator<Item = (u64, bool)>) {
    let mut own: VecDeque<u64> = VecDeque::new();
    let mut seen = std::collections::BTreeSet::new();
    for (step, (page, is_write)) in pages.enumerate() {
        seen.insert(page);
        if let Some(at) = own.iter().position(|own| *own == page) {
            own.remove(at);
        } else {
            match is_write {
                true => both.flush(page),
                false => both.get(page),
            }
            if own.len() == room
                && let Some(gone) = own.pop_front()
            {
                both.put(gone);
            }
        }
        own.push_back(page);
        if step % 500 == 0 {
            both.compare(seen.iter().copied());
        }
    }
    both.compare(seen.iter().copied());
}

/// Requests whose popular pages change now and then, with scans and writes among them.
fn made(seed: u64, steps: u64) -> impl Iterator<Item = (u64, bool)> {
    let mut random = seed | 1 << 40;
    (0..steps).map(move |step| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (a, b) = (random >> 20 & 0xffff, random >> 40 & 0xffff);
        let popular = (a * b * (random >> 4 & 0xffff)) >> 37;
        let page = match step / 900 % 4 {
            3 => 4000 + step % 1300,
            phase => popular % 1600 + phase * seed % 3 * 200,
        };
        (page, random.is_multiple_of(29))
    })
}

/// Requests for equally popular pages that no tier has room for, between pages that come once.
fn scanned(seed: u64, steps: u64) -> impl Iterator<Item = (u64, bool)> {
    let mut random = seed | 1 << 40;
    (0..steps).map(move |step| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let page = match step % 3 {
            0 => 10_000 + step,
            _ => (random >> 20) % 900,
        };
        (page, false)
    })
}

/// The settings that distrust newcomers most rule if newcomers come once, and rule on for a while.
#[test]
fn where_scans_pass_the_stores_order_is_the_rules() {
    let mut both = StoreAndReference::new();
    replay(&mut both, 40, scanned(7, 16_000).chain(made(5, 6000)));
    let sample = &both.plain.sample;
    assert!(both.plain.distrusted, "{:?}", sample.gains);
}

/// A large client puts back what it took only when more pages were taken than are remembered.
#[test]
fn under_a_large_client_the_stores_order_is_the_rules() {
    let mut both = StoreAndReference::new();
    let around = (0..6000).map(|step| (step % 1300, false));
    replay(&mut both, 900, made(3, 5000).chain(around));
    let sample = &both.plain.sample;
    assert_eq!(sample.taken.len(), sample.room);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, ..ProptestConfig::default() })]

    #[test]
    fn the_stores_order_is_the_rules(seed in any::<u32>()) {
        let mut both = StoreAndReference::new();
        replay(&mut both, 40, made(seed.into(), 8000));
        prop_assert!(both.plain.sample.scores.iter().any(|score| *score > 0.0));
    }
}

/// The first sixth of a recorded trace of a machine's disk, whose records are 32 bytes. Its pages are 256 KiB, so that
/// they come again.
#[test]
fn on_a_recorded_trace_the_stores_order_is_the_rules() {
    let file = "../../../shared/traces/cloudPhysicsIO.vscsi";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let Ok(bytes) = std::fs::read(&file) else {
        eprintln!("skipped: there is no {}", file.display());
        return;
    };
    let records = bytes.chunks_exact(32).take(20_000);
    let requests = records.map(|record| {
        let block = record[16..24]
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte));
        (block / 512, record[12] == 0x2a)
    });
    let mut both = StoreAndReference::new();
    replay(&mut both, 40, requests);
    assert!(both.plain.puts > 4000, "{}", both.plain.puts);
}

/// History and shadows together take no more than the ghosts of `x-s3h`: 12 bytes per page. A shard publishes its first
/// page in one cache line.
#[test]
fn what_is_remembered_takes_at_most_twelve_bytes_a_page() {
    for blocks in [8, 20, 64, 130] {
        let (store, _) = store_of(blocks + 4, 128, 512);
        let ann = tenant(&store, "ann", 100);
        store.set_eviction(ann, EvictionKind::AdaptiveMq, NOW);
        let client = PoolClient::new(&store, ann, EPHEMERAL);
        let pages = blocks as u32 * 128;
        store.set_target(ann, Some(Bytes((blocks * BLOCK) as u64)));
        for index in 0..2 * pages {
            let key = client.key(u64::from(index / 100), index % 100);
            client.worker.put_page(ann, key, NOW, unlike);
        }
        store.pages.fit_all(NOW);
        let ghosts = store.pages.overhead().ghosts - 128 * 64;
        assert!(
            ghosts > 10 * u64::from(pages),
            "{ghosts} bytes of {pages} pages"
        );
        assert!(
            ghosts <= 12 * u64::from(pages),
            "{ghosts} bytes of {pages} pages"
        );
    }
}

/// What was flushed may come back, though the memory that it took was given up. An hour later nothing is remembered of
/// it.
#[test]
fn history_outlives_the_blocks_of_what_was_flushed_for_some_minutes() {
    let (store, _) = store(140, 4);
    let client = PoolClient::new(&store, tenant(&store, "ann", 100), EPHEMERAL);
    (0..2000).for_each(|object| _ = client.put(object, 0, object));
    let mut now = NOW.0;
    let mut pass = |seconds: u32| {
        for second in now..now + seconds {
            while client.worker.upkeep(Second(second)) {}
        }
        now += seconds;
        store.pages.overhead().ghosts
    };
    let full = pass(1);
    (0..2000).for_each(|object| _ = client.flush(object, 0));
    let soon = pass(60);
    assert!(client.figures().held_ephemeral.0 < 100, "it was given up");
    assert!(soon > full / 5 * 4, "{full} {soon}");
    let later = pass(700);
    assert!((full / 3..full / 3 * 2).contains(&later), "{full} {later}");
    assert!(pass(7200) < full / 10);
}

/// However its pages are divided into shards, a tenant loses the oldest of those that nobody came back for. None of its
/// frames lies idle.
#[test]
fn in_many_shards_pages_leave_as_from_one_line() {
    let (store, _) = store_of(20, 128, 512);
    let ann = tenant(&store, "ann", 100);
    store.set_eviction(ann, EvictionKind::AdaptiveMq, NOW);
    let client = PoolClient::new(&store, ann, EPHEMERAL);
    let pages = 16 * 128;
    store.set_target(ann, Some(Bytes(16 * BLOCK as u64)));
    let key = |index: u32| client.key(u64::from(index / 512), index % 512);
    for index in 0..4 * pages {
        let put = client.worker.put_page(ann, key(index), NOW, unlike);
        assert!(put.is_stored());
    }
    assert_eq!(client.figures().used.0, u64::from(pages));
    let newest = 4 * pages - pages * 3 / 4..4 * pages;
    let has = |index: &u32| client.worker.has_page(ann, key(*index), NOW);
    let missing = newest.filter(|index| !has(index)).count();
    assert!(missing < pages as usize / 50, "{missing} are gone");
}
