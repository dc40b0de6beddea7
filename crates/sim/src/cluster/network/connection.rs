//! One connection: two ends, and a stream of chunks to each.

use std::collections::VecDeque;

use crate::cluster::ids::NodeRun;
use crate::cluster::messages::{ChannelClass, Payload};
use crate::virtual_time::VirtualInstant;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Side {
    /// Who connected.
    Connector,
    /// Who was connected to.
    Acceptor,
}

impl Side {
    /// The other end.
    pub(in crate::cluster) fn other(self) -> Side {
        match self {
            Side::Connector => Side::Acceptor,
            Side::Acceptor => Side::Connector,
        }
    }

    fn slot(self) -> usize {
        match self {
            Side::Connector => 0,
            Side::Acceptor => 1,
        }
    }
}

/// What comes to an end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Delivery {
    /// Something that was sent.
    Payload(Payload),
    /// The other end is over.
    End,
}

/// How an end is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum CloseKind {
    /// What was sent still arrives.
    Graceful,
    /// What has not left is dropped.
    Abort,
}

/// Something on its way, or the end of the stream.
#[derive(Debug)]
pub(super) struct StreamChunk {
    pub(super) leaves_at: VirtualInstant,
    pub(super) due: VirtualInstant,
    pub(super) what: Option<Payload>,
}

/// What is on its way to one end, in order.
#[derive(Debug, Default)]
pub(super) struct Stream {
    chunks: VecDeque<StreamChunk>,
    /// Whether an alarm is set for the first chunk.
    pub(super) is_awaited: bool,
    /// Since when the sender has no acknowledgement of what it sent.
    pub(super) unacknowledged_since: Option<VirtualInstant>,
}

impl Stream {
    /// Appends a chunk. It arrives no sooner than those before it.
    pub(super) fn push(&mut self, mut chunk: StreamChunk) {
        if let Some(last) = self.chunks.back() {
            if last.what.is_none() {
                return;
            }
            chunk.due = chunk.due.max(last.due);
        }
        self.chunks.push_back(chunk);
    }

    /// When the first chunk arrives.
    pub(super) fn next_due(&self) -> Option<VirtualInstant> {
        self.chunks.front().map(|chunk| chunk.due)
    }

    /// Takes what has arrived. `None` is the end of the stream.
    pub(super) fn take_due(&mut self, now: VirtualInstant) -> Vec<Option<Payload>> {
        let mut taken = Vec::new();
        while self.next_due().is_some_and(|due| due <= now) {
            taken.extend(self.chunks.pop_front().map(|chunk| chunk.what));
        }
        taken
    }

    /// Records that the sender has no acknowledgement. Returns whether that is new.
    pub(super) fn note_unacknowledged(&mut self, now: VirtualInstant) -> bool {
        let is_new = self.unacknowledged_since.is_none();
        self.unacknowledged_since.get_or_insert(now);
        is_new
    }

    /// Drops what has not left its sender.
    pub(super) fn drop_unsent(&mut self, now: VirtualInstant) {
        self.chunks.retain(|chunk| chunk.leaves_at <= now);
    }

    /// Cuts the message that is arriving after this share of it, and drops the others.
    pub(super) fn cut(&mut self, now: VirtualInstant, share: f64) {
        let first = self.chunks.pop_front();
        self.chunks.clear();
        let part = first.and_then(|chunk| {
            let what = chunk.what?.cut(share)?;
            Some(StreamChunk {
                leaves_at: chunk.leaves_at.min(now),
                due: chunk.due,
                what: Some(what),
            })
        });
        self.chunks.extend(part);
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.unacknowledged_since = None;
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) ends: [NodeRun; 2],
    pub(super) class: ChannelClass,
    streams: [Stream; 2],
    is_open: [bool; 2],
}

impl Connection {
    /// A connection between two runs, of which the first connected.
    pub(super) fn new(ends: [NodeRun; 2], class: ChannelClass) -> Connection {
        Connection {
            ends,
            class,
            streams: Default::default(),
            is_open: [true; 2],
        }
    }

    /// The run at an end.
    pub(super) fn end(&self, side: Side) -> NodeRun {
        self.ends[side.slot()]
    }

    /// Which end a run is.
    pub(super) fn side_of(&self, run: NodeRun) -> Option<Side> {
        let sides = [Side::Connector, Side::Acceptor];
        sides.into_iter().find(|side| self.end(*side) == run)
    }

    /// What is on its way to an end.
    pub(super) fn stream_to(&mut self, side: Side) -> &mut Stream {
        &mut self.streams[side.slot()]
    }

    /// Returns whether an end is open.
    pub(super) fn is_open(&self, side: Side) -> bool {
        self.is_open[side.slot()]
    }

    /// Closes an end.
    pub(super) fn close(&mut self, side: Side) {
        self.is_open[side.slot()] = false;
    }

    /// Returns whether nobody has an end any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_open == [false; 2]
    }
}
