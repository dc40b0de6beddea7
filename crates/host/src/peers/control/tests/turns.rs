//! A peer that sends much has its turn like others, and no more.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConnection, Connection, StreamOwned};
use sublet_tls::peer::{DefaultTimeProvider, PeerCredentials, PeerTlsSettings};

use super::super::connection::{ConnectionOpener, ControlConnection, ReadProgress, ReadTurn};
use super::authority::TestAuthority;
use super::cluster::{BoundNode, TestTime, member};
use crate::wait_until::wait_until;

/// More than a turn takes, and less than the kernel keeps for a socket.
const BURST_LINES: usize = 60;

/// A line of a kind that nobody knows, of some thousand bytes.
fn line() -> String {
    format!(
        "{{\"kind\":\"of-tomorrow\",\"filler\":\"{}\"}}\n",
        "x".repeat(9000)
    )
}

fn credentials(settings: &PeerTlsSettings) -> PeerCredentials {
    PeerCredentials::load(settings, Arc::new(DefaultTimeProvider)).expect("loaded")
}

/// A node of a test as a client of `b`.
fn client(
    authority: &TestAuthority,
    address: SocketAddr,
) -> StreamOwned<ClientConnection, TcpStream> {
    let name = "b".parse().expect("a name");
    let own = credentials(&authority.settings("blue", "a"));
    let tls = own.connect(&name).expect("a client");
    StreamOwned::new(tls, TcpStream::connect(address).expect("connected"))
}

/// Both ends of a connection whose handshake has ended.
fn pair(
    authority: &TestAuthority,
) -> (StreamOwned<ClientConnection, TcpStream>, ControlConnection) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut client = client(authority, listener.local_addr().expect("bound"));
    let (socket, remote) = listener.accept().expect("accepted");
    socket.set_nonblocking(true).expect("set");
    let tls = credentials(&authority.settings("blue", "b")).accept();
    let mut served = ControlConnection::new(
        mio::net::TcpStream::from_std(socket),
        remote,
        ConnectionOpener::Them,
        Connection::Server(tls.expect("a server")),
        Duration::from_secs(60),
    );
    client.sock.set_nonblocking(true).expect("set");
    while served.newly_known().is_none() {
        // Neither end waits for the other.
        let _ = client.conn.complete_io(&mut client.sock);
        turn(&mut served);
    }
    client.sock.set_nonblocking(false).expect("set");
    (client, served)
}

fn turn(served: &mut ControlConnection) -> ReadTurn {
    let turn = served.read_turn();
    assert!(turn.progress.is_ok(), "{turn:?}");
    served.flush().expect("sent");
    turn
}

/// A record's head, its content and what a cipher may add (RFC 5246, 6.2.3).
const RECORD_MAX: usize = 5 + (16 << 10) + (2 << 10);

#[test]
fn a_turn_ends_though_there_is_more() {
    let (mut client, mut served) = pair(&TestAuthority::new());
    let burst = line().repeat(BURST_LINES);
    client.write_all(burst.as_bytes()).expect("sent");
    let (mut lines, mut turns) = (0, 0);
    while lines < BURST_LINES {
        let turn = turn(&mut served);
        // Sixteen reads, none of more than what a record of TLS may have on the wire.
        assert!(turn.bytes <= 16 * RECORD_MAX, "{}", turn.bytes);
        lines += turn.lines.len();
        turns += usize::from(turn.bytes > 0);
    }
    assert!(turns > 1, "{turns}");
    assert!(matches!(
        turn(&mut served).progress,
        Ok(ReadProgress::Blocked)
    ));
}

/// Whoever was shut out keeps nobody busy by sending on.
#[test]
fn a_connection_that_closes_reads_nothing() {
    let (mut client, mut served) = pair(&TestAuthority::new());
    client.write_all(line().as_bytes()).expect("sent");
    wait_until("it came", || served.stream.peek(&mut [0]).is_ok());
    served.begin_close(Duration::from_secs(1));
    let turn = turn(&mut served);
    assert_eq!((turn.bytes, turn.lines.len()), (0, 0));
    assert!(matches!(turn.progress, Ok(ReadProgress::Blocked)));
}

/// The kernel reports what is new once. What a turn left comes without a further report.
#[test]
fn what_one_turn_left_comes_in_the_next() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let b = BoundNode::new("b");
    let (address, to_a) = (b.address(), member("a", 1));
    let b = b.start(time.0, authority.settings("blue", "b"), vec![to_a]);
    let mut client = client(&authority, address);
    let burst = line().repeat(BURST_LINES);
    client.write_all(burst.as_bytes()).expect("sent");
    let unknown = || b.peer("a").counters.lines_unknown;
    time.wait("all were heard", || unknown() == BURST_LINES as u64);
}
