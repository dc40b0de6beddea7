//! What a relay adds to round trips, beside what it is asked for. It is measured on an echo of ours at the lender's host:
//! straight, and by the relay.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::super::pair::micros;
use super::super::report::{BenchRow, RoundsSummary};
use super::delaying_proxy::{AddedDelay, DelayingProxy};
use super::error::LendBenchError;
use super::namespaces::LinkedNamespaces;

/// Bytes of a request of one page, and of its answer, about.
const REQUEST_BYTES: usize = 64;
const ANSWER_BYTES: usize = 4160;

/// Round trips of a round, and how long it may last.
const ROUND_TRIPS: usize = 200;
const ROUND_MAX: Duration = Duration::from_millis(300);

/// A round that is worth something has as many round trips.
const ROUND_TRIPS_MIN: usize = 7;

/// A relay before an echo, and connections to both.
pub(super) struct RelayGauge {
    relay: DelayingProxy,
    straight: TcpStream,
    relayed: TcpStream,
}

impl RelayGauge {
    /// Starts the echo and the relay at the lender's host, and connects from the borrower's.
    pub(super) fn start(namespaces: &LinkedNamespaces) -> Result<RelayGauge, LendBenchError> {
        let any_port = SocketAddr::from((namespaces.lender.address, 0));
        let (echo, relay) = namespaces.lender.run(|| {
            let echo = start_echo(any_port)?;
            Ok::<_, io::Error>((echo, DelayingProxy::start(any_port, echo)?))
        })??;
        let connect = |to| {
            let socket = TcpStream::connect(to)?;
            socket.set_nodelay(true)?;
            Ok::<_, io::Error>(socket)
        };
        let at_relay = relay.address;
        let [straight, relayed] = namespaces
            .borrower
            .run(|| Ok::<_, io::Error>([connect(echo)?, connect(at_relay)?]))??;
        Ok(RelayGauge {
            relay,
            straight,
            relayed,
        })
    }

    /// Measures what the relay adds to the median of a round trip when it is asked for `asked`. Both ways have turns.
    pub(super) fn row(&mut self, asked: Duration, rounds: usize) -> io::Result<BenchRow> {
        self.relay.set_delay(AddedDelay::Always(asked));
        let mut added = Vec::new();
        for _ in 0..rounds.max(1) {
            let straight = median_round_trip(&mut self.straight)?;
            added.push(micros(median_round_trip(&mut self.relayed)?) - micros(straight));
        }
        let added = RoundsSummary::of(&added);
        Ok(match asked.is_zero() {
            true => BenchRow::new("the relay itself: added to a round trip", "µs", added),
            false => {
                let name = format!("the relay, asked for {asked:?}: added to a round trip");
                BenchRow::new(name, "µs", added).against(RoundsSummary::once(micros(asked)))
            }
        })
    }
}

/// Answers each request of each client.
fn start_echo(at: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(at)?;
    let address = listener.local_addr()?;
    thread::Builder::new()
        .name("bench-echo".to_owned())
        .spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A connection ends with an error, as its client closes it.
                thread::spawn(move || answer(client));
            }
        })?;
    Ok(address)
}

fn answer(mut client: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut request = [0; REQUEST_BYTES];
    loop {
        client.read_exact(&mut request)?;
        client.write_all(&[0; ANSWER_BYTES])?;
    }
}

fn median_round_trip(socket: &mut TcpStream) -> io::Result<Duration> {
    let (began, mut took) = (Instant::now(), Vec::with_capacity(ROUND_TRIPS));
    let mut answer = [0; ANSWER_BYTES];
    while took.len() < ROUND_TRIPS && (began.elapsed() < ROUND_MAX || took.len() < ROUND_TRIPS_MIN)
    {
        let asked_at = Instant::now();
        socket.write_all(&[0; REQUEST_BYTES])?;
        socket.read_exact(&mut answer)?;
        took.push(asked_at.elapsed());
    }
    took.sort_unstable();
    Ok(took[took.len() / 2])
}
