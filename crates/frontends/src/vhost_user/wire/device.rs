//! What the guest's driver sees of a disk: its features and its config space.

use std::sync::atomic::{AtomicU8, Ordering};

use virtio_bindings::virtio_blk as blk;
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};

use super::request::{DISCARD_SECTORS_MAX, ZEROES_SECTORS_MAX};
use crate::block_device::{DiskShape, Fua, SECTOR_BYTES};

/// The vhost-user feature bit that announces protocol features.
pub const PROTOCOL_FEATURES: u64 = 1 << 30;

/// The most data segments of one request. With header and status they fit a queue of 128 without indirect tables.
pub(crate) const SEGMENTS_MAX: u32 = 126;

/// The most bytes of one segment, so that a request never exceeds [`crate::block_device::REQUEST_BYTES_MAX`].
pub(crate) const SEGMENT_BYTES_MAX: u32 = 256 << 10;

/// Bytes of the config space that this device defines.
const CONFIG_BYTES: usize = 60;

/// The offset in the config space of the byte that says whether writes may be cached.
const WCE_AT: usize = 32;

/// A page in sectors, which requests should align to.
const PAGE_SECTORS: u32 = 8;

/// Whether the guest may turn write caching off (VIRTIO_BLK_F_CONFIG_WCE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCacheControl {
    /// The guest may turn it off.
    Offered,
    /// The guest may not turn it off.
    Withheld,
}

/// The features that a disk of this shape offers.
pub fn features(shape: &DiskShape, control: WriteCacheControl) -> u64 {
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
    if control == WriteCacheControl::Offered {
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

/// Bytes `offset..offset + len` of the config space. Undefined bytes are zero.
pub fn config(shape: &DiskShape, queues: u16, wce: u8, offset: usize, len: usize) -> Vec<u8> {
    let mut space = [0; CONFIG_BYTES];
    let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(shape.bytes / SECTOR_BYTES).to_le_bytes());
    put(8, &SEGMENT_BYTES_MAX.to_le_bytes());
    put(12, &SEGMENTS_MAX.to_le_bytes());
    put(20, &(SECTOR_BYTES as u32).to_le_bytes());
    // Physical blocks have 2^3 sectors and no offset. Requests should consist of whole blocks.
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

/// Whether the guest allows cached writes. If it does not, each write is answered only when it is durable.
///
/// The guest says so in the config space. A daemon that was started anew has not heard it, so it assumes nothing: every
/// write is durable before its answer, until the guest sends a flush. A guest that believes its writes to be durable
/// never sends one.
#[derive(Debug)]
pub(crate) struct WriteCache(AtomicU8);

const THROUGH: u8 = 0;
const BACK: u8 = 1;
const NOT_SET: u8 = 2;
const UNKNOWN: u8 = 3;

impl Default for WriteCache {
    fn default() -> WriteCache {
        WriteCache(AtomicU8::new(NOT_SET))
    }
}

impl WriteCache {
    /// The write-cache byte of the config space.
    pub(crate) fn wce(&self) -> u8 {
        u8::from(self.0.load(Ordering::Relaxed) != THROUGH)
    }

    /// The guest wrote to the config space.
    ///
    /// # Errors
    ///
    /// The guest may write only this byte. Every value but 0 allows cached writes, because the specification knows no
    /// third meaning.
    pub(crate) fn set(&self, offset: usize, bytes: &[u8]) -> Result<(), NotWritable> {
        match (offset, bytes) {
            (WCE_AT, [byte]) => {
                let state = if *byte == THROUGH { THROUGH } else { BACK };
                self.0.store(state, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(NotWritable),
        }
    }

    /// A queue continues where another process stopped.
    pub(crate) fn assume_unknown(&self) {
        let _ = self
            .0
            .compare_exchange(NOT_SET, UNKNOWN, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The guest sent a flush.
    pub(crate) fn note_flush(&self) {
        if self.0.load(Ordering::Relaxed) == UNKNOWN {
            let _ = self
                .0
                .compare_exchange(UNKNOWN, BACK, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Returns whether a write must be durable before it is answered, for a driver that accepted these features.
    pub(crate) fn fua(&self, features: u64) -> Fua {
        let has = |bit: u32| features & (1 << bit) != 0;
        match self.0.load(Ordering::Relaxed) {
            _ if !has(blk::VIRTIO_BLK_F_FLUSH) => Fua::On,
            THROUGH | UNKNOWN if has(blk::VIRTIO_BLK_F_CONFIG_WCE) => Fua::On,
            _ => Fua::Off,
        }
    }
}

/// The guest wrote to a read-only part of the config space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("only the write-cache byte of the config space can be written to, with 0 or 1")]
pub(crate) struct NotWritable;

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: DiskShape = DiskShape {
        bytes: 8 << 20,
        read_only: false,
        trims: true,
    };
    const ALL: u64 = u64::MAX;

    #[test]
    fn features_follow_the_shape() {
        let has = |shape: &DiskShape, bit: u32| {
            features(shape, WriteCacheControl::Offered) & (1 << bit) != 0
        };
        let fixed = DiskShape {
            read_only: true,
            ..SHAPE
        };
        let kept = DiskShape {
            trims: false,
            ..SHAPE
        };
        assert!(has(&fixed, blk::VIRTIO_BLK_F_RO) && !has(&SHAPE, blk::VIRTIO_BLK_F_RO));
        assert!(
            features(&SHAPE, WriteCacheControl::Withheld) & (1 << blk::VIRTIO_BLK_F_CONFIG_WCE)
                == 0
        );
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
        let cache = WriteCache::default();
        assert_eq!(cache.fua(ALL), Fua::Off);
        assert_eq!(
            cache.fua(ALL & !(1 << blk::VIRTIO_BLK_F_FLUSH)),
            Fua::On,
            "it can never flush"
        );
        cache.set(WCE_AT, &[0]).expect("writable");
        assert_eq!(cache.fua(ALL), Fua::On);
        cache.note_flush();
        assert_eq!(cache.fua(ALL), Fua::On, "it was said");
        assert_eq!(cache.set(0, &[1]), Err(NotWritable));
        assert_eq!(cache.set(WCE_AT, &[2]), Ok(()));
        assert_eq!(cache.wce(), 1);

        let anew = WriteCache::default();
        anew.assume_unknown();
        assert_eq!(
            anew.fua(ALL),
            Fua::On,
            "perhaps it was said to another process"
        );
        anew.note_flush();
        assert_eq!(anew.fua(ALL), Fua::Off, "who flushes caches");
    }
}
