//! Who runs where: servers on one core and the load generator on others, if there are two or more.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// The cores that this process may use, assigned once.
#[derive(Clone)]
pub(super) struct CoreAssignment {
    all: CpuSet,
    servers: CpuSet,
    generators: CpuSet,
    apart: bool,
}

impl CoreAssignment {
    /// Assigns one core to a server with one thread, and the others to the generator. With more server threads, or with
    /// one core only, everything runs everywhere.
    pub(super) fn deal(server_threads: usize) -> CoreAssignment {
        let all = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let mut generators = all;
        let mut servers = CpuSet::new();
        let last = (0..CpuSet::MAX_CPU).rev().find(|core| all.is_set(*core));
        let apart = server_threads == 1 && all.count() >= 2;
        if let Some(core) = last.filter(|_| apart) {
            servers.set(core);
            generators.unset(core);
        } else {
            servers = all;
        }
        CoreAssignment {
            all,
            servers,
            generators,
            apart,
        }
    }

    /// Runs `start`. A process that it starts runs on the servers' cores.
    pub(super) fn on_servers<R>(&self, start: impl FnOnce() -> R) -> R {
        self.on(&self.servers, start)
    }

    /// Runs `work` on the generators' cores.
    pub(super) fn on_generators<R>(&self, work: impl FnOnce() -> R) -> R {
        self.on(&self.generators, work)
    }

    /// A note for the reader about the assignment.
    pub(super) fn description(&self) -> &'static str {
        if self.apart {
            "Servers run on one core, the load generator on another."
        } else {
            "Servers and load generator share all cores: only the CPU time per operation is to be trusted."
        }
    }

    /// Runs `work` on `cores`. Pinning is optional: if the kernel refuses, everything runs everywhere.
    fn on<R>(&self, cores: &CpuSet, work: impl FnOnce() -> R) -> R {
        let this: Option<Pid> = None;
        let _ = sched_setaffinity(this, cores);
        let result = work();
        let _ = sched_setaffinity(this, &self.all);
        result
    }
}
