//! A guest that writes what it likes into its descriptors and headers.

use sublet_frontends::block::Shape;
use sublet_frontends::vhost_user::wire::chain::{
    Broken, Chain, DESCRIPTOR_BYTES, DESCRIPTORS_MAX, Segment, Table, WALK_MAX, bytes_of, cut,
};
use sublet_frontends::vhost_user::wire::request::{self, Asked, HEADER_BYTES, RANGE_BYTES, Range, Sizes};

/// Places of the queue.
const PLACES: u16 = 16;

/// Follows the chain that the first byte names, through a memory that is the rest of the input, and understands what it
/// finds there: whatever that is, the walk ends within its bounds, and nothing beyond the disk is asked for.
pub fn wander(input: &[u8]) {
    let Some((head, memory)) = input.split_first() else {
        return;
    };
    let table = Table {
        at: 0,
        count: PLACES,
    };
    let mut chain = Chain::default();
    let mut fetched = 0;
    let followed = chain.follow(table, u16::from(*head % (PLACES + 1) as u8), |at| {
        fetched += 1;
        bytes_at(memory, at)
    });
    assert!(fetched <= WALK_MAX + 1, "{fetched} descriptors read");
    match followed {
        Err(Broken::OutOfTable(index)) => assert!(index >= 1),
        Err(_) => {}
        Ok(_) if !chain.is_sound() => {}
        Ok(_) => understand(&chain, memory),
    }
}

fn bytes_at(memory: &[u8], at: u64) -> Option<[u8; 16]> {
    let at = usize::try_from(at).ok()?;
    let end = at.checked_add(DESCRIPTOR_BYTES as usize)?;
    memory.get(at..end)?.try_into().ok()
}

fn understand(chain: &Chain, memory: &[u8]) {
    let parts = chain.readable().len() + chain.writable().len();
    assert!((1..=DESCRIPTORS_MAX).contains(&parts));
    let (readable, writable) = (bytes_of(chain.readable()), bytes_of(chain.writable()));
    let (Some(readable), Some(writable)) =
        (readable.checked_sub(HEADER_BYTES), writable.checked_sub(1))
    else {
        return;
    };
    let shape = Shape {
        bytes: 1 << 30,
        read_only: writable % 7 == 3,
        trims: readable % 2 == 0,
    };
    let sizes = Sizes { readable, writable };
    let header = gather(cut(chain.readable(), 0, HEADER_BYTES), memory);
    let range = gather(cut(chain.readable(), HEADER_BYTES, RANGE_BYTES), memory);
    let Ok(asked) = request::parse(header, sizes, &shape) else {
        return;
    };
    let is_on_disk = |at: u64, len: u64| at.checked_add(len).is_some_and(|end| end <= shape.bytes);
    let lies_well = |range: Range| is_on_disk(range.at, range.len);
    match asked {
        Asked::Read { at, len } => {
            assert!(is_on_disk(at, u64::from(len)) && u64::from(len) == writable);
        }
        Asked::Write { at, len } => {
            assert!(!shape.read_only && is_on_disk(at, u64::from(len)));
            assert_eq!(u64::from(len), readable);
        }
        Asked::Discard => assert!(request::discard(range, &shape).map_or(true, lies_well)),
        Asked::Zeroes => assert!(request::zeroes(range, &shape).map_or(true, lies_well)),
        Asked::Flush | Asked::Name => {}
    }
}

/// Sixteen bytes out of segments; zero where there is no memory.
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
