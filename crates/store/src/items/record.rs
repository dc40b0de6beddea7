//! An item as bytes in a block.
//!
//! ```text
//!  ┌────────────────────────────────┬────────┬──────────┬─────────┬───────┬─────┬───────┐
//!  │ head, 4 bytes                  │ marks  │ expiry   │ flags   │ cas   │ key │ value │
//!  │ key len 8 │ value len 20 │ 4   │ 0 or 1 │ 0 or 4   │ 0 or 4  │ 0 or 8│     │       │
//!  └────────────────────────────────┴────────┴──────────┴─────────┴───────┴─────┴───────┘
//!   the head's 4 bits say which of the optional fields are there
//! ```
//!
//! Records are packed without padding and never change once published: a change is a new record.

use sublet_types::{Expiry, Second};

use crate::api::Marks;
use crate::arena::LiveAmount;

/// Bytes of a head.
pub(crate) const HEAD_BYTES: usize = 4;

const VALUE_SHIFT: u32 = 8;
const VALUE_BITS: u32 = 20;
const HAS_MARKS: u32 = 1 << 28;
const HAS_EXPIRY: u32 = 1 << 29;
const HAS_FLAGS: u32 = 1 << 30;
const HAS_CAS: u32 = 1 << 31;

/// The longest value of one record, bytes.
pub(crate) const VALUE_MAX: usize = (1 << VALUE_BITS) - 1;

/// The role of a record in the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// A client's item with its value.
    #[default]
    Plain,
    /// A client's item whose value is in chunks. Its own value names them.
    Large,
    /// A chunk of a large item.
    Chunk,
}

impl Role {
    /// The number of client items that it counts as.
    pub(crate) fn items(self) -> u32 {
        u32::from(self != Role::Chunk)
    }
}

/// A record before it is written, or after it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordFields<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) role: Role,
    pub(crate) marks: Marks,
    pub(crate) expiry: Expiry,
    pub(crate) flags: u32,
    /// The cas unique, if the record's place does not imply it.
    pub(crate) cas: Option<u64>,
}

impl RecordFields<'_> {
    /// Length of a record with a value of `value_len` bytes.
    pub(crate) fn record_len(&self, value_len: usize) -> usize {
        HEAD_BYTES + self.options_len() + self.key.len() + value_len
    }

    /// What a record with a value of `value_len` bytes adds to its block.
    pub(crate) fn live_amount(&self, value_len: usize) -> LiveAmount {
        LiveAmount {
            items: self.role.items(),
            bytes: self.record_len(value_len) as u32,
        }
    }

    fn options_len(&self) -> usize {
        let marks = usize::from(self.marks_byte() != 0);
        let expiry = if self.expiry == Expiry::Never { 0 } else { 4 };
        let flags = if self.flags == 0 { 0 } else { 4 };
        let cas = if self.cas.is_none() { 0 } else { 8 };
        marks + expiry + flags + cas
    }

    fn marks_byte(&self) -> u8 {
        let role = match self.role {
            Role::Plain => 0,
            Role::Large => 8,
            Role::Chunk => 16,
        };
        u8::from(self.marks.stale)
            | u8::from(self.marks.token_sent) << 1
            | u8::from(self.marks.binary_key) << 2
            | role
    }

    /// Writes the record into `range`, which is `record_len` long.
    pub(crate) fn write(&self, value: &[&[u8]], value_len: usize, range: &mut [u8]) {
        debug_assert!(self.key.len() <= u8::MAX as usize && value_len <= VALUE_MAX);
        let mut head = self.key.len() as u32 | (value_len as u32) << VALUE_SHIFT;
        let mut writer = RecordWriter {
            range,
            at: HEAD_BYTES,
        };
        let marks = self.marks_byte();
        if marks != 0 {
            head |= HAS_MARKS;
            writer.put(&[marks]);
        }
        if let Expiry::At(second) = self.expiry {
            head |= HAS_EXPIRY;
            writer.put(&second.0.to_le_bytes());
        }
        if self.flags != 0 {
            head |= HAS_FLAGS;
            writer.put(&self.flags.to_le_bytes());
        }
        if let Some(cas) = self.cas {
            head |= HAS_CAS;
            writer.put(&cas.to_le_bytes());
        }
        writer.put(self.key);
        for piece in value {
            writer.put(piece);
        }
        writer.range[..HEAD_BYTES].copy_from_slice(&head.to_le_bytes());
    }
}

struct RecordWriter<'a> {
    range: &'a mut [u8],
    at: usize,
}

impl RecordWriter<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.range[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

/// A head, which says how long the record is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordHead(u32);

impl RecordHead {
    pub(crate) fn read(bytes: [u8; HEAD_BYTES]) -> RecordHead {
        RecordHead(u32::from_le_bytes(bytes))
    }

    fn has(self, option: u32) -> usize {
        usize::from(self.0 & option != 0)
    }

    fn options_len(self) -> usize {
        self.has(HAS_MARKS)
            + 4 * self.has(HAS_EXPIRY)
            + 4 * self.has(HAS_FLAGS)
            + 8 * self.has(HAS_CAS)
    }

    fn key_len(self) -> usize {
        (self.0 & 0xff) as usize
    }

    fn value_len(self) -> usize {
        ((self.0 >> VALUE_SHIFT) & VALUE_MAX as u32) as usize
    }

    /// Length of the whole record, head included.
    pub(crate) fn record_len(self) -> usize {
        HEAD_BYTES + self.options_len() + self.key_len() + self.value_len()
    }

    /// Returns whether the record's key is `key`, judged by `rest`, the bytes after the head.
    pub(crate) fn has_key(self, rest: &[u8], key: &[u8]) -> bool {
        let begin = self.options_len();
        self.key_len() == key.len() && rest.get(begin..begin + key.len()) == Some(key)
    }
}

/// A record that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) fields: RecordFields<'a>,
    pub(crate) value: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads a whole record; `bytes` begins with its head and is as long as the head says.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Record<'a>> {
        let (head, mut rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let head = RecordHead::read(*head);
        let mut marks = 0;
        if head.has(HAS_MARKS) == 1 {
            let (first, after) = rest.split_first()?;
            (marks, rest) = (*first, after);
        }
        let expiry = match take_u32(&mut rest, head.has(HAS_EXPIRY))? {
            Some(second) => Expiry::At(Second(second)),
            None => Expiry::Never,
        };
        let flags = take_u32(&mut rest, head.has(HAS_FLAGS))?.unwrap_or(0);
        let mut cas = None;
        if head.has(HAS_CAS) == 1 {
            let (first, after) = rest.split_first_chunk::<8>()?;
            (cas, rest) = (Some(u64::from_le_bytes(*first)), after);
        }
        let (key, rest) = rest.split_at_checked(head.key_len())?;
        let role = match marks & 24 {
            8 => Role::Large,
            16 => Role::Chunk,
            _ => Role::Plain,
        };
        let fields = RecordFields {
            key,
            role,
            marks: Marks {
                stale: marks & 1 != 0,
                token_sent: marks & 2 != 0,
                binary_key: marks & 4 != 0,
            },
            expiry,
            flags,
            cas,
        };
        Some(Record {
            fields,
            value: rest.get(..head.value_len())?,
        })
    }

    /// What it adds to its block.
    pub(crate) fn live_amount(&self) -> LiveAmount {
        self.fields.live_amount(self.value.len())
    }

    /// Its length in its block.
    pub(crate) fn len(&self) -> usize {
        self.fields.record_len(self.value.len())
    }
}

fn take_u32(rest: &mut &[u8], count: usize) -> Option<Option<u32>> {
    if count == 0 {
        return Some(None);
    }
    let (first, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(Some(u32::from_le_bytes(*first)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(key: &[u8]) -> RecordFields<'_> {
        RecordFields {
            key,
            role: Role::Plain,
            marks: Marks::default(),
            expiry: Expiry::Never,
            flags: 0,
            cas: None,
        }
    }

    #[test]
    fn a_plain_item_costs_four_bytes_besides_key_and_value() {
        assert_eq!(fields(&[b'k'; 30]).record_len(100), 134);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            key in proptest::collection::vec(any::<u8>(), 1..=250),
            value in proptest::collection::vec(any::<u8>(), 0..2000),
            split in 0usize..2000,
            expiry in proptest::option::of(any::<u32>()),
            flags in any::<u32>(),
            cas in proptest::option::of(any::<u64>()),
            bits in 0u8..8,
            role in 0u8..3,
        ) {
            let fields = RecordFields {
                role: [Role::Plain, Role::Large, Role::Chunk][role as usize],
                marks: Marks { stale: bits & 1 != 0, token_sent: bits & 2 != 0, binary_key: bits & 4 != 0 },
                expiry: expiry.map_or(Expiry::Never, |s| Expiry::At(Second(s))),
                flags,
                cas,
                ..fields(&key)
            };
            let (first, second) = value.split_at(split.min(value.len()));
            let mut range = vec![0; fields.record_len(value.len())];
            fields.write(&[first, second], value.len(), &mut range);
            let head = RecordHead::read(*range.first_chunk().expect("a head"));
            prop_assert_eq!(head.record_len(), range.len());
            prop_assert!(head.has_key(&range[HEAD_BYTES..], &key));
            let record = Record::read(&range).expect("a record");
            prop_assert_eq!(record.fields, fields);
            prop_assert_eq!(record.value, &value[..]);
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Record::read(&bytes);
        }
    }
}
