//! Tags rise by one a message of a connection: no code is made twice, and no message is believed twice.

use super::head::MessageTag;

/// The tag of a connection's first message.
const FIRST: u64 = 1;

/// Deals the tags of the messages that one end sends.
#[derive(Debug)]
pub struct TagSequencer {
    next: u64,
}

impl Default for TagSequencer {
    fn default() -> TagSequencer {
        TagSequencer { next: FIRST }
    }
}

impl TagSequencer {
    /// The tag of the next message.
    pub fn next_tag(&mut self) -> MessageTag {
        let tag = MessageTag(self.next);
        self.next = self
            .next
            .checked_add(1)
            .expect("2^64 messages take longer than a host lives");
        tag
    }
}

/// Refuses messages that one end did not send next.
#[derive(Debug)]
pub struct ReplayGuard {
    expected: u64,
}

/// A message was replayed, skipped or reordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "message {found} came where message {expected} is next: it was replayed, skipped or reordered; close the connection"
)]
pub struct WrongTag {
    /// The tag that must come next.
    pub expected: u64,
    /// The tag that came.
    pub found: u64,
}

impl Default for ReplayGuard {
    fn default() -> ReplayGuard {
        ReplayGuard { expected: FIRST }
    }
}

impl ReplayGuard {
    /// Lets the next message of the connection pass. Its code must have been checked before.
    ///
    /// # Errors
    ///
    /// It is another message. The next one stays the same.
    pub fn pass(&mut self, tag: MessageTag) -> Result<(), WrongTag> {
        if tag.0 != self.expected {
            return Err(WrongTag {
                expected: self.expected,
                found: tag.0,
            });
        }
        // No connection lives for 2^64 messages, and its sender would end before it used a tag again.
        self.expected = self.expected.saturating_add(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_pass_in_their_order_only() {
        let (mut sequencer, mut guard) = (TagSequencer::default(), ReplayGuard::default());
        let tags: Vec<MessageTag> = (0..3).map(|_| sequencer.next_tag()).collect();
        assert_eq!(tags, [MessageTag(1), MessageTag(2), MessageTag(3)]);
        let wrong = |expected, found| Err(WrongTag { expected, found });
        assert_eq!(guard.pass(tags[1]), wrong(1, 2));
        assert_eq!(guard.pass(tags[0]), Ok(()));
        assert_eq!(guard.pass(tags[0]), wrong(2, 1));
        assert_eq!(guard.pass(tags[2]), wrong(2, 3));
        assert_eq!(guard.pass(tags[1]), Ok(()));
        assert_eq!(guard.pass(MessageTag(0)), wrong(3, 0));
    }
}
