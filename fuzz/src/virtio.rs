//! A guest that writes arbitrary bytes into its descriptors and headers.

use sublet_frontends::block_device::DiskShape;
use sublet_frontends::vhost_user::wire::chain::{
    ChainError, DESCRIPTOR_BYTES, DESCRIPTORS_MAX, DescriptorChain, DescriptorTable, Segment,
    WALK_MAX, subrange, total_bytes,
};
use sublet_frontends::vhost_user::wire::request::{
    self, BufferSizes, DiscardWriteZeroes, HEADER_BYTES, RANGE_BYTES, VirtioBlkRequest,
};

/// The number of places in the queue.
const PLACES: u16 = 16;

/// Follows the chain that the first byte names, through a memory that is the rest of the input, and parses what it
/// finds there. The walk must end within its bounds, and ask for nothing beyond the disk.
pub fn run(input: &[u8]) {
    let Some((head, memory)) = input.split_first() else {
        return;
    };
    let table = DescriptorTable {
        at: 0,
        count: PLACES,
    };
    let mut chain = DescriptorChain::default();
    let mut fetched = 0;
    let followed = chain.follow(table, u16::from(*head % (PLACES + 1) as u8), |at| {
        fetched += 1;
        bytes_at(memory, at)
    });
    assert!(fetched <= WALK_MAX + 1, "{fetched} descriptors read");
    match followed {
        Err(ChainError::OutOfTable(index)) => assert!(index >= 1),
        Err(_) => {}
        Ok(_) if !chain.is_sound() => {}
        Ok(_) => parse_request(&chain, memory),
    }
}

fn bytes_at(memory: &[u8], at: u64) -> Option<[u8; 16]> {
    let at = usize::try_from(at).ok()?;
    let end = at.checked_add(DESCRIPTOR_BYTES as usize)?;
    memory.get(at..end)?.try_into().ok()
}

fn parse_request(chain: &DescriptorChain, memory: &[u8]) {
    let parts = chain.readable().len() + chain.writable().len();
    assert!((1..=DESCRIPTORS_MAX).contains(&parts));
    let (readable, writable) = (total_bytes(chain.readable()), total_bytes(chain.writable()));
    let (Some(readable), Some(writable)) =
        (readable.checked_sub(HEADER_BYTES), writable.checked_sub(1))
    else {
        return;
    };
    let shape = DiskShape {
        bytes: 1 << 30,
        read_only: writable % 7 == 3,
        trims: readable % 2 == 0,
    };
    let sizes = BufferSizes { readable, writable };
    let header = gather(subrange(chain.readable(), 0, HEADER_BYTES), memory);
    let range = gather(
        subrange(chain.readable(), HEADER_BYTES, RANGE_BYTES),
        memory,
    );
    let Ok(asked) = request::parse(header, sizes, &shape) else {
        return;
    };
    let is_on_disk = |at: u64, len: u64| at.checked_add(len).is_some_and(|end| end <= shape.bytes);
    let lies_well = |range: DiscardWriteZeroes| is_on_disk(range.at, range.len);
    match asked {
        VirtioBlkRequest::Read { at, len } => {
            assert!(is_on_disk(at, u64::from(len)) && u64::from(len) == writable);
        }
        VirtioBlkRequest::Write { at, len } => {
            assert!(!shape.read_only && is_on_disk(at, u64::from(len)));
            assert_eq!(u64::from(len), readable);
        }
        VirtioBlkRequest::Discard => {
            assert!(request::discard(range, &shape).map_or(true, lies_well))
        }
        VirtioBlkRequest::WriteZeroes => {
            assert!(request::zeroes(range, &shape).map_or(true, lies_well))
        }
        VirtioBlkRequest::Flush | VirtioBlkRequest::GetId => {}
    }
}

/// Sixteen bytes from segments. Bytes without memory are zero.
fn gather(segments: impl Iterator<Item = Segment>, memory: &[u8]) -> [u8; 16] {
    let places = segments.flat_map(|segment| segment.at..segment.at + u64::from(segment.len));
    let mut bytes = [0; 16];
    for (byte, place) in bytes.iter_mut().zip(places) {
        *byte = usize::try_from(place)
            .ok()
            .and_then(|place| memory.get(place).copied())
            .unwrap_or(0);
    }
    bytes
}
