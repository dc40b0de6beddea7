//! Ours and the peer, started alike and measured in turns: A B A B …, so that whatever else the machine
//! does falls on both.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use sublet_types::Bytes;

use super::both::Both;
use super::cores::Cores;
use super::error::BenchError;
use super::keyspace::Keyspace;
use super::load::{Load, Outcome, Until, Waiting};
use super::ours::Ours;
use super::stream::Stream;
use super::subject::{Program, Start, Subject};

/// Whom to compare with.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Against {
    /// The memcached to compare with; else the one on the PATH, else target/peer/memcached.
    #[arg(long, value_name = "PATH")]
    against: Option<PathBuf>,
    /// Run the peer in both places: shows how much of a ratio is chance.
    #[arg(long)]
    self_check: bool,
    #[command(flatten)]
    ours: Ours,
}

impl Against {
    /// Our side.
    pub(super) fn ours(&self) -> Result<Program, BenchError> {
        Ok(Program::Ours(self.ours.program()?))
    }
}

/// Two servers that were started alike.
pub(super) struct Pair {
    ours: Subject,
    peer: Subject,
    cores: Cores,
}

/// Requests a batch and connections while a server is filled.
const FILLING: Load = Load {
    pipeline: 64,
    connections: 2,
    waiting: Waiting::Sleeping,
};

impl Pair {
    /// Starts both.
    pub(super) fn start(against: &Against, start: &Start) -> Result<Pair, BenchError> {
        let peer = Program::peer(against.against.as_deref())?;
        let cores = Cores::deal(start.threads);
        let started = |program: &Program| cores.on_servers(|| Subject::start(program, start));
        let ours = match against.self_check {
            true => peer.clone(),
            false => against.ours()?,
        };
        Ok(Pair {
            ours: started(&ours)?,
            peer: started(&peer)?,
            cores,
        })
    }

    /// Which peer it is, and who runs where.
    pub(super) fn notes(&self) -> Result<Vec<String>, BenchError> {
        let version = self.peer.version()?;
        let sides = format!(
            "Ours is {}; the peer is {}, memcached {version}.",
            self.ours.name(),
            self.peer.name()
        );
        Ok(vec![sides, self.cores.note().to_owned()])
    }

    /// Ours.
    pub(super) fn ours(&self) -> &Subject {
        &self.ours
    }

    /// The peer.
    pub(super) fn peer(&self) -> &Subject {
        &self.peer
    }

    /// Where they listen: ours, then the peer.
    pub(super) fn addresses(&self) -> [SocketAddr; 2] {
        [self.ours.address(), self.peer.address()]
    }

    /// Stores keys 0 to `keys - 1` in both.
    pub(super) fn fill(&self, keyspace: &Keyspace, keys: u32) -> Result<(), BenchError> {
        for subject in [&self.ours, &self.peer] {
            self.cores
                .on_generators(|| fill(subject, keyspace, 0..keys))?;
        }
        Ok(())
    }

    /// Asks both once.
    pub(super) fn ask<E>(&self, question: impl Fn(&Subject) -> Result<f64, E>) -> Result<Both, E> {
        Ok(Both {
            ours: vec![question(&self.ours)?],
            peer: vec![question(&self.peer)?],
        })
    }

    /// Measures both in turns; each round gives `N` figures.
    pub(super) fn measure<const N: usize>(
        &self,
        rounds: usize,
        round: impl Fn(&Subject) -> Result<[f64; N], BenchError>,
    ) -> Result<[Both; N], BenchError> {
        let mut all = [(); N].map(|()| Both::default());
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
    subject: &Subject,
    keyspace: &Keyspace,
    keys: Range<u32>,
) -> Result<(), BenchError> {
    let step = Stream::filling_max(keyspace);
    for from in keys.clone().step_by(step as usize) {
        let stream = Stream::filling(keyspace, from..keys.end.min(from + step));
        drive(subject, &FILLING, &stream, Until::End)?;
    }
    Ok(())
}

/// Drives a server; a failure names it.
pub(super) fn drive(
    subject: &Subject,
    load: &Load,
    stream: &Stream<'_>,
    until: Until,
) -> Result<Outcome, BenchError> {
    load.run(&[subject.address()], stream, until)
        .map_err(|cause| BenchError::while_driving(subject, cause))
}

/// How many keys fill a quarter of `memory`, so that both sides keep all of them.
pub(super) fn keys_that_fit(memory: Bytes, keyspace: &Keyspace) -> u32 {
    /// What a server may need for an item besides its bytes.
    const OVERHEAD: u64 = 100;
    const KEYS_MAX: u64 = 1_000_000;
    let fit = memory.0 / 4 / (keyspace.item_bytes() as u64 + OVERHEAD);
    fit.clamp(1, KEYS_MAX) as u32
}

/// Microseconds as a number.
pub(super) fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}
