//! What the guest's driver sees of a disk: features, and the config space.

use std::sync::atomic::{AtomicU8, Ordering};

use virtio_bindings::virtio_blk as blk;
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};

use super::request::{DISCARD_SECTORS_MAX, ZEROES_SECTORS_MAX};
use crate::block::{SECTOR_BYTES, Shape};

/// The vhost-user feature bit that says that there are protocol features.
pub const PROTOCOL_FEATURES: u64 = 1 << 30;

/// Data segments of one request; with header and status they fit a queue of 128 without indirect tables.
pub(crate) const SEGMENTS_MAX: u32 = 126;

/// Bytes of one segment, so that a request is never over [`crate::block::REQUEST_BYTES_MAX`].
pub(crate) const SEGMENT_BYTES_MAX: u32 = 256 << 10;

/// Bytes of the config space that mean something here.
const CONFIG_BYTES: usize = 60;

/// Where the config space says whether writes may be cached.
const WCE_AT: usize = 32;

/// A page, in sectors: what requests should keep to.
const PAGE_SECTORS: u32 = 8;

/// The features of a disk of this shape. `config_wce`: the guest may say whether writes are cached.
pub fn features(shape: &Shape, config_wce: bool) -> u64 {
    let always = [
        VIRTIO_F_VERSION_1,
        VIRTIO_RING_F_INDIRECT_DESC,
        VIRTIO_RING_F_EVENT_IDX,
        blk::VIRTIO_BLK_F_SEG_MAX,
        blk::VIRTIO_BLK_F_SIZE_MAX,
        blk::VIRTIO_BLK_F_BLK_SIZE,
        blk::VIRTIO_BLK_F_TOPOLOGY,
        blk::VIRTIO_BLK_F_FLUSH,
        blk::VIRTIO_BLK_F_MQ,
    ];
    let mut features = always
        .iter()
        .fold(PROTOCOL_FEATURES, |all, bit| all | 1 << bit);
    if config_wce {
        features |= 1 << blk::VIRTIO_BLK_F_CONFIG_WCE;
    }
    match shape.read_only {
        true => features |= 1 << blk::VIRTIO_BLK_F_RO,
        false => features |= 1 << blk::VIRTIO_BLK_F_WRITE_ZEROES,
    }
    if shape.trims && !shape.read_only {
        features |= 1 << blk::VIRTIO_BLK_F_DISCARD;
    }
    features
}

/// The config space's bytes `offset..offset + len`; zeroes where it means nothing.
pub fn config(shape: &Shape, queues: u16, wce: u8, offset: usize, len: usize) -> Vec<u8> {
    let mut space = [0; CONFIG_BYTES];
    let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(shape.bytes / SECTOR_BYTES).to_le_bytes());
    put(8, &SEGMENT_BYTES_MAX.to_le_bytes());
    put(12, &SEGMENTS_MAX.to_le_bytes());
    put(20, &(SECTOR_BYTES as u32).to_le_bytes());
    // Physical blocks of 2^3 sectors, none of them shifted; requests are best of whole ones.
    put(24, &[3, 0]);
    put(26, &(PAGE_SECTORS as u16).to_le_bytes());
    put(28, &PAGE_SECTORS.to_le_bytes());
    put(WCE_AT, &[wce]);
    put(34, &queues.to_le_bytes());
    put(36, &DISCARD_SECTORS_MAX.to_le_bytes());
    put(40, &1u32.to_le_bytes());
    put(44, &PAGE_SECTORS.to_le_bytes());
    put(48, &ZEROES_SECTORS_MAX.to_le_bytes());
    put(52, &1u32.to_le_bytes());
    put(56, &[1]);
    let there = space.iter().copied().skip(offset);
    there.chain(std::iter::repeat(0)).take(len).collect()
}

/// Whether the guest lets writes be cached: if not, each is answered when it lasts.
///
/// The guest says so in the config space, and a daemon that was started anew has not heard it. It believes nothing then:
/// every write lasts until the guest sends a flush, which one that thinks its writes last never does.
#[derive(Debug)]
pub(crate) struct Caching(AtomicU8);

const THROUGH: u8 = 0;
const BACK: u8 = 1;
const UNHEARD: u8 = 2;
const UNKNOWN: u8 = 3;

impl Default for Caching {
    fn default() -> Caching {
        Caching(AtomicU8::new(UNHEARD))
    }
}

impl Caching {
    /// The byte of the config space.
    pub(crate) fn byte(&self) -> u8 {
        u8::from(self.0.load(Ordering::Relaxed) != THROUGH)
    }

    /// The guest writes to the config space.
    ///
    /// # Errors
    ///
    /// Only this byte can be written to. Whatever is not 0 has writes cached, as the specification knows no third.
    pub(crate) fn set(&self, offset: usize, bytes: &[u8]) -> Result<(), NotWritable> {
        match (offset, bytes) {
            (WCE_AT, [byte]) => {
                let said = if *byte == THROUGH { THROUGH } else { BACK };
                self.0.store(said, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(NotWritable),
        }
    }

    /// A queue goes on where another process stopped.
    pub(crate) fn goes_on(&self) {
        let _ = self
            .0
            .compare_exchange(UNHEARD, UNKNOWN, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The guest sent a flush.
    pub(crate) fn flushed(&self) {
        if self.0.load(Ordering::Relaxed) == UNKNOWN {
            let _ = self
                .0
                .compare_exchange(UNKNOWN, BACK, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether a write has to last before it is answered, for a driver that took these features.
    pub(crate) fn must_last(&self, features: u64) -> bool {
        let has = |bit: u32| features & (1 << bit) != 0;
        match self.0.load(Ordering::Relaxed) {
            _ if !has(blk::VIRTIO_BLK_F_FLUSH) => true,
            THROUGH | UNKNOWN => has(blk::VIRTIO_BLK_F_CONFIG_WCE),
            _ => false,
        }
    }
}

/// The guest wrote to a part of the config space that cannot be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("only the write-cache byte of the config space can be written to, with 0 or 1")]
pub(crate) struct NotWritable;

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        bytes: 8 << 20,
        read_only: false,
        trims: true,
    };
    const ALL: u64 = u64::MAX;

    #[test]
    fn features_follow_the_shape() {
        let has = |shape: &Shape, bit: u32| features(shape, true) & (1 << bit) != 0;
        let fixed = Shape {
            read_only: true,
            ..SHAPE
        };
        let kept = Shape {
            trims: false,
            ..SHAPE
        };
        assert!(has(&fixed, blk::VIRTIO_BLK_F_RO) && !has(&SHAPE, blk::VIRTIO_BLK_F_RO));
        assert!(features(&SHAPE, false) & (1 << blk::VIRTIO_BLK_F_CONFIG_WCE) == 0);
        assert!(has(&SHAPE, blk::VIRTIO_BLK_F_DISCARD));
        assert!(!has(&fixed, blk::VIRTIO_BLK_F_DISCARD) && !has(&kept, blk::VIRTIO_BLK_F_DISCARD));
        assert!(
            has(&kept, blk::VIRTIO_BLK_F_WRITE_ZEROES)
                && !has(&fixed, blk::VIRTIO_BLK_F_WRITE_ZEROES)
        );
    }

    #[test]
    fn the_config_space_agrees_with_the_protocol_s_layout() {
        let bytes = config(&SHAPE, 4, 1, 0, 96);
        assert_eq!(bytes.len(), 96);
        assert_eq!(bytes[..8], 16384u64.to_le_bytes());
        assert_eq!(bytes[20..24], 512u32.to_le_bytes());
        assert_eq!((bytes[24], bytes[32], bytes[34], bytes[56]), (3, 1, 4, 1));
        assert_eq!(config(&SHAPE, 4, 1, 32, 4), bytes[32..36]);
        assert_eq!(config(&SHAPE, 4, 1, 4000, 3), [0, 0, 0]);
        assert_eq!(std::mem::offset_of!(blk::virtio_blk_config, wce), WCE_AT);
        assert_eq!(std::mem::offset_of!(blk::virtio_blk_config, num_queues), 34);
        assert_eq!(
            std::mem::offset_of!(blk::virtio_blk_config, write_zeroes_may_unmap),
            56
        );
    }

    #[test]
    fn writes_last_when_the_guest_wants_it_or_may_have_said_so() {
        let caching = Caching::default();
        assert!(!caching.must_last(ALL));
        assert!(
            caching.must_last(ALL & !(1 << blk::VIRTIO_BLK_F_FLUSH)),
            "it can never flush"
        );
        caching.set(WCE_AT, &[0]).expect("writable");
        assert!(caching.must_last(ALL));
        caching.flushed();
        assert!(caching.must_last(ALL), "it was said");
        assert_eq!(caching.set(0, &[1]), Err(NotWritable));
        assert_eq!(caching.set(WCE_AT, &[2]), Ok(()));
        assert_eq!(caching.byte(), 1);

        let anew = Caching::default();
        anew.goes_on();
        assert!(
            anew.must_last(ALL),
            "perhaps it was said to another process"
        );
        anew.flushed();
        assert!(!anew.must_last(ALL), "who flushes caches");
    }
}
