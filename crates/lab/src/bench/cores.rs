//! Who runs where: servers on one core, the load generator on others, where there are two.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// The cores this process may use, dealt out once.
#[derive(Clone)]
pub(super) struct Cores {
    all: CpuSet,
    servers: CpuSet,
    generators: CpuSet,
    apart: bool,
}

impl Cores {
    /// One core for a server with one thread, the others for the generator; with more server threads,
    /// or one core only, everything everywhere.
    pub(super) fn deal(server_threads: usize) -> Cores {
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
        Cores {
            all,
            servers,
            generators,
            apart,
        }
    }

    /// Runs `start` so that a process it starts runs on the servers' cores.
    pub(super) fn on_servers<R>(&self, start: impl FnOnce() -> R) -> R {
        self.on(&self.servers, start)
    }

    /// Runs `work` on the generators' cores.
    pub(super) fn on_generators<R>(&self, work: impl FnOnce() -> R) -> R {
        self.on(&self.generators, work)
    }

    /// What a reader must know of it.
    pub(super) fn note(&self) -> &'static str {
        if self.apart {
            "Servers run on one core, the load generator on another."
        } else {
            "Servers and load generator share all cores: only the CPU time per operation is to be trusted."
        }
    }

    /// Pinning is an aid, not a need: where the kernel refuses, everything runs everywhere.
    fn on<R>(&self, cores: &CpuSet, work: impl FnOnce() -> R) -> R {
        let this: Option<Pid> = None;
        let _ = sched_setaffinity(this, cores);
        let result = work();
        let _ = sched_setaffinity(this, &self.all);
        result
    }
}
