//! `sublet doctor`: it says what on this host would make Sublet slow or unsafe, and what to type against it.

mod cluster;
mod finding;
mod guest_programs;
mod lending;
mod task_quota;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit};
use sublet_host::headroom::{ProcHost, ReadHost};
use sublet_host::memory_lock::may_lock;
use sublet_types::{Bytes, CgroupFigures};

use self::finding::{Finding, Severity};
use self::guest_programs::GuestPrograms;
use self::task_quota::TaskQuota;
use crate::admin_options::AdminOptions;
use crate::exit::Exit;

/// Each connection takes a descriptor. This leaves room for 10,000 of them.
const DESCRIPTORS_MIN: u64 = 10_240;
/// Above this value the kernel swaps rather than drop file pages.
const SWAPPINESS_MAX: u64 = 60;
/// A daemon has some ten threads and each disk three. io_uring makes more as it needs them.
const TASKS_MIN: u64 = 256;
/// A cgroup with less than this leaves nothing to lend.
const CGROUP_MIN: Bytes = Bytes::mib(256);

/// Says what on this host would make Sublet slow or unsafe, and what to type against it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: AdminOptions,
}

/// Shows every check. The exit code is 1 if something is bad.
pub(crate) fn run(args: &Args) -> Exit {
    let admin = match args.daemon.admin() {
        Ok(admin) => admin,
        Err(exit) => return exit,
    };
    let mut findings = examine(&HostFacts::this());
    // A host without a daemon, or without peers, has no lending to look at.
    let lending = admin.status().ok().and_then(|status| status.lending);
    if let Some(lending) = &lending {
        let cluster = admin.cluster().ok();
        findings.extend(lending::examine_lending(lending, cluster.as_ref()));
    }
    let mut out = io::stdout().lock();
    let written = if args.json {
        let report = serde_json::json!({"version": 1, "checks": findings});
        writeln!(out, "{report:#}")
    } else {
        findings
            .iter()
            .try_for_each(|finding| write!(out, "{finding}"))
    };
    let worst = findings.iter().map(|finding| finding.verdict).max();
    match Exit::written(written) {
        Exit::Done if worst == Some(Severity::Bad) => Exit::Failed,
        exit => exit,
    }
}

/// The facts that the checks look at.
#[derive(Clone, Debug)]
struct HostFacts {
    huge_pages: Option<String>,
    defrag: Option<String>,
    overcommit: Option<u64>,
    swappiness: Option<u64>,
    zone_reclaim: Option<u64>,
    swap: Bytes,
    has_pressure: bool,
    cgroup: Option<CgroupFigures>,
    memlock: Rlimit,
    descriptors: Rlimit,
    file_size: Rlimit,
    /// The limit of processes and threads of this user. Root has none.
    processes: Rlimit,
    tasks: Option<TaskQuota>,
    same_page_merging: Option<u64>,
    guests: GuestPrograms,
}

impl HostFacts {
    fn this() -> HostFacts {
        let figures = ProcHost::open()
            .and_then(|mut host| host.read(Duration::ZERO))
            .unwrap_or_default();
        HostFacts {
            guests: GuestPrograms::here(),
            swap: figures.swap,
            has_pressure: figures.pressure.is_some(),
            cgroup: figures.cgroup,
            memlock: match may_lock() {
                true => unlimited(),
                false => getrlimit(Resource::Memlock),
            },
            descriptors: getrlimit(Resource::Nofile),
            file_size: getrlimit(Resource::Fsize),
            processes: match rustix::process::geteuid().is_root() {
                true => unlimited(),
                false => getrlimit(Resource::Nproc),
            },
            ..HostFacts::under(Path::new("/"))
        }
    }

    fn under(root: &Path) -> HostFacts {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let number = |path: &str| text(path)?.trim().parse().ok();
        let mm = "sys/kernel/mm";
        HostFacts {
            huge_pages: text(&format!("{mm}/transparent_hugepage/enabled")).map(chosen),
            defrag: text(&format!("{mm}/transparent_hugepage/defrag")).map(chosen),
            overcommit: number("proc/sys/vm/overcommit_memory"),
            swappiness: number("proc/sys/vm/swappiness"),
            zone_reclaim: number("proc/sys/vm/zone_reclaim_mode"),
            same_page_merging: number(&format!("{mm}/ksm/run")),
            guests: GuestPrograms::default(),
            swap: Bytes::ZERO,
            has_pressure: false,
            cgroup: None,
            memlock: unlimited(),
            descriptors: unlimited(),
            file_size: unlimited(),
            processes: unlimited(),
            tasks: task_quota::tightest(root),
        }
    }
}

fn unlimited() -> Rlimit {
    Rlimit {
        current: None,
        maximum: None,
    }
}

/// The word in brackets, as in `always [madvise] never`.
fn chosen(text: String) -> String {
    let inside = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or_else(|| text.trim().to_owned(), |(word, _)| word.to_owned())
}

fn examine(host: &HostFacts) -> Vec<Finding> {
    vec![
        huge_pages(host),
        defrag(host),
        overcommit(host),
        swap(host),
        memlock(host),
        cgroup(host),
        pressure(host),
        descriptors(host),
        file_size(host),
        threads(host),
        zone_reclaim(host),
        same_page_merging(host),
        guest_programs::libvirt(&host.guests),
        guest_programs::qemu(&host.guests),
    ]
}

fn huge_pages(host: &HostFacts) -> Finding {
    let why =
        "memory in 4 KiB pages goes back about 30 times slower: a second for 8 GiB, not 30 ms";
    match host.huge_pages.as_deref() {
        Some(setting @ ("always" | "madvise")) => Finding::ok("huge pages", setting),
        Some(setting) => Finding::ok("huge pages", setting).bad(
            why,
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        None => Finding::ok("huge pages", "this kernel has none")
            .bad(why, "use a kernel with CONFIG_TRANSPARENT_HUGEPAGE"),
    }
}

fn defrag(host: &HostFacts) -> Finding {
    match host.defrag.as_deref() {
        Some("never") => Finding::ok("huge pages: defrag", "never").warn(
            "the arena gets a huge page only where one lies ready; the rest is 4 KiB pages, slow to give back",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/defrag",
        ),
        Some(setting) => Finding::ok("huge pages: defrag", setting),
        None => Finding::ok("huge pages: defrag", "this kernel does not say"),
    }
}

fn overcommit(host: &HostFacts) -> Finding {
    let found = |mode| format!("vm.overcommit_memory = {mode}");
    match host.overcommit {
        Some(2) => Finding::ok("overcommit", found(2)).bad(
            "the address space that the arena reserves counts as used: programs are refused memory that is there",
            "sudo sysctl vm.overcommit_memory=0",
        ),
        Some(mode) => Finding::ok("overcommit", found(mode)),
        None => Finding::ok("overcommit", "this kernel does not say"),
    }
}

fn swap(host: &HostFacts) -> Finding {
    let swappiness = host.swappiness.unwrap_or(SWAPPINESS_MAX);
    if host.swap == Bytes::ZERO {
        return Finding::ok("swap", "none");
    }
    let found = format!("{} of swap, vm.swappiness = {swappiness}", host.swap);
    if swappiness > SWAPPINESS_MAX {
        Finding::ok("swap", found).warn(
            "the kernel would rather swap than drop file pages: a get may wait for the disk",
            "sudo sysctl vm.swappiness=10",
        )
    } else {
        Finding::ok("swap", found)
    }
}

fn memlock(host: &HostFacts) -> Finding {
    match host.memlock.current {
        Some(limit) if host.swap > Bytes::ZERO => Finding::ok(
            "locked memory",
            format!("{} allowed, with swap on", Bytes(limit)),
        )
        .warn(
            "what must not be swapped cannot be locked",
            "ulimit -l unlimited   (as a service: LimitMEMLOCK=infinity)",
        ),
        Some(limit) => Finding::ok("locked memory", format!("{} allowed", Bytes(limit))),
        None => Finding::ok("locked memory", "no limit"),
    }
}

fn cgroup(host: &HostFacts) -> Finding {
    let Some(cgroup) = host.cgroup else {
        return Finding::ok("cgroup", "no limit under the host's memory");
    };
    let found = format!("limit {}, {} used", cgroup.limit, cgroup.usage);
    if cgroup.idle() < CGROUP_MIN {
        Finding::ok("cgroup", found).warn(
            "the arena lives within this limit, and little is left of it",
            "systemctl edit sublet   (MemoryMax=infinity), or start it outside the container",
        )
    } else {
        Finding::ok("cgroup", found)
    }
}

fn pressure(host: &HostFacts) -> Finding {
    if host.has_pressure {
        return Finding::ok("pressure figures", "/proc/pressure/memory");
    }
    Finding::ok("pressure figures", "the kernel keeps none").warn(
        "growth is braked by refaults, stalls and swapping alone",
        "add psi=1 to the kernel's command line",
    )
}

fn file_size(host: &HostFacts) -> Finding {
    match host.file_size.current {
        Some(limit) => Finding::ok("file size", format!("{} at most", Bytes(limit))).warn(
            "a backing is not written beyond it, and swap is written through where its stage is larger",
            "ulimit -f unlimited   (as a service: LimitFSIZE=infinity)",
        ),
        None => Finding::ok("file size", "no limit"),
    }
}

fn descriptors(host: &HostFacts) -> Finding {
    match host.descriptors.maximum {
        Some(limit) if limit < DESCRIPTORS_MIN => Finding::ok("open files", limit.to_string())
            .warn(
                "a connection takes one: beyond the limit, clients wait",
                "ulimit -Hn 65536   (as a service: LimitNOFILE=65536)",
            ),
        Some(limit) => Finding::ok("open files", limit.to_string()),
        None => Finding::ok("open files", "no limit"),
    }
}

fn threads(host: &HostFacts) -> Finding {
    let why = "where the kernel makes no more threads, io_uring cannot go on: requests of disks take long, and fail after 30 s";
    let said = |tasks: TaskQuota| format!("{} of {} in the cgroup", tasks.now, tasks.limit);
    match (host.tasks, host.processes.current) {
        (Some(tasks), _) if tasks.remaining() < TASKS_MIN => Finding::ok("threads", said(tasks))
            .warn(
                why,
                "systemctl edit sublet   (TasksMax=infinity), or raise pids.max of the cgroup",
            ),
        (_, Some(limit)) if limit < TASKS_MIN => {
            Finding::ok("threads", format!("{limit} for this user"))
                .warn(why, "ulimit -u 4096   (as a service: LimitNPROC=4096)")
        }
        (Some(tasks), _) => Finding::ok("threads", said(tasks)),
        (None, Some(limit)) => Finding::ok("threads", format!("{limit} for this user")),
        (None, None) => Finding::ok("threads", "no limit"),
    }
}

fn zone_reclaim(host: &HostFacts) -> Finding {
    match host.zone_reclaim {
        Some(mode) if mode != 0 => {
            Finding::ok("zone reclaim", format!("vm.zone_reclaim_mode = {mode}")).warn(
                "a full NUMA node drops file pages while another has memory free",
                "sudo sysctl vm.zone_reclaim_mode=0",
            )
        }
        _ => Finding::ok("zone reclaim", "off"),
    }
}

fn same_page_merging(host: &HostFacts) -> Finding {
    let found = match host.same_page_merging {
        Some(1) => "on; it does not touch the arena",
        _ => "off",
    };
    Finding::ok("same-page merging", found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> HostFacts {
        HostFacts {
            huge_pages: Some("madvise".into()),
            defrag: Some("madvise".into()),
            overcommit: Some(0),
            swappiness: Some(60),
            zone_reclaim: Some(0),
            swap: Bytes::gib(1),
            has_pressure: true,
            cgroup: None,
            memlock: unlimited(),
            descriptors: unlimited(),
            file_size: unlimited(),
            processes: unlimited(),
            tasks: Some(TaskQuota {
                limit: 4915,
                now: 100,
            }),
            same_page_merging: Some(1),
            guests: GuestPrograms::default(),
        }
    }

    fn not_well(host: &HostFacts) -> Vec<(&'static str, Severity)> {
        examine(host)
            .into_iter()
            .filter(|finding| finding.verdict != Severity::Ok)
            .inspect(|finding| assert!(!finding.why.is_empty() && !finding.remedy.is_empty()))
            .map(|finding| (finding.check, finding.verdict))
            .collect()
    }

    #[test]
    fn a_healthy_host_is_left_in_peace() {
        assert_eq!(not_well(&healthy()), []);
    }

    #[test]
    fn each_trouble_is_found_alone() {
        type Spoil = fn(&mut HostFacts);
        let troubles: [(&str, Severity, Spoil); 13] = [
            ("huge pages", Severity::Bad, |h| {
                h.huge_pages = Some("never".into())
            }),
            ("huge pages", Severity::Bad, |h| h.huge_pages = None),
            ("huge pages: defrag", Severity::Warn, |h| {
                h.defrag = Some("never".into())
            }),
            ("overcommit", Severity::Bad, |h| h.overcommit = Some(2)),
            ("swap", Severity::Warn, |h| h.swappiness = Some(100)),
            ("locked memory", Severity::Warn, |h| {
                h.memlock.current = Some(8 << 20)
            }),
            ("cgroup", Severity::Warn, |h| {
                h.cgroup = Some(CgroupFigures {
                    limit: Bytes::mib(300),
                    usage: Bytes::mib(200),
                    ..CgroupFigures::default()
                });
            }),
            ("pressure figures", Severity::Warn, |h| {
                h.has_pressure = false
            }),
            ("open files", Severity::Warn, |h| {
                h.descriptors.maximum = Some(1024)
            }),
            ("file size", Severity::Warn, |h| {
                h.file_size.current = Some(1 << 20)
            }),
            ("threads", Severity::Warn, |h| {
                h.tasks = Some(TaskQuota {
                    limit: 100,
                    now: 90,
                });
            }),
            ("threads", Severity::Warn, |h| {
                h.processes.current = Some(64)
            }),
            ("zone reclaim", Severity::Warn, |h| h.zone_reclaim = Some(1)),
        ];
        for (check, verdict, spoil) in troubles {
            let mut host = healthy();
            spoil(&mut host);
            assert_eq!(not_well(&host), [(check, verdict)]);
        }
    }

    #[test]
    fn without_swap_little_locked_memory_is_no_trouble() {
        let mut host = healthy();
        host.swap = Bytes::ZERO;
        host.memlock.current = Some(0);
        assert_eq!(not_well(&host), []);
    }

    #[test]
    fn settings_are_read_where_the_kernel_keeps_them() {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in [
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always madvise [never]\n",
            ),
            (
                "sys/kernel/mm/transparent_hugepage/defrag",
                "always defer [defer+madvise] madvise never\n",
            ),
            ("sys/kernel/mm/ksm/run", "1\n"),
            ("proc/sys/vm/overcommit_memory", "2\n"),
            ("proc/sys/vm/swappiness", "10\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
        let host = HostFacts::under(root.path());
        assert_eq!(host.huge_pages.as_deref(), Some("never"));
        assert_eq!(host.defrag.as_deref(), Some("defer+madvise"));
        assert_eq!((host.overcommit, host.swappiness), (Some(2), Some(10)));
        assert_eq!((host.same_page_merging, host.zone_reclaim), (Some(1), None));
    }
}
