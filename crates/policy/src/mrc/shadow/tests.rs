//! The shadow is compared with exclusive tiers of several sizes that see every access.

use std::collections::VecDeque;

use super::super::stack::mix_bits;
use super::*;
use crate::mrc::lookahead::MonotoneCurve;

/// SplitMix64.
struct TestRng(u64);

impl TestRng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix_bits(self.0)
    }

    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Pages by popularity, the most popular first.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(pages: usize, skew: f64) -> Zipf {
        let mut sum = 0.0;
        let mut grow = |n: usize| {
            sum += (n as f64).powf(-skew);
            sum
        };
        let mut sums: Vec<f64> = (1..=pages).map(&mut grow).collect();
        let whole = sum;
        sums.iter_mut().for_each(|part| *part /= whole);
        Zipf(sums)
    }

    fn page(&self, rng: &mut TestRng) -> usize {
        let at = rng.fraction();
        self.0
            .partition_point(|sum| *sum < at)
            .min(self.0.len() - 1)
    }
}

/// Pages by age, the oldest first. `stamps` tells which of them have left.
struct ExclusiveTier {
    size: usize,
    held: usize,
    order: VecDeque<(usize, u32)>,
    stamps: Vec<u32>,
    turn: u32,
    hits: u64,
}

impl ExclusiveTier {
    fn new(size: usize, pages: usize) -> ExclusiveTier {
        ExclusiveTier {
            size,
            held: 0,
            order: VecDeque::new(),
            stamps: vec![0; pages],
            turn: 0,
            hits: 0,
        }
    }

    fn put(&mut self, page: usize) {
        self.remove(page);
        self.turn += 1;
        self.stamps[page] = self.turn;
        self.order.push_back((page, self.turn));
        self.held += 1;
        while self.held > self.size {
            let (oldest, stamp) = self.order.pop_front().expect("it holds pages");
            if self.stamps[oldest] == stamp {
                self.remove(oldest);
            }
        }
    }

    fn remove(&mut self, page: usize) -> bool {
        let was_here = self.stamps[page] != 0;
        self.stamps[page] = 0;
        self.held -= usize::from(was_here);
        was_here
    }

    fn get(&mut self, page: usize) {
        self.hits += u64::from(self.remove(page));
    }
}

/// A client with memory of its own, in front of a shadow and of tiers that see everything.
struct ShadowFixture {
    client: ExclusiveTier,
    tiers: Vec<ExclusiveTier>,
    shadow: Shadow,
    gets: u64,
    salt: u64,
}

impl ShadowFixture {
    fn new(
        client: usize,
        pages: usize,
        sizes: &[usize],
        entries_max: usize,
        salt: u64,
    ) -> ShadowFixture {
        let reach = Pages(pages as u64);
        ShadowFixture {
            client: ExclusiveTier::new(client, pages),
            tiers: sizes
                .iter()
                .map(|&size| ExclusiveTier::new(size, pages))
                .collect(),
            shadow: Shadow::new(Second(0), reach, entries_max),
            gets: 0,
            salt,
        }
    }

    fn feed(&mut self, page: usize, access: PageAccess) {
        let hash = mix_bits(page as u64 ^ mix_bits(self.salt));
        if is_sampled(hash) {
            self.shadow.feed(hash, access);
        }
    }

    /// The client wants a page. It takes it from its own memory, else from the tier. It puts what it evicts.
    fn access(&mut self, page: usize) {
        if !self.client.remove(page) {
            self.gets += 1;
            self.tiers.iter_mut().for_each(|tier| tier.get(page));
            self.feed(page, PageAccess::Get);
        }
        let victim = self.client.victim();
        self.client.put(page);
        if let Some(victim) = victim {
            self.client.remove(victim);
            self.tiers.iter_mut().for_each(|tier| tier.put(victim));
            self.feed(victim, PageAccess::Put);
        }
    }

    /// The shadow's hit ratio for each tier less the true one, in percent points.
    fn errors(&mut self) -> Vec<f64> {
        let curve = self.shadow.close(Second(1), self.gets, Pages(u64::MAX));
        let hit_curve = MonotoneCurve::of(&curve);
        let gets = self.gets as f64;
        let error = |tier: &ExclusiveTier| {
            (hit_curve.hits(tier.size as u64) - tier.hits as f64) / gets * 100.0
        };
        self.tiers.iter().map(error).collect()
    }
}

impl ExclusiveTier {
    /// The page that the next put of a new one would evict.
    fn victim(&mut self) -> Option<usize> {
        if self.held < self.size {
            return None;
        }
        while let Some((page, stamp)) = self.order.front().copied() {
            if self.stamps[page] == stamp {
                return Some(page);
            }
            self.order.pop_front();
        }
        None
    }
}

/// Asserts by how many percent points of hit ratio a curve is off: on average, and at worst.
#[track_caller]
fn assert_within(mean_max: f64, worst_max: f64, errors: &[f64]) {
    let absolute = || errors.iter().map(|error| error.abs());
    let mean = absolute().sum::<f64>() / errors.len() as f64;
    let worst = absolute().fold(0.0, f64::max);
    assert!(mean <= mean_max && worst <= worst_max, "{errors:.2?}");
}

const SIZES: [usize; 8] = [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000];

fn zipf(skew: f64, entries_max: usize, salt: u64) -> Vec<f64> {
    let pages = 65_536;
    let popularity = Zipf::new(pages, skew);
    let mut rng = TestRng(salt);
    let mut scene = ShadowFixture::new(2000, pages, &SIZES, entries_max, salt);
    for _ in 0..400_000 {
        let page = popularity.page(&mut rng);
        scene.access(page);
    }
    scene.errors()
}

#[test]
fn zipf_streams_are_measured_within_a_point() {
    for skew in [0.7, 1.0] {
        let errors: Vec<f64> = (1..=3)
            .flat_map(|salt| zipf(skew, ENTRIES_MAX, salt))
            .collect();
        assert_within(1.0, 3.0, &errors);
    }
}

#[test]
fn a_sample_thinned_to_a_64th_is_half_as_good() {
    let errors: Vec<f64> = (1..=3).flat_map(|salt| zipf(0.9, 1024, salt)).collect();
    assert_within(2.0, 5.0, &errors);
}

#[test]
fn a_scan_hits_nothing_until_all_of_it_fits() {
    let pages = 30_000;
    let sizes = [1000, 10_000, 25_000, 31_500];
    let mut scene = ShadowFixture::new(1000, pages, &sizes, ENTRIES_MAX, 11);
    for turn in 0..300_000 {
        scene.access(turn % pages);
    }
    let errors = scene.errors();
    assert_within(1.0, 2.0, &errors);
    assert_eq!(scene.tiers[2].hits, 0);
    assert!(scene.tiers[3].hits > 250_000);
}

#[test]
fn scans_through_a_zipf_stream_are_measured_within_a_point() {
    let (popular, scanned) = (32_768, 20_000);
    let popularity = Zipf::new(popular, 0.9);
    let mut rng = TestRng(5);
    let mut scene = ShadowFixture::new(1500, popular + scanned, &SIZES, ENTRIES_MAX, 5);
    let mut at = 0;
    for turn in 0..400_000 {
        let page = popularity.page(&mut rng);
        scene.access(page);
        if turn / 50_000 % 2 == 1 {
            at = (at + 1) % scanned;
            scene.access(popular + at);
        }
    }
    assert_within(1.0, 2.0, &scene.errors());
}

/// Items: no client keeps the hottest for itself, and a get leaves what it hits.
#[test]
fn hot_items_are_measured_within_two_points_on_average() {
    let pages = 32_768;
    let popularity = Zipf::new(pages, 1.0);
    let mut errors = Vec::new();
    // With 6 the hottest is sampled, with 21 the three hottest, and with 16 none of the thirty hottest.
    for salt in [2, 6, 16, 21] {
        let mut rng = TestRng(salt);
        let mut scene = ShadowFixture::new(0, pages, &SIZES[..6], ENTRIES_MAX, salt);
        for _ in 0..200_000 {
            let page = popularity.page(&mut rng);
            scene.gets += 1;
            for tier in &mut scene.tiers {
                tier.get(page);
                tier.put(page);
            }
            scene.feed(page, PageAccess::GetKeeping);
            scene.feed(page, PageAccess::Put);
        }
        errors.extend(scene.errors());
    }
    assert_within(2.0, 6.0, &errors);
}

#[test]
fn a_curve_follows_a_phase() {
    let reach = Pages(1 << 20);
    let mut shadow = Shadow::new(Second(0), reach, ENTRIES_MAX);
    let mut rng = TestRng(9);
    let mut curve = Curve::default();
    let mut run = |pages: u64, from: u32, to: u32| {
        for second in from..to {
            let mut gets = 0;
            for _ in 0..2000 {
                let hash = mix_bits(rng.next() % pages) & !(SAMPLE_ONE_IN - 1);
                shadow.feed(hash, PageAccess::Get);
                shadow.feed(hash, PageAccess::Put);
                gets += SAMPLE_ONE_IN;
            }
            curve = shadow.close(Second(second + 1), gets, reach);
        }
        MonotoneCurve::of(&curve)
    };
    let small = run(100, 0, 100);
    assert!(small.hits(2000) > 30_000.0, "{}", small.hits(2000));
    let large = run(4000, 100, 700);
    assert!(large.hits(2000) < 3000.0, "{}", large.hits(2000));
    assert!(large.hits(80_000) > 30_000.0, "{}", large.hits(80_000));
}

#[test]
fn a_kept_page_is_hit_again_and_a_flushed_one_never() {
    let mut shadow = Shadow::new(Second(0), Pages(1000), ENTRIES_MAX);
    let feed = [
        (16, PageAccess::Put),
        (16, PageAccess::GetKeeping),
        (16, PageAccess::GetKeeping),
        (32, PageAccess::GetKeeping),
        (16, PageAccess::Flush),
        (16, PageAccess::GetKeeping),
        (48, PageAccess::Put),
        (48, PageAccess::Get),
        (48, PageAccess::Get),
    ];
    for (hash, access) in feed {
        shadow.feed(hash, access);
    }
    let curve = shadow.close(Second(1), 96, Pages(1000));
    assert_eq!(curve.points.last().map(|point| point.1), Some(48.0));
}

#[test]
fn a_shadow_never_outgrows_its_bound() {
    for reach in [Pages(0), Pages(1000), Pages(u64::MAX)] {
        let mut shadow = Shadow::new(Second(0), reach, 256);
        let mut rng = TestRng(3);
        for turn in 0..200_000u64 {
            let access = match turn % 7 {
                0..5 => PageAccess::Put,
                5 => PageAccess::Get,
                _ => PageAccess::Flush,
            };
            let hash = mix_bits(rng.next() % 50_000) & !(SAMPLE_ONE_IN - 1);
            shadow.feed(hash, access);
            assert!(shadow.stack.len() <= 256);
        }
        let curve = shadow.close(Second(1), 500_000, reach);
        assert!(curve.points.iter().all(|point| point.1.is_finite()));
    }
}

#[test]
fn one_hash_a_million_times_and_a_single_entry_do_no_harm() {
    let mut shadow = Shadow::new(Second(0), Pages(100), 0);
    for hash in 0..1000 {
        shadow.feed(hash * SAMPLE_ONE_IN, PageAccess::Put);
        shadow.feed(0, PageAccess::Put);
    }
    assert!(shadow.stack.len() <= 1);
}
