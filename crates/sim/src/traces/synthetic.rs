//! Synthetic traces for what public traces show too little of: popularity that moves, keys that die out, scans and
//! loops.
//!
//! An id is a page or a key. The same trace and scale give the same ids on every machine.

use std::io;
use std::str::FromStr;

use serde::Deserialize;

use super::access::TraceRequest;
use crate::rng::{SimRng, Zipf};

/// Keys of the traces that follow Zipf's law, at scale 1.
const KEYS: u64 = 40_000;

/// Requests of each trace, at scale 1.
const REQUESTS: u64 = 1_200_000;

/// How far the drift's centre moves. Between two moves pass this many requests to twice as many.
const MOVE: u64 = 15_000;
const MOVED_AFTER: u64 = 100_000;

/// After every this many requests a scan begins. It reads keys that nobody asked for before, nor will again.
const SCANNED_AFTER: u64 = 60_000;
const SCAN: u64 = 20_000;

/// Keys that the loop asks for in order, again and again.
const LOOP: u64 = 30_000;

/// Keys of a recorded popularity, at scale 1, and how often each is replaced by a new one in total.
const CHURNING: u64 = 100_000;
const CHURNS: u64 = 4;

/// A synthetic trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntheticTrace {
    /// Zipf's law (0.9) around a centre that moves now and then by more than a third of the keys.
    Drift,
    /// CacheLib's popularity of a key-value store. Every key is replaced by a new one four times.
    KvcacheC4,
    /// The same with the popularity of a social graph's leaders.
    GraphC4,
    /// Zipf's law (1.0) over two and a half times as many keys. Nothing moves.
    Zipf,
    /// Zipf's law (0.9), and a scan once over a third as many keys again.
    ZipfScan,
    /// The same keys in the same order, again and again.
    Loop,
}

/// No synthetic trace has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no synthetic trace; write {names}", names = SyntheticTrace::ALL.map(SyntheticTrace::name).join(", "))]
pub struct UnknownSyntheticTrace(pub String);

impl FromStr for SyntheticTrace {
    type Err = UnknownSyntheticTrace;

    fn from_str(name: &str) -> Result<SyntheticTrace, UnknownSyntheticTrace> {
        let found = SyntheticTrace::ALL
            .into_iter()
            .find(|made| made.name() == name);
        found.ok_or_else(|| UnknownSyntheticTrace(name.to_owned()))
    }
}

/// A trace's ids, one after another.
pub(crate) type TraceIds = Box<dyn Iterator<Item = u64>>;

impl SyntheticTrace {
    /// All of them.
    pub const ALL: [SyntheticTrace; 6] = [
        SyntheticTrace::Drift,
        SyntheticTrace::KvcacheC4,
        SyntheticTrace::GraphC4,
        SyntheticTrace::Zipf,
        SyntheticTrace::ZipfScan,
        SyntheticTrace::Loop,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            SyntheticTrace::Drift => "drift",
            SyntheticTrace::KvcacheC4 => "kvcache-c4",
            SyntheticTrace::GraphC4 => "graph-c4",
            SyntheticTrace::Zipf => "zipf-1.0",
            SyntheticTrace::ZipfScan => "zipf+scan",
            SyntheticTrace::Loop => "loop",
        }
    }

    /// The file of CacheLib's benchmark configurations that it needs, if it needs one.
    pub fn popularity(self) -> Option<&'static str> {
        match self {
            SyntheticTrace::KvcacheC4 => Some("kvcache_reg.pop.json"),
            SyntheticTrace::GraphC4 => Some("graph_cache_leader_fbobj.pop.json"),
            SyntheticTrace::Drift
            | SyntheticTrace::Zipf
            | SyntheticTrace::ZipfScan
            | SyntheticTrace::Loop => None,
        }
    }

    /// Its ids, with `scale` times as many keys and requests. `read` gets the name of the file of
    /// [`SyntheticTrace::popularity`].
    ///
    /// # Errors
    ///
    /// The file cannot be read, or holds no popularity.
    pub fn ids(
        self,
        scale: u64,
        read: impl FnOnce(&str) -> io::Result<Vec<u8>>,
    ) -> io::Result<TraceIds> {
        let scale = scale.max(1);
        let keys = KEYS * scale;
        let requests = REQUESTS * scale;
        let popularity = self
            .popularity()
            .map(|file| Popularity::parse(&read(file)?));
        let ids: TraceIds = match (self, popularity.transpose()?) {
            (SyntheticTrace::Drift, _) => Box::new(drift(scale)),
            (SyntheticTrace::ZipfScan, _) => Box::new(zipf_and_scan(scale)),
            (SyntheticTrace::Loop, _) => Box::new((0..).map(move |turn| turn % (LOOP * scale))),
            (_, Some(popularity)) => Box::new(churn(popularity, scale)),
            (_, None) => Box::new(zipf(keys * 5 / 2, 1.0)),
        };
        Ok(Box::new(ids.take(requests as usize)))
    }

    /// Its ids as reads of one page of a device.
    ///
    /// # Errors
    ///
    /// Those of [`SyntheticTrace::ids`].
    pub fn accesses(
        self,
        scale: u64,
        read: impl FnOnce(&str) -> io::Result<Vec<u8>>,
    ) -> io::Result<impl Iterator<Item = TraceRequest>> {
        Ok(self.ids(scale, read)?.map(TraceRequest::read_of_device))
    }
}

fn zipf(keys: u64, exponent: f64) -> impl Iterator<Item = u64> {
    let mut rng = SimRng::seeded(keys);
    let law = Zipf::of(keys, exponent);
    std::iter::repeat_with(move || law.draw(&mut rng))
}

/// The most popular key is the centre. Ranks lie to both sides of it in turn.
fn drift(scale: u64) -> impl Iterator<Item = u64> {
    let keys = KEYS * scale;
    let mut rng = SimRng::seeded(scale);
    let (mut centre, mut left) = (0, 0);
    zipf(keys, 0.9).map(move |rank| {
        if left == 0 {
            centre = (centre + MOVE * scale) % keys;
            left = (MOVED_AFTER + rng.below(MOVED_AFTER)) * scale;
        }
        left -= 1;
        let aside = rank.div_ceil(2);
        match rank % 2 {
            0 => (centre + aside) % keys,
            _ => (centre + keys - aside) % keys,
        }
    })
}

fn zipf_and_scan(scale: u64) -> impl Iterator<Item = u64> {
    let keys = KEYS * scale;
    let (period, scan) = ((SCANNED_AFTER + SCAN) * scale, SCAN * scale);
    let mut popular = zipf(keys, 0.9);
    let mut scanned = keys;
    (0..).map_while(move |turn: u64| {
        if turn % period < period - scan {
            return popular.next();
        }
        scanned += 1;
        Some(scanned - 1)
    })
}

/// The key of each rank is replaced [`CHURNS`] times, at different moments for each rank.
fn churn(popularity: Popularity, scale: u64) -> impl Iterator<Item = u64> {
    let keys = CHURNING * scale;
    let life = REQUESTS * scale / CHURNS;
    let mut rng = SimRng::seeded(keys);
    let mut once = keys * (CHURNS + 1);
    (0..).map(move |turn: u64| {
        if rng.happens(popularity.one_hits) {
            once += 1;
            return once - 1;
        }
        let rank = popularity.draw(keys, &mut rng);
        let born_at = crate::rng::mixed(rank) % life;
        rank + keys * ((turn + born_at) / life)
    })
}

/// How often keys are asked for, from one of CacheLib's records.
#[derive(Clone, Debug)]
struct Popularity {
    /// For each group of equal popularity: the keys up to its end, and the requests up to there.
    upto: Vec<(u64, u64)>,
    /// The share of requests for keys that are asked for once.
    one_hits: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PopularityJson {
    one_hits: f64,
    popularity_buckets: Vec<u64>,
    popularity_weights: Vec<u64>,
}

impl Popularity {
    /// Reads `{"oneHits": …, "popularityBuckets": […], "popularityWeights": […]}`.
    fn parse(json: &[u8]) -> io::Result<Popularity> {
        let written: PopularityJson = serde_json::from_slice(json)?;
        let groups = written
            .popularity_buckets
            .iter()
            .zip(&written.popularity_weights);
        let sum = |sum: &mut (u64, u64), (keys, requests): (&u64, &u64)| {
            *sum = (sum.0.checked_add(*keys)?, sum.1.checked_add(*requests)?);
            Some(*sum)
        };
        let upto: Vec<(u64, u64)> = groups.scan((0, 0), sum).collect();
        let is_whole = upto.len() == written.popularity_buckets.len()
            && upto.len() == written.popularity_weights.len();
        match upto.last() {
            Some((1.., 1..)) if is_whole => Ok(Popularity {
                upto,
                one_hits: written.one_hits,
            }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// One of `keys` keys, 0 the most popular. It stands for as many neighbouring ranks of the record.
    fn draw(&self, keys: u64, rng: &mut SimRng) -> u64 {
        let (recorded, requests) = self.upto.last().copied().unwrap_or((1, 1));
        let drawn = rng.below(requests);
        let group = self.upto.partition_point(|(_, upto)| *upto <= drawn);
        let from = group.checked_sub(1).map_or(0, |before| self.upto[before].0);
        let place = from * keys + rng.below((self.upto[group].0 - from) * keys);
        place / recorded
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn ids(made: SyntheticTrace) -> Vec<u64> {
        let popularity =
            br#"{"oneHits":0.1,"popularityBuckets":[1,9,990],"popularityWeights":[400,300,300]}"#;
        let ids = made.ids(1, |_| Ok(popularity.to_vec()));
        ids.expect("a popularity").collect()
    }

    fn count(ids: &[u64]) -> HashMap<u64, u64> {
        let mut counts = HashMap::new();
        ids.iter()
            .for_each(|id| *counts.entry(*id).or_default() += 1);
        counts
    }

    #[test]
    fn every_trace_has_its_name_and_its_length() {
        for made in SyntheticTrace::ALL {
            assert_eq!(made.name().parse(), Ok(made));
            assert_eq!(ids(made).len() as u64, REQUESTS);
        }
        assert!(
            "drifting"
                .parse::<SyntheticTrace>()
                .is_err_and(|e| e.to_string().contains("zipf+scan"))
        );
    }

    #[test]
    fn a_drift_leaves_what_was_popular() {
        let ids = ids(SyntheticTrace::Drift);
        let popular = |ids: &[u64]| count(ids).into_iter().max_by_key(|(_, count)| *count);
        let (first, often) = popular(&ids[..MOVED_AFTER as usize]).expect("requests");
        assert_eq!(first, MOVE);
        let later = &ids[2 * MOVED_AFTER as usize..][..MOVED_AFTER as usize];
        let still = count(later).get(&first).copied().unwrap_or(0);
        assert!(still < often / 50, "{still} of {often}");
        assert_eq!(count(&ids).len() as u64, KEYS);
    }

    #[test]
    fn scanned_keys_come_once() {
        let counts = count(&ids(SyntheticTrace::ZipfScan));
        let scanned = counts.iter().filter(|(id, _)| **id >= KEYS);
        assert!(scanned.clone().all(|(_, count)| *count == 1));
        assert_eq!(
            scanned.count() as u64,
            REQUESTS / (SCANNED_AFTER + SCAN) * SCAN
        );
    }

    #[test]
    fn a_recorded_popularity_keeps_its_shape_while_keys_churn() {
        let ids = ids(SyntheticTrace::KvcacheC4);
        let part = &ids[..ids.len() / CHURNS as usize / 10];
        let head = part
            .iter()
            .filter(|id| **id % CHURNING < CHURNING / 1000)
            .count();
        let share = head as f64 / part.len() as f64;
        assert!((share - 0.4 * 0.9).abs() < 0.02, "{share}");
        let mut of_rank: HashMap<u64, HashSet<u64>> = HashMap::new();
        for id in ids.iter().filter(|id| **id < CHURNING * (CHURNS + 1)) {
            of_rank
                .entry(id % CHURNING)
                .or_default()
                .insert(id / CHURNING);
        }
        let most_popular = (0..10).map(|rank| of_rank[&rank].len() as u64);
        assert!(
            most_popular
                .clone()
                .all(|keys| (CHURNS..=CHURNS + 1).contains(&keys))
        );
    }

    #[test]
    fn what_is_no_popularity_is_refused() {
        for json in [
            "{}",
            r#"{"oneHits":0,"popularityBuckets":[],"popularityWeights":[]}"#,
            r#"{"oneHits":0,"popularityBuckets":[1],"popularityWeights":[1,2]}"#,
            r#"{"oneHits":0,"popularityBuckets":[1],"popularityWeights":[0]}"#,
        ] {
            assert!(Popularity::parse(json.as_bytes()).is_err(), "{json}");
        }
    }
}
