//! Sublet and the peer, started alike and measured in turns: A B A B … So other work of the machine falls on both.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use sublet_types::Bytes;

use super::cores::CoreAssignment;
use super::error::BenchError;
use super::keyspace::Keyspace;
use super::load_generator::{LoadOutcome, LoadProfile, ReplyWait, RunEnd};
use super::paired_rounds::PairedRounds;
use super::request_stream::RequestStream;
use super::sublet_option::SubletOption;
use super::tested_server::{ServerProgram, StartOptions, TestedServer};

/// The peer to compare with.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PeerOptions {
    /// Compare with this memcached; else with the one on the PATH, else with target/peer/memcached.
    #[arg(long, value_name = "PATH")]
    against: Option<PathBuf>,
    /// Run the peer in both places: this shows how much of a ratio is chance.
    #[arg(long)]
    self_check: bool,
    #[command(flatten)]
    ours: SubletOption,
}

impl PeerOptions {
    /// The program of our side.
    pub(super) fn ours(&self) -> Result<ServerProgram, BenchError> {
        Ok(ServerProgram::Ours(self.ours.program()?))
    }
}

/// Two servers that were started alike.
pub(super) struct ServerPair {
    ours: TestedServer,
    peer: TestedServer,
    cores: CoreAssignment,
}

/// Requests per batch, and connections, while a server is filled.
const FILLING: LoadProfile = LoadProfile {
    pipeline: 64,
    connections: 2,
    waiting: ReplyWait::Sleeping,
};

impl ServerPair {
    /// Starts both.
    pub(super) fn start(
        against: &PeerOptions,
        start: &StartOptions,
    ) -> Result<ServerPair, BenchError> {
        let peer = ServerProgram::peer(against.against.as_deref())?;
        let cores = CoreAssignment::deal(start.threads);
        let started =
            |program: &ServerProgram| cores.on_servers(|| TestedServer::start(program, start));
        let ours = match against.self_check {
            true => peer.clone(),
            false => against.ours()?,
        };
        Ok(ServerPair {
            ours: started(&ours)?,
            peer: started(&peer)?,
            cores,
        })
    }

    /// Notes on which peer it is, and where each runs.
    pub(super) fn notes(&self) -> Result<Vec<String>, BenchError> {
        let version = self.peer.version()?;
        let sides = format!(
            "Ours is {}; the peer is {}, memcached {version}.",
            self.ours.name(),
            self.peer.name()
        );
        Ok(vec![sides, self.cores.description().to_owned()])
    }

    /// Ours.
    pub(super) fn ours(&self) -> &TestedServer {
        &self.ours
    }

    /// The peer.
    pub(super) fn peer(&self) -> &TestedServer {
        &self.peer
    }

    /// The addresses: ours, then the peer's.
    pub(super) fn addresses(&self) -> [SocketAddr; 2] {
        [self.ours.address(), self.peer.address()]
    }

    /// Stores keys 0 to `keys - 1` in both.
    pub(super) fn fill(&self, keyspace: &Keyspace, keys: u32) -> Result<(), BenchError> {
        for server in [&self.ours, &self.peer] {
            self.cores
                .on_generators(|| fill(server, keyspace, 0..keys))?;
        }
        Ok(())
    }

    /// Queries both once.
    pub(super) fn query<E>(
        &self,
        question: impl Fn(&TestedServer) -> Result<f64, E>,
    ) -> Result<PairedRounds, E> {
        Ok(PairedRounds {
            ours: vec![question(&self.ours)?],
            peer: vec![question(&self.peer)?],
        })
    }

    /// Measures both in turns. Each round gives `N` figures.
    pub(super) fn measure<const N: usize>(
        &self,
        rounds: usize,
        round: impl Fn(&TestedServer) -> Result<[f64; N], BenchError>,
    ) -> Result<[PairedRounds; N], BenchError> {
        let mut all = [(); N].map(|()| PairedRounds::default());
        for _ in 0..rounds.max(1) {
            let ours = self.cores.on_generators(|| round(&self.ours))?;
            let peer = self.cores.on_generators(|| round(&self.peer))?;
            for (place, both) in all.iter_mut().enumerate() {
                both.ours.push(ours[place]);
                both.peer.push(peer[place]);
            }
        }
        Ok(all)
    }
}

/// Stores `keys` in one server.
pub(super) fn fill(
    server: &TestedServer,
    keyspace: &Keyspace,
    keys: Range<u32>,
) -> Result<(), BenchError> {
    let step = RequestStream::filling_max(keyspace);
    for from in keys.clone().step_by(step as usize) {
        let stream = RequestStream::filling(keyspace, from..keys.end.min(from + step));
        drive(server, &FILLING, &stream, RunEnd::End)?;
    }
    Ok(())
}

/// Drives a server. An error names the server.
pub(super) fn drive(
    server: &TestedServer,
    load: &LoadProfile,
    stream: &RequestStream<'_>,
    until: RunEnd,
) -> Result<LoadOutcome, BenchError> {
    load.run(&[server.address()], stream, until)
        .map_err(|cause| BenchError::while_driving(server, cause))
}

/// How many keys fill a quarter of `memory`. Both sides keep all of them.
pub(super) fn keys_that_fit(memory: Bytes, keyspace: &Keyspace) -> u32 {
    /// What a server may need per item besides its bytes.
    const OVERHEAD: u64 = 100;
    const KEYS_MAX: u64 = 1_000_000;
    let fit = memory.0 / 4 / (keyspace.item_bytes() as u64 + OVERHEAD);
    fit.clamp(1, KEYS_MAX) as u32
}

/// Microseconds as a number.
pub(super) fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}
