//! A page connection that a test drives by hand.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use sublet_lend::wire::{
    Answer, AnswerEvent, BorrowerChannel, ConnectionClass, ConnectionHello, HelloMessage,
    MessageHead, MessageKind, MessageMac, MessageStatus, MessageTag, PageRange, RangeList,
};

use super::*;

/// The hello of a connection of the first session.
pub(super) fn hello(class: ConnectionClass, connection: u64) -> HelloMessage {
    let peer = session_peer(SESSION);
    session_keys().prove(ConnectionHello {
        class,
        node: peer.node,
        incarnation: peer.incarnation,
        session: peer.session,
        connection,
    })
}

/// Sends bytes on a new connection.
pub(super) fn connect(address: SocketAddr, first: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(address).expect("it connects");
    // A lender that refuses the first bytes may have closed before the last.
    let _ = socket.write_all(first);
    socket
}

/// Returns whether the lender closes the connection without a word.
pub(super) fn is_closed(mut socket: TcpStream) -> bool {
    match socket.read(&mut [0; 1]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

/// A connection that was let in.
pub(in crate::peers) struct RawConnection {
    pub(in crate::peers) socket: TcpStream,
    pub(super) channel: BorrowerChannel,
}

pub(in crate::peers) fn ranges(all: &[(u32, u16, u16)]) -> RangeList {
    let mut list = RangeList::default();
    for (index, place, count) in all {
        let range = PageRange::new(*index, *place, *count).expect("a range");
        list.push(range).expect("room");
    }
    list
}

impl RawConnection {
    pub(in crate::peers) fn open(
        address: SocketAddr,
        class: ConnectionClass,
        connection: u64,
        incarnation: u64,
    ) -> RawConnection {
        let message = hello(class, connection);
        let keys = session_keys().connection_keys(&message.hello);
        RawConnection {
            socket: connect(address, &message.encode()),
            channel: BorrowerChannel::new(class, keys, incarnation),
        }
    }

    /// Sends a request, with pages if it is a write.
    pub(in crate::peers) fn send(
        &mut self,
        lease: u32,
        pages: &RangeList,
        bytes: &[u8],
    ) -> io::Result<()> {
        let mut out = Vec::new();
        self.channel.request(lease, pages, &mut out).expect("room");
        out.extend_from_slice(bytes);
        self.socket.write_all(&out)
    }

    /// Receives an answer with its pages.
    pub(super) fn receive(&mut self) -> io::Result<(Answer, Vec<u8>)> {
        let (mut came, mut pages, mut input) = (None, Vec::new(), [0; 1024]);
        loop {
            let read = self.socket.read(&mut input)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut unused = &input[..read];
            loop {
                match self.channel.receive(&mut unused).expect("an honest lender") {
                    AnswerEvent::Idle => break,
                    AnswerEvent::Answered { answer, .. } => came = Some(answer),
                    AnswerEvent::PageBytes { bytes, .. } => pages.extend_from_slice(bytes),
                    AnswerEvent::ReadComplete(_) => {}
                }
            }
            if let Some(answer) = came
                && self.channel.missing_pages().next().is_none()
            {
                return Ok((answer, pages));
            }
        }
    }
}

/// Reads of the same pages without end, for the first read connection. No channel lets so many wait.
pub(in crate::peers) fn reads_without_bound(
    lease: u32,
    pages: &RangeList,
) -> impl Iterator<Item = Vec<u8>> {
    let keys = session_keys().connection_keys(&hello(ConnectionClass::Read, 1).hello);
    let mac = MessageMac::new(keys.to_lender);
    let ranges: Vec<u8> = pages
        .ranges()
        .iter()
        .flat_map(|range| range.encode())
        .collect();
    let head = MessageHead {
        kind: MessageKind::Read,
        status: MessageStatus::Ok,
        ranges: pages.ranges().len() as u16,
        pages: 0,
        tag: MessageTag(0),
        lease,
        incarnation_low: LENDER_INCARNATION as u32,
    };
    (1..).map(MessageTag).map(move |tag| {
        let mut bytes = [&MessageHead { tag, ..head }.encode()[..], &ranges].concat();
        let code = mac.code(tag, &bytes);
        bytes.extend_from_slice(&code);
        bytes
    })
}
