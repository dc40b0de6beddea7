//! Servers of one thread each that share a load. One server of as many threads should cost no more. What both pay alike
//! is the machine's cost, which includes the load generator on the same cores.

use std::net::SocketAddr;
use std::time::Duration;

use super::error::BenchError;
use super::keyspace::Keyspace;
use super::load_generator::{LoadOutcome, LoadProfile, RunEnd};
use super::pair::fill;
use super::request_stream::RequestStream;
use super::tested_server::{ServerProgram, StartOptions, TestedServer};

/// The servers. Each has its part of the keys that one server would have.
pub(super) struct ServerFleet(Vec<TestedServer>);

impl ServerFleet {
    /// Starts as many servers of `program` as `start` has threads, and stores keys 0 to `keys - 1` in each.
    pub(super) fn start(
        program: &ServerProgram,
        start: &StartOptions,
        keyspace: &Keyspace,
        keys: u32,
    ) -> Result<ServerFleet, BenchError> {
        let alone = StartOptions {
            threads: 1,
            ..start.clone()
        };
        let started = (0..start.threads).map(|_| {
            let server = TestedServer::start(program, &alone)?;
            fill(&server, keyspace, 0..keys)?;
            Ok(server)
        });
        started.collect::<Result<_, _>>().map(ServerFleet)
    }

    /// Drives all of them at once.
    pub(super) fn drive(
        &self,
        load: &LoadProfile,
        stream: &RequestStream<'_>,
        until: RunEnd,
    ) -> Result<LoadOutcome, BenchError> {
        let addresses: Vec<SocketAddr> = self.0.iter().map(TestedServer::address).collect();
        load.run(&addresses, stream, until)
            .map_err(|cause| BenchError::while_driving(&self.0[0], cause))
    }

    /// CPU time that they have used.
    pub(super) fn cpu(&self) -> Result<Duration, BenchError> {
        let each = self.0.iter().map(TestedServer::cpu);
        Ok(each.sum::<Result<Duration, _>>()?)
    }
}
