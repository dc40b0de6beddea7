//! One control connection: TLS over TCP, lines both ways, and a bound on what waits to be sent.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::TcpStream;
use rustls::Connection as TlsSession;
use sublet_lend::control::{
    ControlError, ControlLine, ControlMessage, LINE_BYTES_MAX, LineReader, encode_line,
};
use sublet_lend::ids::PeerId;
use sublet_tls::peer::{
    ConnectedPeer, PeerRefusal, SESSION_SECRET_BYTES, connected_peer, session_secret,
};

/// The most bytes that wait to be sent. A peer that reads so little is cut off.
const UNSENT_BYTES_MAX: usize = 16 * LINE_BYTES_MAX;

/// Bytes that are decrypted at once.
const CHUNK_BYTES: usize = 16 << 10;

/// The most reads of a turn. None takes more than a record of TLS, so that a turn takes less than a millisecond.
const TURN_READS_MAX: usize = 16;

/// Which end opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionOpener {
    /// This node called that member.
    Us(PeerId),
    /// Somebody called this node.
    Them,
}

/// How far a connection is.
#[derive(Debug)]
pub(super) enum ConnectionStage {
    /// TLS has not ended its handshake. The connection goes at this time.
    Handshake(Duration),
    /// The peer is known.
    Open(Box<ConnectedPeer>),
    /// What was sent goes out. The connection goes at this time at the latest.
    Closing(Duration),
}

/// Why a connection is over.
#[derive(Debug)]
pub(super) enum ConnectionEnd {
    /// The peer closed it.
    Closed,
    /// The kernel says so.
    Broken(io::Error),
    /// One end refused the other, or TLS broke.
    Refused(PeerRefusal),
    /// A line is none of this protocol.
    Garbled(ControlError),
    /// Too much waits to be sent.
    Unread,
}

/// Whether there may be more to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadProgress {
    /// There may be.
    Some,
    /// The socket is empty, and the kernel reports when it is not. Or nobody wants what it has.
    Blocked,
}

/// What a turn of a connection brought.
#[derive(Debug)]
pub(super) struct ReadTurn {
    /// The lines that are complete.
    pub(super) lines: Vec<ControlLine>,
    /// Bytes that came, as TLS sends them.
    pub(super) bytes: usize,
    /// Whether there may be more, or why the connection is over. The lines before that count.
    pub(super) progress: Result<ReadProgress, ConnectionEnd>,
}

/// One control connection.
pub(super) struct ControlConnection {
    pub(super) stream: TcpStream,
    pub(super) remote: SocketAddr,
    pub(super) opener: ConnectionOpener,
    pub(super) stage: ConnectionStage,
    tls: TlsSession,
    lines: LineReader,
    /// The line that is being encoded.
    line: Vec<u8>,
}

impl ControlConnection {
    /// A connection whose handshake begins, and must end at `until`.
    pub(super) fn new(
        stream: TcpStream,
        remote: SocketAddr,
        opener: ConnectionOpener,
        mut tls: TlsSession,
        until: Duration,
    ) -> ControlConnection {
        tls.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        ControlConnection {
            stream,
            remote,
            opener,
            stage: ConnectionStage::Handshake(until),
            tls,
            lines: LineReader::default(),
            line: Vec::new(),
        }
    }

    /// Reads what has come, until the socket is empty, the connection is over or its turn is. A connection that is
    /// closing reads nothing: whoever was shut out may send as much as it likes.
    pub(super) fn read_turn(&mut self) -> ReadTurn {
        let mut turn = ReadTurn {
            lines: Vec::new(),
            bytes: 0,
            progress: Ok(ReadProgress::Blocked),
        };
        if matches!(self.stage, ConnectionStage::Closing(_)) {
            return turn;
        }
        for _ in 0..TURN_READS_MAX {
            turn.progress = self.read(&mut turn.lines, &mut turn.bytes);
            if !matches!(turn.progress, Ok(ReadProgress::Some)) {
                break;
            }
        }
        turn
    }

    /// Reads once, appends the lines that are complete, and adds the bytes.
    fn read(
        &mut self,
        lines: &mut Vec<ControlLine>,
        bytes: &mut usize,
    ) -> Result<ReadProgress, ConnectionEnd> {
        match self.tls.read_tls(&mut self.stream) {
            Ok(0) => Err(ConnectionEnd::Closed),
            Ok(read) => {
                *bytes += read;
                if let Err(error) = self.tls.process_new_packets() {
                    // The alert tells the peer why. If it does not go out, the peer sees only the end.
                    let _ = self.flush();
                    return Err(ConnectionEnd::Refused(PeerRefusal::of(&error)));
                }
                self.take_lines(lines)?;
                Ok(ReadProgress::Some)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(ReadProgress::Blocked),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(ReadProgress::Some),
            Err(error) => Err(ConnectionEnd::Broken(error)),
        }
    }

    fn take_lines(&mut self, lines: &mut Vec<ControlLine>) -> Result<(), ConnectionEnd> {
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            let mut input = match self.tls.reader().read(&mut chunk) {
                Ok(0) => return Err(ConnectionEnd::Closed),
                Ok(bytes) => &chunk[..bytes],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(ConnectionEnd::Broken(error)),
            };
            while let Some(line) = self
                .lines
                .read(&mut input)
                .map_err(ConnectionEnd::Garbled)?
            {
                lines.push(line);
            }
        }
    }

    /// Returns the peer when the handshake has just ended, and never again.
    pub(super) fn newly_known(&mut self) -> Option<ConnectedPeer> {
        if !matches!(self.stage, ConnectionStage::Handshake(_)) {
            return None;
        }
        let peer = connected_peer(&self.tls)?;
        self.stage = ConnectionStage::Open(Box::new(peer.clone()));
        Some(peer)
    }

    /// Returns the peer, if the connection is open.
    pub(super) fn peer(&self) -> Option<&ConnectedPeer> {
        match &self.stage {
            ConnectionStage::Open(peer) => Some(peer),
            _ => None,
        }
    }

    /// The secret that only both ends know. `None` before the handshake has ended.
    pub(super) fn secret(&self) -> Option<[u8; SESSION_SECRET_BYTES]> {
        let secret = match &self.tls {
            TlsSession::Client(tls) => session_secret(tls),
            TlsSession::Server(tls) => session_secret(tls),
        };
        secret.ok()
    }

    /// Sends a message, as far as the socket takes it now.
    ///
    /// # Errors
    ///
    /// The connection is over, or too much waits to be sent.
    pub(super) fn send(&mut self, message: &ControlMessage) -> Result<(), ConnectionEnd> {
        self.line.clear();
        encode_line(message, &mut self.line);
        match self.tls.writer().write(&self.line) {
            Ok(bytes) if bytes == self.line.len() => self.flush(),
            Ok(_) => Err(ConnectionEnd::Unread),
            Err(error) => Err(ConnectionEnd::Broken(error)),
        }
    }

    /// Sends what waits, as far as the socket takes it now.
    ///
    /// # Errors
    ///
    /// The connection is over.
    pub(super) fn flush(&mut self) -> Result<(), ConnectionEnd> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ConnectionEnd::Broken(error)),
            }
        }
        Ok(())
    }

    /// Closes the connection when all that was sent is out, or at `until`.
    pub(super) fn begin_close(&mut self, until: Duration) {
        self.tls.send_close_notify();
        self.stage = ConnectionStage::Closing(until);
    }

    /// Returns whether the connection can go now.
    pub(super) fn is_done(&self, now: Duration) -> bool {
        match self.stage {
            ConnectionStage::Handshake(until) => now >= until,
            ConnectionStage::Open(_) => false,
            ConnectionStage::Closing(until) => now >= until || !self.tls.wants_write(),
        }
    }
}
