//! Servers of one thread each that share a load. A server of as many threads should cost no more: what both pay alike
//! is the machine's, which has the load generator on the same cores.

use std::net::SocketAddr;
use std::time::Duration;

use super::error::BenchError;
use super::keyspace::Keyspace;
use super::load::{Load, Outcome, Until};
use super::pair::fill;
use super::stream::Stream;
use super::subject::{Program, Start, Subject};

/// The servers. Each has the same keys: its part of those that one server would have.
pub(super) struct Gang(Vec<Subject>);

impl Gang {
    /// Starts as many of `program` as `start` has threads, and stores keys 0 to `keys - 1` in each.
    pub(super) fn start(
        program: &Program,
        start: &Start,
        keyspace: &Keyspace,
        keys: u32,
    ) -> Result<Gang, BenchError> {
        let alone = Start {
            threads: 1,
            ..start.clone()
        };
        let started = (0..start.threads).map(|_| {
            let subject = Subject::start(program, &alone)?;
            fill(&subject, keyspace, 0..keys)?;
            Ok(subject)
        });
        started.collect::<Result<_, _>>().map(Gang)
    }

    /// Drives all of them at once.
    pub(super) fn drive(
        &self,
        load: &Load,
        stream: &Stream<'_>,
        until: Until,
    ) -> Result<Outcome, BenchError> {
        let addresses: Vec<SocketAddr> = self.0.iter().map(Subject::address).collect();
        load.run(&addresses, stream, until)
            .map_err(|cause| BenchError::while_driving(&self.0[0], cause))
    }

    /// CPU time that they have used.
    pub(super) fn cpu(&self) -> Result<Duration, BenchError> {
        let each = self.0.iter().map(Subject::cpu);
        Ok(each.sum::<Result<Duration, _>>()?)
    }
}
