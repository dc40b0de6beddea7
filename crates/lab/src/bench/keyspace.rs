//! The keys and values of a bench. Each key has one value, so that every reply can be checked.

use std::io::Write;

use sublet_sim::rng::SimRng;

/// Different values begin at this many different places of one block of noise.
const NOISE_SHIFTS: usize = 4096;

/// Keys of one length, with values of one length.
pub(super) struct Keyspace {
    key_bytes: usize,
    value_bytes: usize,
    noise: Vec<u8>,
}

impl Keyspace {
    /// Makes a keyspace. Keys have at least 12 bytes.
    pub(super) fn new(key_bytes: usize, value_bytes: usize) -> Keyspace {
        let mut rng = SimRng::seeded(value_bytes as u64);
        Keyspace {
            key_bytes,
            value_bytes,
            noise: (0..value_bytes + NOISE_SHIFTS)
                .map(|_| b'!' + rng.below(90) as u8)
                .collect(),
        }
    }

    /// Bytes of a key and its value.
    pub(super) fn item_bytes(&self) -> usize {
        self.key_bytes + self.value_bytes
    }

    /// Appends key number `key` to `out`.
    pub(super) fn put_key(&self, key: u32, out: &mut Vec<u8>) {
        // A write to a Vec cannot fail.
        let _ = write!(out, "k{key:0width$}", width = self.key_bytes - 1);
    }

    /// The value of key number `key`.
    pub(super) fn value(&self, key: u32) -> &[u8] {
        let from = key as usize * 61 % NOISE_SHIFTS;
        &self.noise[from..from + self.value_bytes]
    }

    /// Appends the request that sets key number `key`.
    pub(super) fn put_set(&self, key: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(b"set ");
        self.put_key(key, out);
        let _ = write!(out, " 0 0 {}\r\n", self.value_bytes);
        out.extend_from_slice(self.value(key));
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the request that gets key number `key`.
    pub(super) fn put_get(&self, key: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(b"get ");
        self.put_key(key, out);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the reply to a hit of key number `key`.
    pub(super) fn put_hit(&self, key: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(b"VALUE ");
        self.put_key(key, out);
        let _ = write!(out, " 0 {}\r\n", self.value_bytes);
        out.extend_from_slice(self.value(key));
        out.extend_from_slice(b"\r\nEND\r\n");
    }

    /// Bytes of the reply to a hit.
    pub(super) fn hit_bytes(&self) -> usize {
        let mut hit = Vec::new();
        self.put_hit(0, &mut hit);
        hit.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_memcached_s() {
        let keys = Keyspace::new(30, 5);
        let value = String::from_utf8_lossy(keys.value(7)).into_owned();
        let key = "k00000000000000000000000000007";
        let mut set = Vec::new();
        keys.put_set(7, &mut set);
        assert_eq!(set, format!("set {key} 0 0 5\r\n{value}\r\n").into_bytes());
        let mut hit = Vec::new();
        keys.put_hit(7, &mut hit);
        let expected = format!("VALUE {key} 0 5\r\n{value}\r\nEND\r\n");
        assert_eq!(hit, expected.into_bytes());
        assert_eq!(hit.len(), keys.hit_bytes());
        assert_ne!(keys.value(7), keys.value(8), "values tell keys apart");
    }
}
