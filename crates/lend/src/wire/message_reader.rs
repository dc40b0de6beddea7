//! Collects the part of a message before its pages, and believes nothing of it before its code is checked.

use super::fields::field;
use super::head::{MessageHead, MessageKind};
use super::hello::ConnectionClass;
use super::limits::{HEAD_BYTES, MAC_BYTES, REQUEST_BYTES_MAX};
use super::message_mac::MessageMac;
use super::sequence::ReplayGuard;
use super::session_keys::MacKey;
use super::wire_error::WireError;

/// The reader of one direction of a data connection.
#[derive(Debug)]
pub(super) struct MessageReader {
    class: ConnectionClass,
    kind: MessageKind,
    mac: MessageMac,
    tags: ReplayGuard,
    bytes: [u8; REQUEST_BYTES_MAX],
    filled: usize,
}

impl MessageReader {
    /// A reader of messages of this kind alone, on a connection of this class.
    pub(super) fn new(class: ConnectionClass, kind: MessageKind, key: MacKey) -> MessageReader {
        MessageReader {
            class,
            kind,
            mac: MessageMac::new(key),
            tags: ReplayGuard::default(),
            bytes: [0; REQUEST_BYTES_MAX],
            filled: 0,
        }
    }

    /// Takes bytes from the front of `input` up to the message's pages. Returns the head of a message that is authentic
    /// and next, or `None` if more must come.
    pub(super) fn receive(&mut self, input: &mut &[u8]) -> Result<Option<MessageHead>, WireError> {
        if !self.fill(HEAD_BYTES, input) {
            return Ok(None);
        }
        let head = MessageHead::decode(&field(&self.bytes, 0))?;
        if head.kind != self.kind {
            return Err(WireError::UnexpectedKind {
                kind: head.kind,
                class: self.class,
            });
        }
        if !self.fill(head.bytes_before_pages(), input) {
            return Ok(None);
        }
        let (covered, code) = self.bytes[..self.filled].split_at(self.filled - MAC_BYTES);
        if !self.mac.verifies(head.tag, covered, &field(code, 0)) {
            return Err(WireError::Code(head.tag));
        }
        self.tags.pass(head.tag)?;
        self.filled = 0;
        Ok(Some(head))
    }

    /// The bytes between the head and the code of the message that `receive` returned last.
    pub(super) fn body(&self, head: &MessageHead) -> &[u8] {
        &self.bytes[HEAD_BYTES..head.bytes_before_pages() - MAC_BYTES]
    }

    /// Takes bytes until there are `wanted`. Returns whether there are.
    fn fill(&mut self, wanted: usize, input: &mut &[u8]) -> bool {
        let lacking = wanted.saturating_sub(self.filled);
        let (taken, rest) = input.split_at(lacking.min(input.len()));
        self.bytes[self.filled..][..taken.len()].copy_from_slice(taken);
        self.filled += taken.len();
        *input = rest;
        self.filled >= wanted
    }
}
